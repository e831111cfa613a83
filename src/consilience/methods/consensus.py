"""Algorithm 1 of the paper: the only consensus loop, for simulations, clusters and sites alike.

`Consensus.rounds` shows its four lines: publish predictions f, trust w, pseudo-labels psi, training.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast, final

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import implements
from consilience.base.errors import ConsilienceError
from consilience.base.options import Options, option
from consilience.base.rows import count
from consilience.core.wire import Wire
from consilience.methods import METHODS
from consilience.methods.aliases import alias_of
from consilience.methods.learning import learning_named
from consilience.methods.learning.joint import Joint
from consilience.methods.learning.protocol import Learning
from consilience.methods.listening import listening_named
from consilience.methods.listening.everyone import Everyone
from consilience.methods.listening.protocol import Listening, ListeningContext
from consilience.methods.listening.sparse import Sparse
from consilience.methods.memory import ConsensusMemory
from consilience.methods.mixing import MEANS, SCHEDULES, Mixing
from consilience.methods.protocol import DeclaresSamples, Exchange, Record, Round, Start, check_wire, wrong_checkpoint
from consilience.methods.refining import PRIORS, DualVariables, EvenClasses
from consilience.methods.trust import trust_named
from consilience.methods.trust.protocol import Trust, check_rule
from consilience.methods.trust.remembering import Gate
from consilience.methods.trust.simple import Default, Paper
from consilience.tasks.protocol import Array, Task

HEADS_NOTE = (
    "Every agent learns one layer on a backbone: by default exact steps, dual variables, the geometric mean, samples "
    "as weights, the trust rule gate and no warm-up (docs/how-to/pretrained.md). What you set yourself is kept."
)
"""Says what was chosen for such agents."""


@METHODS.add("consensus")
@final
@dataclass(frozen=True)
class Consensus(Options):
    """Collaborative learning via prediction consensus (Fan, Mendler-Dünner and Jaggi, 2023).

    Rounds include the warm-up, in which agents train alone. Agents use predictions as they were published, their own
    included. The default trust rule is that of the task: `stratified` for classes, or `paper` if trust is kept over
    rounds. `Consensus(trust=Paper())` is the method of the paper. `methods/aliases.py` names other combinations.
    `trust` may also be a function (predictions) -> matrix.
    """

    warmup: int = option(5, "rounds of training alone before the first exchange", at_least=0)
    lam: float = option(0.5, "weight of the disagreement with the pseudo-labels", at_least=0, below=1e6)
    trust: Trust | Callable[..., Any] = option(
        Default(),
        "the trust rule: default | stratified | paper | centred | uniform | ...",
        resolve=trust_named,
    )
    schedule: str = option(
        "dynamic", "trust is computed dynamic (every round) | every-K (rounds) | static (once)", pattern=SCHEDULES
    )
    wire: Wire = option(Wire(), "form of published predictions")
    listening: Listening = option(
        Everyone(), "whom agents hear: everyone | sparse (some peers each)", resolve=listening_named
    )
    prior: str = option("unknown", "class frequencies that pseudo-labels are given: unknown | even", one_of=PRIORS)
    mean: str = option(
        "arithmetic", "mean of predictions in pseudo-labels: arithmetic | geometric (of logits)", one_of=MEANS
    )
    most_samples: float = option(
        0.0,
        "a peer counts by its number of samples, at most this many times the median; 0 = all count the same",
        at_least=0,
    )
    duals: float = option(0.0, "step of the dual variables (ADMM); 0 turns them off", at_least=0, below=1.618)
    learning: Learning = option(
        Joint(),
        "private and shared samples: joint (in every step) | sequential (private, publish, shared) | revisit (shared, "
        "private) | one-set",
        resolve=learning_named,
    )

    uses_shared = True

    @classmethod
    def for_heads(cls) -> "Consensus":
        """The method for agents of which one linear layer is learned and solved exactly."""
        return cls(warmup=0, lam=0.25, trust=Gate(), mean="geometric", most_samples=3.0, duals=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rule(self.trust)
        if self.duals and (not self.learning.soft or getattr(self.trust, "needs_classes", False)):
            raise ConsilienceError(
                "dual variables correct soft pseudo-labels that are learned together with private labels. Set duals=0, "
                "or use learning=joint and a trust rule that weighs peers."
            )
        if isinstance(self.trust, Default) and self.schedule != "dynamic":  # only one matrix can be kept over rounds
            object.__setattr__(self, "trust", Paper())

    def rounds(self, agents: LocalAgents, shared: Array, exchange: Exchange, start: Start) -> Iterator[Round]:
        """Algorithm 1. `agents` are those of this process; the exchange supplies the other agents' predictions."""
        self._check(agents.first.task, count(shared))
        mixing = self._mixing(exchange)
        context = ListeningContext(agents, exchange, mixing, start.seed)
        memory = self._memory(start, agents.names)
        t, own = start.done, dict[str, Array]()
        while t < start.rounds:
            t += 1
            if t <= self.warmup or not self.lam:  # everyone trains alone
                losses = self.learning.warm_up(agents, shared, t, own)
                own = self._published(agents, shared)
                yield Round(t, Record(own, losses, dict.fromkeys(agents.names, 0)), memory.packed())
                continue
            private = self.learning.train_first(agents, shared)
            if self.learning.trains_first or not own:
                own = self._published(agents, shared)  # f_i(X*)
            heard = self.listening.listen(context, t, own, memory)  # f_j, w_ij, psi_i
            for refine in self.refinements:
                heard = refine(agents, own, heard)
            t, psi, memory = heard.number, heard.psi, heard.memory
            losses = self.learning.learn(agents, shared, psi, self.lam, private)  # L(f(X_i), y_i) + lam dist(f, psi)
            own = self._published(agents, shared)
            record = heard.record(own, losses, count(shared), self._hears_last_round)
            del heard, psi  # large with many agents
            yield Round(t, record, memory.packed())

    @property
    def refinements(self) -> tuple[EvenClasses | DualVariables, ...]:
        """Changes of the pseudo-labels before agents learn from them, in this order."""
        prior = (EvenClasses(),) if self.prior == "even" else ()
        return (*prior, DualVariables(self.duals)) if self.duals else prior

    @property
    def label(self) -> str:
        """The alias of the combination; without one, the schedule or the trust rule."""
        alias = alias_of(self)
        if alias is not None:
            return alias.name
        if self.schedule != "dynamic":
            return self.schedule
        return "consensus" if self.trust == Default() else self._rule.replace(" ", "-")

    @property
    def title(self) -> str:
        """The name in tables, with the parts that differ from the default."""
        alias = alias_of(self)
        words = []
        if alias is None and self.schedule != "dynamic":
            words += [self.schedule] + ([] if isinstance(self.trust, Paper) else [self._rule])
        elif (alias is None and self.trust != Default()) or (alias is not None and alias.name == "paper"):
            words += [self._rule]
        if isinstance(self.listening, Sparse):
            words += [f"{self.listening.peers} + {self.listening.random_peers} peers"]
        if alias is None and not isinstance(self.learning, Joint):
            words += [getattr(self.learning, "name", "own learning")]
        words += ["duals"] if self.duals else []
        name = "consensus" if alias is None or alias.name == "paper" else alias.title
        return f"{name} ({', '.join(words)})" if words else name

    @property
    def _rule(self) -> str:
        return str(getattr(self.trust, "name", "own rule"))

    @property
    def _hears_last_round(self) -> bool:
        """Whether agents exchange the predictions that were recorded after the last round."""
        return not self.learning.trains_first and self.wire.form != "label"

    def _mixing(self, exchange: Exchange) -> Mixing:
        """How trust and pseudo-labels are made, with the samples that agents declare."""
        samples = cast(DeclaresSamples, exchange).samples if implements(exchange, DeclaresSamples) else {}
        return Mixing(self.trust, self.schedule, self.warmup, self.mean, self.duals, self.most_samples, samples)

    def _published(self, agents: LocalAgents, shared: Array) -> dict[str, Array]:
        """f_i(X*) as everyone reads it. Only the exchange reduces it to labels, so that scores use probabilities."""
        f = agents.published(shared)
        return f if self.wire.form == "label" else {name: self.wire.rounded(own) for name, own in f.items()}

    def _memory(self, start: Start, names: tuple[str, ...]) -> ConsensusMemory:
        """The memory in `start`, after a check that it is that of this method."""
        memory = ConsensusMemory.unpacked(start.memory)
        kinds = {"trust"}
        kinds |= {"peers"} if isinstance(self.listening, Sparse) else set()
        in_hindsight = bool(self.duals) and self.mean == "geometric" and isinstance(self.listening, Everyone)
        kinds |= {"duals"} if self.duals and not in_hindsight else set()
        known = [memory.agents[name].kinds for name in names if name in memory.agents]
        if any(kind != kinds for kind in known) or (known and bool(memory.deviations) != in_hindsight):
            raise wrong_checkpoint(start.done, self.title)
        return memory

    def _check(self, task: Task, samples: int) -> None:
        """Raises an error if an option does not fit the task or the shared data."""
        if getattr(self.trust, "needs_classes", False) and not task.has_classes:
            raise ConsilienceError(
                f"{self.title} makes labels of the probabilities of classes, and {task.name} has none. Use consensus, "
                "or cronus."
            )
        if self.prior != "unknown" and not task.has_classes:
            raise ConsilienceError(f"prior is {self.prior!r}, which is about classes; {task.name} has none.")
        if self.mean == "geometric" and task.scale == "values":
            raise ConsilienceError(
                f"mean is 'geometric', which is for probabilities; {task.name} has none. Use mean=arithmetic."
            )
        self.learning.check(task, samples, self.warmup)
        check_wire(self.wire, task)
