"""Algorithm 1 of the paper: the only consensus loop, for simulation, cluster and deployment alike."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from consilience.agents.protocol import Agent, Losses, predicted
from consilience.agents.team import Team
from consilience.core.balance import aligned
from consilience.core.duals import insisted
from consilience.core.labels import majority_labels, pseudo_labels
from consilience.core.trust import restrict
from consilience.core.wire import Wire
from consilience.errors import ConsilienceError
from consilience.methods import METHODS
from consilience.methods.hearing import RULE, Hearing, hear_some, wanted_peers
from consilience.methods.phases import after, digests, train_first
from consilience.methods.protocol import Exchange, Memory, Record, Round, Start, check_wire
from consilience.methods.trust import trust_named
from consilience.methods.trust.default import Default
from consilience.methods.trust.ktpfl import KTpFL
from consilience.methods.trust.paper import Paper
from consilience.methods.trust.protocol import ByClass, Context, Trust, check_rule, opinion
from consilience.methods.trust.uniform import Uniform
from consilience.options import Options, option
from consilience.rows import count
from consilience.tasks.protocol import Array, Task

LABELS = ("soft", "majority")
PRIORS = ("unknown", "even")
PHASES = ("together", "apart")
SCHEDULES = r"dynamic|static|every-[1-9]\d*"
_TOLD = "told/"
"""Before what a trust rule keeps for an agent that was told something else than the others."""


@METHODS.add("consensus")
@final
@dataclass(frozen=True)
class Consensus(Options):
    """Collaborative learning via prediction consensus.

    Rounds include the warm-up, in which agents train alone (lambda 0). Everyone uses what was published, the agent
    itself included. `trust` is a rule, or any function (predictions) -> matrix; by default that of the task, which for
    classes is `stratified`, or `paper` where trust is kept over rounds. `Consensus(trust=Paper())`, for short
    "dynamic", is the method as the paper has it. `Consensus(trust=KTpFL(), phases="apart")` is KT-pFL, "kt-pfl".
    """

    warmup: int = option(5, "rounds of training alone before the first exchange", at_least=0)
    lam: float = option(0.5, "weight of the disagreement with the pseudo-labels", at_least=0, below=1e6)
    schedule: str = option(
        "dynamic", "trust is made dynamic (every round) | every-K (rounds) | static (once)", like=SCHEDULES
    )
    labels: str = option("soft", "soft | majority (one hard vote per agent, no trust)", one_of=LABELS)
    warmup_shared: bool = option(False, "show batch norm the shared data in the warm-up as well; three times slower")
    trust: Trust | Callable[..., Any] = option(
        Default(),
        "whom to believe, from predictions: default | stratified | paper | centred | uniform | ...",
        named=trust_named,
    )
    wire: Wire = option(Wire(), "predictions as they are published")
    peers: int = option(
        0, "peers that an agent hears, those it trusts most of whom it heard before; 0 for all", at_least=0
    )
    random_peers: int = option(4, "others, drawn in every round, that it hears beside these", at_least=1)
    prior: str = option(
        "unknown", "classes of the shared data that pseudo-labels are aligned with: unknown | even", one_of=PRIORS
    )

    phases: str = option(
        "together",
        "together (private and shared samples in every step, lam decides) | apart (private ones, then agents speak, "
        "then the shared ones; all count alike)",
        one_of=PHASES,
    )
    passes: int = option(5, "over the shared data in a round, where phases are apart", at_least=1)
    duals: float = option(
        0.0,
        "how much of its disagreement an agent remembers, so that all come to agree on what fits the labels of all "
        "(ADMM): 1 all of it, 0 nothing",
        at_least=0,
        below=1.618,
    )

    uses_shared = True
    short_forms = ("dynamic", "static", "every-K", "naive", "kt-pfl")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rule(self.trust)
        if self.duals and (self.phases == "apart" or self.labels == "majority"):
            raise ConsilienceError(
                "duals make up for where private labels and soft pseudo-labels, learned together, differ. Leave them "
                "out where phases are apart or labels a majority's."
            )
        if isinstance(self.trust, Default) and self.schedule != "dynamic":  # what is kept over rounds is one matrix
            object.__setattr__(self, "trust", Paper())

    @property
    def label(self) -> str:
        """consensus with the trust rule of the task, naive where trust is uniform, otherwise the schedule."""
        if isinstance(self.trust, Uniform):
            return "naive"
        if isinstance(self.trust, KTpFL) and self.phases == "apart" and self.schedule == "dynamic":
            return "kt-pfl"
        return "consensus" if self.trust == Default() and self.schedule == "dynamic" else self.schedule

    @property
    def title(self) -> str:
        """As in tables."""
        rule = "" if isinstance(self.trust, Paper) else f", {getattr(self.trust, 'name', 'own rule')}"
        short = self.label in ("naive", "consensus", "kt-pfl")
        words = [] if short else [f"{self.label}{rule}"]
        words += [f"{self.peers} + {self.random_peers} peers"] if self.peers else []
        words += ["apart"] if self.phases == "apart" and self.label != "kt-pfl" else []
        words += ["duals"] if self.duals else []
        name = ("KT-pFL" if self.label == "kt-pfl" else self.label) if short else "consensus"
        return f"{name} ({', '.join(words)})" if words else name

    def short_form(self, name: str) -> "Consensus | None":
        """dynamic, static and every-K have the paper's trust, unless a rule is chosen, and naive uniform trust."""
        if name == "naive":
            return replace(self, trust=Uniform(), schedule="dynamic")
        if name == "kt-pfl":
            return replace(self, trust=KTpFL(), schedule="dynamic", phases="apart")
        if name in ("dynamic", "static") or name.startswith("every-"):
            return replace(self, schedule=name, trust=Paper() if type(self.trust) in (Default, Uniform) else self.trust)
        return None

    def rounds(self, agents: Team, shared: Array, exchange: Exchange, start: Start) -> Iterator[Round]:
        """Algorithm 1. `agents` are those that live in this process; the exchange makes up the difference."""
        self._check(agents.first.task)
        memory, t = self._memory(start, agents.names), start.done
        own: dict[str, Array] = {}
        while t < start.rounds:
            t += 1
            together = t > self.warmup and self.lam > 0
            early: dict[str, Losses] = {}
            if together and self.phases == "apart":
                early, own = train_first(agents, shared), self._published(agents, shared)
            if not own and (together or self.warmup_shared):
                own = self._published(agents, shared)
            said = Hearing(sent=dict.fromkeys(agents.names, 0), memory=memory)
            if together:
                hear, before = self._hear_some if self.peers else self._hear_all, memory
                said = hear(agents, exchange, t, own, memory, start.seed)
                t, memory = max(t, said.number), said.memory
            psi = said.psi if together else own if self.warmup_shared else {}
            if together and self.prior == "even":
                even = np.full(agents.first.outputs, 1 / agents.first.outputs)
                psi |= {name: aligned(labels, even) for name, labels in psi.items()}
            if together and self.duals:
                psi, memory = self._insisted(agents.first.task, own, psi, memory, before)
            if together and self.phases == "apart":
                said = replace(said, received={})  # not what they said after the last round
                losses = agents.each(partial(self._digested, shared, psi, early))
            else:
                losses = agents.train(shared, psi, self.lam if together else 0.0)
            said.psi.clear()  # they are not needed any more, and of many agents they are large
            if together:
                losses = {name: predicted(one, count(shared)) for name, one in losses.items()}
            own = self._published(agents, shared)
            record = Record(own, losses, said.sent, said.heard, said.received, said.trust, said.by_class, said.peers)
            yield Round(t, record, memory)

    def _insisted(
        self, task: Task, own: dict[str, Array], psi: dict[str, Array], memory: Memory, before: Memory
    ) -> tuple[dict[str, Array], Memory]:
        """Pseudo-labels that make up for what agents were off so far, and the memory with that (`core/duals.py`)."""
        scale = "classes" if task.sums_to_one else "values" if task.noisy else "labels"
        labels, kept = {}, dict(memory.own)
        for name, said in own.items():
            u = before.own.get(name, {}).get("duals", np.zeros_like(said))
            if name in psi:
                u, labels[name] = insisted(u, said, psi[name], self.duals, scale)
            kept[name] = kept[name] | {"duals": u}
        return labels, Memory(memory.common, kept)

    def _digested(self, shared: Array, psi: dict[str, Array], early: dict[str, Losses], agent: Agent) -> Losses:
        """The second phase of a round. An agent that is fitted anew learns both at once, as one set: lam = n* / n."""
        labels, pupil = psi.get(agent.name), digests(agent)
        if labels is None:
            return early[agent.name] if pupil is not None else agent.train(shared, None, 0.0)
        if pupil is None:
            return agent.train(shared, labels, count(shared) / agent.samples)
        return after(early[agent.name], pupil.digest(shared, labels, self.passes))

    def _memory(self, start: Start, names: tuple[str, ...]) -> Memory:
        """What `start` holds, if it is this method's."""
        mine = {"trust", "peers"} if self.peers else {"trust"}
        mine |= {"duals"} if self.duals else set()
        kept = [start.memory.own.get(name, mine) for name in names]
        if any({key for key in keys if not key.startswith((_TOLD, RULE))} != mine for keys in kept):
            raise ConsilienceError(
                f"the checkpoint of round {start.done} does not hold what {self.title} keeps for these agents. "
                "Was it made by another method? Resume with the same one, or start again in another folder."
            )
        return start.memory

    def _published(self, agents: Team, shared: Array) -> dict[str, Array]:
        """Predictions on the shared data as everyone will read them."""
        return {name: self.wire.rounded(f) for name, f in agents.published(shared).items()}

    def _hear_all(
        self, agents: Team, exchange: Exchange, t: int, own: dict[str, Array], memory: Memory, seed: int
    ) -> Hearing:
        """Everyone hears everyone who is there; some may have been told something else than the others."""
        roster, answer = exchange.roster, exchange.gather(t, own)
        t, received = max(t, answer.number), answer.predictions
        here = np.array([roster.index(name) for name in agents.names])
        heard = tuple(name for name in roster if name in received)
        present = np.array([name in received for name in roster])
        f = np.stack([received[name] for name in heard])
        w, psi, found, by_class = self._believed(agents, f, heard, present, here, t, memory)
        for told, victims in _views(answer.told, psi):
            f = np.stack([told.get(name, received[name]) for name in heard])
            known = Memory(_kept_of_view(memory, victims[0]), memory.own)
            w_view, psi_view, memory_view, _ = self._believed(agents, f, heard, present, here, t, known)
            found = _with_view(w, psi, found, (w_view, psi_view, memory_view), heard, victims)
        return Hearing(answer.sent, found, t, heard, received, _own_rows(w, here, present), psi, by_class)

    def _hear_some(
        self, agents: Team, exchange: Exchange, t: int, own: dict[str, Array], memory: Memory, seed: int
    ) -> Hearing:
        """Sparse exchange: everyone hears the peers that it trusts most and some others, and judges these alone."""
        period, majority = _period(self.schedule), self.labels == "majority"
        anew = not memory.own or (period > 0 and (t - self.warmup - 1) % period == 0)
        wanted = wanted_peers(agents, exchange, memory, anew, self.peers, self.random_peers, seed, t)
        rule = (Uniform() if majority else self.trust) if anew else None
        return hear_some(agents, exchange, t, own, wanted, memory, rule, majority)

    def _believed(
        self,
        agents: Team,
        f: Array,
        heard: tuple[str, ...],
        present: NDArray[np.bool_],
        here: NDArray[np.intp],
        t: int,
        memory: Memory,
    ) -> tuple[Array, dict[str, Array], Memory, dict[str, Array]]:
        """Whom and what to believe: trust among all heard, pseudo-labels of this process's agents, the memory, and
        trust by class where the rule has it.

        Pseudo-labels take the place of `f`, which is not needed afterwards.
        """
        last_trust = _last_trust(memory, agents.names, here, len(present))
        known = last_trust[np.ix_(here, present)][present[here]]
        period = _period(self.schedule)
        labels: Array | None = None
        by_class: dict[str, Array] = {}
        names = [name for name in agents.names if name in heard]
        if np.isnan(known).any() or (period > 0 and (t - self.warmup - 1) % period == 0):
            rule = Uniform() if self.labels == "majority" else self.trust
            rows = np.array([heard.index(name) for name in names], dtype=np.intp)
            noise = {agent.name: agent.noise for agent in agents}
            noises = np.array([noise.get(name, np.nan) for name in heard])
            said = opinion(rule, f, Context(agents.first.task, heard, rows, noises, t, memory.common))
            last_trust = np.full_like(last_trust, np.nan)
            last_trust[np.ix_(present, present)] = said.trust
            labels, by_class = said.labels, _rows_by_class(said.by_class, here, present)
            if labels is not None and period != 1:
                raise ConsilienceError(
                    f"this trust rule weighs peers anew for every sample, so that trust cannot be kept. Use the "
                    f"schedule dynamic instead of {self.schedule}, or a rule that makes one matrix, such as paper."
                )
            rows_of = zip(agents.names, last_trust[here], strict=True)
            memory = Memory(said.memory, {name: {"trust": row} for name, row in rows_of})
        w = restrict(last_trust[present], present)
        if labels is not None:
            psi = dict(zip(names, labels, strict=True))
        elif self.labels == "majority":
            psi = dict.fromkeys(names, majority_labels(f))
        else:
            mixed = pseudo_labels(w, f, out=f)
            psi = {name: mixed[heard.index(name)] for name in names}
        return w, psi, memory, by_class

    def _check(self, task: Task) -> None:
        """Refuses what makes no sense for the task."""
        if self.labels == "majority" and not task.sums_to_one:
            raise ConsilienceError(
                f"labels is 'majority', which is a vote for one class; {task.name} has no such. Use labels 'soft'."
            )
        if self.prior != "unknown" and not task.sums_to_one:
            raise ConsilienceError(f"prior is {self.prior!r}, which is about classes; {task.name} has none.")
        check_wire(self.wire, task)


def _rows_by_class(found: ByClass | None, here: NDArray[np.intp], present: NDArray[np.bool_]) -> dict[str, Array]:
    """Trust by class of this process's agents over the roster, (agents, roster, classes), as it is recorded."""
    if found is None:
        return {}
    full = np.zeros((len(present), len(present), len(found.samples)))
    full[np.ix_(present, present)] = np.moveaxis(found.trust, 0, 2)
    return {"trust": full[here], "samples": found.samples, "unsure": found.unsure}


def _last_trust(memory: Memory, names: tuple[str, ...], here: NDArray[np.intp], agents: int) -> Array:
    """The trust of this process's agents in the roster that was made last; NaN for what is not known."""
    matrix = np.full((agents, agents), np.nan)
    for name, row in zip(names, here, strict=True):
        if name in memory.own:
            matrix[row] = memory.own[name]["trust"]
    return matrix


def _views(told: dict[str, dict[str, Array]], psi: dict[str, Array]) -> list[tuple[dict[str, Array], list[str]]]:
    """What some of this process's agents were told alone, each with those who were told the same."""
    groups: dict[int, tuple[dict[str, Array], list[str]]] = {}
    for name in psi:
        if told.get(name):
            groups.setdefault(id(told[name]), (told[name], []))[1].append(name)
    return list(groups.values())


def _kept_of_view(memory: Memory, victim: str) -> dict[str, Array]:
    """What the rule kept when it last judged by what this agent was told."""
    kept = memory.own.get(victim, {})
    return {key.removeprefix(_TOLD): value for key, value in kept.items() if key.startswith(_TOLD)}


def _with_view(
    w: Array,
    psi: dict[str, Array],
    memory: Memory,
    view: tuple[Array, dict[str, Array], Memory],
    heard: tuple[str, ...],
    victims: list[str],
) -> Memory:
    """Puts what `victims` believe from what they were told into `w` and `psi`, and returns the memory with theirs."""
    w_view, psi_view, memory_view = view
    own = dict(memory.own)
    for name in victims:
        w[heard.index(name)], psi[name] = w_view[heard.index(name)], psi_view[name]
        rule = {f"{_TOLD}{key}": value for key, value in memory_view.common.items()}
        own[name] = {"trust": memory_view.own[name]["trust"]} | rule
    return Memory(memory.common, own)


def _own_rows(w: Array, here: NDArray[np.intp], present: NDArray[np.bool_]) -> Array:
    """Rows of this process's agents over the roster. An agent whom nobody heard believes only itself this round."""
    full = np.eye(len(present))
    full[present] = 0
    full[np.ix_(present, present)] = w
    return full[here]


def _period(schedule: str) -> int:
    """How often trust is made: 1 for dynamic, K for every-K, 0 for once."""
    return {"dynamic": 1, "static": 0}[schedule] if "-" not in schedule else int(schedule.partition("-")[2])
