"""Algorithm 1 of the paper: the only consensus loop, for simulation, cluster and deployment alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from consilience.agents.protocol import Agent, Array, Losses
from consilience.core import trust as rules
from consilience.core.labels import majority_labels, pseudo_labels
from consilience.errors import ConsilienceError
from consilience.runtime.exchange import Exchange, checked_predictions

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
    entropy_offset: float = rules.OFFSET
    entropy_floor: float = rules.FLOOR
    labels: str = "soft"
    """soft | majority (one hard vote per agent, no trust)."""
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


@dataclass(frozen=True)
class Start:
    """Where the loop takes up: the rounds already done, and the trust matrix kept from them."""

    rounds_done: int = 0
    kept: Array | None = None


def consensus(
    agents: Sequence[Agent],
    shared: Array,
    exchange: Exchange,
    method: Method,
    after_round: Callable[[Round], None],
    start: Start | None = None,
) -> None:
    """Algorithm 1. `agents` are those that live in this process; the exchange makes up the difference."""
    start = start or Start()
    kept = start.kept
    own = [exchange.roster.index(a.name) for a in agents]
    spoken = {a.name: _published(a, shared) for a in agents}
    for t in range(start.rounds_done + 1, method.rounds + 1):
        psi: dict[str, Array] = {}
        w, names, sent = None, (), dict.fromkeys(spoken, 0)
        if t > method.warmup and method.lam > 0:
            heard = exchange.gather(t, spoken)
            sent = heard.sent
            names = tuple(name for name in exchange.roster if name in heard.predictions)
            f = np.stack([heard.predictions[name] for name in names])
            present = np.array([name in heard.predictions for name in exchange.roster])
            due = method.period > 0 and (t - method.warmup - 1) % method.period == 0
            if kept is None or due or np.isnan(kept[np.ix_(present[own], present)]).any():
                kept = _whom_to_believe(method, agents, own, f, present)
            w = _over_heard(kept, own, present)
            psi = _what_to_believe(method, agents, w[:, present], f, present[own])
        losses = {a.name: a.train(shared, psi.get(a.name), method.lam if a.name in psi else 0.0) for a in agents}
        spoken = {a.name: _published(a, shared) for a in agents}
        after_round(Round(t, spoken, names, losses, w, sent, kept))


def _published(agent: Agent, shared: Array) -> Array:
    f = agent.predict(shared)
    return checked_predictions(agent.name, f, len(shared), agent.outputs, agent.task)


def _whom_to_believe(
    method: Method, agents: Sequence[Agent], own: list[int], f: Array, present: Array
) -> Array:
    """Trust rows of this process's agents over the roster; NaN where someone was not heard."""
    position = np.cumsum(present) - 1
    rows = [i for i in own if present[i]]
    if method.trust == "naive" or method.labels == "majority":
        w = rules.uniform_trust(len(f))[position[rows]]
    elif agents[0].task == "regression":
        scale = np.array([a.noise for a, i in zip(agents, own, strict=True) if present[i]])
        w = rules.gaussian_trust(f, scale, position[rows])
    elif method.similarity == "cosine":
        w = rules.cosine_trust(f)[position[rows]]
    else:
        w = rules.entropy_trust(f, method.entropy_offset, method.entropy_floor)[position[rows]]
    full = np.full((len(own), len(present)), np.nan)
    full[np.ix_(present[own], present)] = w
    return full


def _over_heard(kept: Array, own: list[int], present: Array) -> Array:
    """Kept trust over those heard now. An agent whom nobody heard believes only itself this round."""
    w = np.zeros_like(kept)
    in_touch = present[own]
    w[np.ix_(in_touch, present)] = rules.restrict(kept[in_touch], present)
    for row, i in enumerate(own):
        if not in_touch[row]:
            w[row, i] = 1
    return w


def _what_to_believe(
    method: Method, agents: Sequence[Agent], w: Array, f: Array, in_touch: Array
) -> dict[str, Array]:
    """Pseudo-labels by agent, for those who took part in the exchange."""
    if method.labels == "majority":
        vote = majority_labels(f)
        return {a.name: vote for a, there in zip(agents, in_touch, strict=True) if there}
    psi = pseudo_labels(w, f)
    return {a.name: own for a, own, there in zip(agents, psi, in_touch, strict=True) if there}


def _period(trust: str) -> int:
    """How often trust is renewed: 1 for dynamic, K for every-K, 0 for never."""
    periods = {"dynamic": 1, "naive": 1, "static": 0}
    if trust in periods:
        return periods[trust]
    head, _, number = trust.partition("-")
    if head == "every" and number.isdecimal() and int(number) > 0:
        return int(number)
    raise ConsilienceError(f"unknown trust {trust!r}. Known: dynamic, static, every-K (such as every-5), naive.")
