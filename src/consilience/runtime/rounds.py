"""Algorithm 1 of the paper: the only consensus loop, for simulation, cluster and deployment alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from consilience.agents.protocol import Agent, Array, Losses
from consilience.core.labels import majority_labels, pseudo_labels
from consilience.core.trust import (
    FLOOR,
    OFFSET,
    cosine_trust,
    entropy_trust,
    gaussian_trust,
    restrict,
    uniform_trust,
)
from consilience.errors import ConsilienceError
from consilience.runtime.exchange import Exchange, checked_predictions
from consilience.runtime.wire import Wire

SIMILARITIES = ("entropy", "cosine")
LABELS = ("soft", "majority")


@dataclass(frozen=True)
class Method:
    """The settings of Algorithm 1. Rounds include the warm-up, in which agents train alone (lambda 0)."""

    trust: str = "dynamic"
    """dynamic | static (the first matrix is kept) | every-K (renewed every K rounds) | naive (uniform)."""
    rounds: int = 20
    warmup: int = 5
    lam: float = 0.5
    similarity: str = "entropy"
    """entropy (weighted cosine) | cosine. Regression always uses the Gaussian kernel."""
    entropy_offset: float = OFFSET
    entropy_floor: float = FLOOR
    labels: str = "soft"
    """soft | majority (one hard vote per agent, no trust)."""
    wire: Wire = field(default_factory=Wire)
    """The form in which predictions are published. Everyone uses what was published, the agent itself included."""
    warmup_shared: bool = False
    """Whether shared data pass through the models in the warm-up, without a loss: batch norm then sees them too."""
    batched: bool = True
    """Whether small models of one architecture train together."""
    period: int = field(init=False, default=1)
    """Trust is renewed every so many rounds; 0 means never."""

    def __post_init__(self) -> None:
        problem = ""
        if self.lam < 0:
            problem = f"lam is {self.lam:g}, but the weight of the disagreement cannot be negative. Use 0.5."
        elif self.rounds < 1 or self.warmup < 0:
            problem = f"rounds is {self.rounds} and warmup {self.warmup}; use rounds >= 1 and warmup >= 0."
        elif self.similarity not in SIMILARITIES:
            problem = f"unknown similarity {self.similarity!r}. Known: {', '.join(SIMILARITIES)}."
        elif self.labels not in LABELS:
            problem = f"unknown labels {self.labels!r}. Known: {', '.join(LABELS)}."
        elif self.entropy_offset < 0 or self.entropy_floor <= 0:
            problem = "entropy_offset must be at least 0 and entropy_floor above 0."
        if problem:
            raise ConsilienceError(problem)
        object.__setattr__(self, "period", _period(self.trust))


OnTrained = Callable[[str], None]
"""Told the name of an agent that has trained in this round."""


@dataclass(frozen=True)
class Round:
    """What happened in one round, seen after its training."""

    number: int
    predictions: dict[str, Array]
    """Of this process's agents, after training."""
    heard: tuple[str, ...]
    losses: dict[str, Losses]
    trust: Array | None
    """(agents of this process, roster); None in the warm-up."""
    sent: dict[str, int]
    kept: Array | None
    """The trust matrix that later rounds may use again."""
    server: dict[str, Array] = field(default_factory=dict)
    """What the server of a federated method keeps from round to round."""
    exchanged: dict[str, Array] = field(default_factory=dict)
    """What was heard before training, which is what everyone predicted after the round before."""


@dataclass(frozen=True)
class Start:
    """Where the loop takes up: the rounds already done, and what was kept from them."""

    rounds_done: int = 0
    kept: Array | None = None
    server: dict[str, Array] = field(default_factory=dict)


def consensus(
    agents: Sequence[Agent],
    shared: Array,
    exchange: Exchange,
    method: Method,
    after_round: Callable[[Round], None],
    start: Start | None = None,
    on_trained: OnTrained = lambda name: None,
) -> None:
    """Algorithm 1. `agents` are those that live in this process; the exchange makes up the difference."""
    from consilience.agents.batched import train_all

    start = start or Start()
    kept = start.kept
    own = np.array([exchange.roster.index(a.name) for a in agents])
    spoken = {a.name: _published(a, shared, method.wire) for a in agents}
    t = start.rounds_done
    while t < method.rounds:
        t += 1
        psi: dict[str, Array] = {}
        w: Array | None = None
        names: tuple[str, ...] = ()
        sent = dict.fromkeys(spoken, 0)
        exchanged: dict[str, Array] = {}
        if t > method.warmup and method.lam > 0:
            heard = exchange.gather(t, spoken)
            t, sent, exchanged = max(t, heard.number), heard.sent, heard.predictions
            names = tuple(name for name in exchange.roster if name in heard.predictions)
            present = np.array([name in heard.predictions for name in exchange.roster])
            f = np.stack([heard.predictions[name] for name in names])
            due = method.period > 0 and (t - method.warmup - 1) % method.period == 0
            if kept is None or due or np.isnan(kept[np.ix_(own, present)][present[own]]).any():
                kept = np.full((len(present), len(present)), np.nan)
                kept[np.ix_(present, present)] = _whom_to_believe(method, agents, names, f)
            w_heard = restrict(kept[present], present)
            psi = _what_to_believe(method, agents, names, w_heard, f)
            w = _own_rows(w_heard, own, present)
        elif method.warmup_shared:
            psi = spoken
        lam = method.lam if w is not None else 0.0
        losses = train_all(agents, shared, psi, lam, method.batched, on_trained)
        spoken = {a.name: _published(a, shared, method.wire) for a in agents}
        after_round(Round(t, spoken, names, losses, w, sent, kept, exchanged=exchanged))


def _published(agent: Agent, shared: Array, wire: Wire) -> Array:
    """Predictions on the shared data as everyone will read them."""
    f = checked_predictions(agent.name, agent.predict(shared), len(shared), agent.outputs, agent.task)
    return wire.rounded(f, agent.task)


def _whom_to_believe(method: Method, agents: Sequence[Agent], names: tuple[str, ...], f: Array) -> Array:
    """Trust among all who were heard. Each row needs only what was heard and, for regression, the agent's own noise.

    Every process computes all rows and uses its own: one matrix product of the same shape everywhere gives the same
    bits everywhere, however the agents are spread over processes.
    """
    if method.trust == "naive" or method.labels == "majority":
        return uniform_trust(len(f))
    if agents[0].task == "regression":
        noise = {agent.name: agent.noise for agent in agents}
        return gaussian_trust(f, np.array([noise.get(name, np.nan) for name in names]))
    if method.similarity == "cosine":
        return cosine_trust(f)
    return entropy_trust(f, method.entropy_offset, method.entropy_floor)


def _what_to_believe(
    method: Method, agents: Sequence[Agent], names: tuple[str, ...], w: Array, f: Array
) -> dict[str, Array]:
    """Pseudo-labels of this process's agents, for those who took part in the exchange. They take the place of `f`."""
    here = [agent.name for agent in agents if agent.name in names]
    if method.labels == "majority":
        return dict.fromkeys(here, majority_labels(f))
    psi = pseudo_labels(w, f, out=f)
    return {name: psi[names.index(name)] for name in here}


def _own_rows(w: Array, own: Array, present: Array) -> Array:
    """Rows of this process's agents over the roster. An agent whom nobody heard believes only itself this round."""
    full = np.eye(len(present))
    full[present] = 0
    full[np.ix_(present, present)] = w
    return full[own]


def _period(trust: str) -> int:
    """How often trust is renewed: 1 for dynamic, K for every-K, 0 for never."""
    periods = {"dynamic": 1, "naive": 1, "static": 0}
    if trust in periods:
        return periods[trust]
    head, _, number = trust.partition("-")
    if head == "every" and number.isdecimal() and int(number) > 0:
        return int(number)
    raise ConsilienceError(f"unknown trust {trust!r}. Known: dynamic, static, every-K (such as every-5), naive.")
