"""Attacks: what an attacker publishes instead of its predictions on the shared data.

Attackers know the predictions of all honest agents before they publish, and may collude. `honest` is always (honest
agents, samples, classes), `own` the attacker's own predictions, (samples, classes); both are probabilities. F is the
mean of `honest` over agents, and c(x) = argmax F(x). "Surely" a class means that its probability is one.
"""

from dataclasses import dataclass, field, is_dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from consilience.base import toml
from consilience.base.errors import ConsilienceError
from consilience.base.options import Options, changed, option, to_table
from consilience.base.registry import Registry
from consilience.core.stratified import reference, strata
from consilience.core.streams import stream

Array = NDArray[np.floating]
Indices = NDArray[np.integer]
T = TypeVar("T")

UNSURE = 0.4
"""Default share of samples on which attacks lie that are honest on the others."""


@dataclass(frozen=True)
class AttackContext:
    """When, by which attacker, and to whom predictions are sent."""

    round: int = 0
    """Number of exchanges before."""
    place: int = 0
    """Index of the attacker among the attackers."""
    seed: int = 0
    """Seed of the run; attackers have random streams of their own."""
    victim: int | None = None
    """Index of the honest agent that receives them; None if all receive the same."""
    memory: dict[str, Array] = field(default_factory=dict)
    """State of this attacker, which an attack may change; nothing else is kept between calls."""


class Attack(Protocol):
    """A function, or a callable dataclass of options.

    With `per_victim = True` it is called once for every victim. With `sees_others = True` it needs the predictions of
    other agents.
    """

    def __call__(self, honest: Array, own: Array, context: AttackContext) -> Array:
        """The published predictions, (samples, classes)."""


ATTACKS = Registry("attack", "consilience.core.attacks", "consilience.attacks")


def attack_named(name: str) -> Attack:
    """An attack by its name, with options in brackets, such as targeted(source=1, target=7); `none` without a name."""
    head, options = toml.call(name or "none", "the attack")
    registered = ATTACKS.find(head)
    attack: Attack = registered() if isinstance(registered, type) else registered
    return changed(attack, options, name) if options else attack


def attack_name(attack: Attack) -> str:
    """The name of an attack, with the options that differ from the default."""
    name = str(getattr(attack, "name", getattr(attack, "__name__", type(attack).__name__)))
    if not is_dataclass(attack):
        return name
    defaults = to_table(type(attack)())
    options = {key: value for key, value in to_table(attack).items() if value != defaults[key]}
    return f"{name}({', '.join(f'{key}={value}' for key, value in options.items())})" if options else name


def per_victim(attack: Attack) -> bool:
    """Whether `attack` sends other predictions to every victim."""
    return bool(getattr(attack, "per_victim", False))


def _seeing_others(attack: T) -> T:
    """Marks a function as an attack that needs the predictions of other agents."""
    attack.sees_others = True  # type: ignore[attr-defined]
    return attack


@ATTACKS.add("none")
def none(honest: Array, own: Array, context: AttackContext) -> Array:
    """No attack: the agent's own predictions."""
    return own


@ATTACKS.add("flip")
def flip(honest: Array, own: Array, context: AttackContext) -> Array:
    """Every class is replaced by the next one: f(x)[k] = own(x)[k - 1 mod C].

    >>> flip(np.zeros((0, 1, 3)), np.array([[0.7, 0.2, 0.1]]), AttackContext()).tolist()
    [[0.1, 0.7, 0.2]]
    """
    return np.roll(own, 1, axis=1)


@ATTACKS.add("random")
def random(honest: Array, own: Array, context: AttackContext) -> Array:
    """f(x) ~ Dirichlet(1, ..., 1), drawn for every sample, round and attacker."""
    draw = stream(context.seed, "attack", "random", context.place, context.round)
    return draw.dirichlet(np.ones(own.shape[1]), len(own)).astype(own.dtype)


@ATTACKS.add("constant")
def constant(honest: Array, own: Array, context: AttackContext) -> Array:
    """Surely the same class for every sample: the one that honest agents predict most often.

    With skewed classes such an attacker agrees with honest agents on most samples without any knowledge.
    """
    classes = np.bincount(honest.mean(axis=0).argmax(axis=1), minlength=own.shape[1])
    return surely(np.full(len(own), classes.argmax()), own)


@ATTACKS.add("least-likely")
def least_likely(honest: Array, own: Array, context: AttackContext) -> Array:
    """Surely argmin F(x): the loss maximisation attack of Roux, Zimmer and Pokutta (arXiv 2402.12265)."""
    return surely(honest.mean(axis=0).argmin(axis=1), own)


@ATTACKS.add("runner-up")
def runner_up(honest: Array, own: Array, context: AttackContext) -> Array:
    """Surely the second most probable class of F(x): the most plausible error."""
    return surely(second(honest.mean(axis=0)), own)


@ATTACKS.add("collusion")
def collusion(honest: Array, own: Array, context: AttackContext) -> Array:
    """Surely c(x) + s(x) mod C, with a shift s(x) from 1 to C - 1 shared by all attackers and rounds."""
    classes = own.shape[1]
    shift = stream(context.seed, "attack", "collusion").integers(1, classes, len(own))
    return surely((honest.mean(axis=0).argmax(axis=1) + shift) % classes, own)


@ATTACKS.add("stale")
def stale(honest: Array, own: Array, context: AttackContext) -> Array:
    """Its predictions of the first exchange, in all rounds."""
    return context.memory.setdefault("first", own)


@ATTACKS.add("worst-honest")
@_seeing_others
def worst_honest(honest: Array, own: Array, context: AttackContext) -> Array:
    """The predictions of the honest agent j furthest from the others: argmax_j sum_x |f_j(x) - F(x)|_1.

    As an honest agent publishes the same values, no rule can reject them by their values alone.
    """
    distance = np.abs(honest - honest.mean(axis=0)).sum(axis=(1, 2), dtype=np.float64)
    return np.asarray(honest[distance.argmax()])


@ATTACKS.add("copy")
@_seeing_others
def copy(honest: Array, own: Array, context: AttackContext) -> Array:
    """The predictions of one honest peer, another one for each attacker: the peer that is copied counts twice."""
    return np.asarray(honest[context.place % len(honest)])


@ATTACKS.add("echo")
@dataclass(frozen=True)
class Echo(Options):
    """F(x) where honest agents are sure; elsewhere surely the runner-up of F(x).

    They are unsure on the `share` of samples with the smallest max F(x). The attacker gains trust by agreement where
    agents are sure, and uses it where they are not.
    """

    share: float = option(UNSURE, "of the samples, the least sure ones, on which to lie", above=0, below=1)
    noise: float = option(
        0.0,
        "share of random noise, so that attackers differ from each other",
        at_least=0,
        below=1,
    )

    def __call__(self, honest: Array, own: Array, context: AttackContext) -> Array:
        """(samples, classes)."""
        mean = honest.mean(axis=0)
        echoed = self.echoed(honest, mean, context)
        lie = np.where(unsure(echoed, self.share)[:, None], surely(second(mean), own), echoed)
        return blurred(lie, self.noise, honest, context)

    def echoed(self, honest: Array, mean: Array, context: AttackContext) -> Array:
        """The predictions that are repeated where they are sure: F(x)."""
        return mean


@ATTACKS.add("echo-each")
@dataclass(frozen=True)
class EchoEach(Echo):
    """As `echo`, with every victim v's own predictions: f_v(x) where v is sure; elsewhere surely the runner-up of F(x).

    Without a victim, such as for a log, the predictions are those of `echo`.
    """

    per_victim = True
    sees_others = True

    def echoed(self, honest: Array, mean: Array, context: AttackContext) -> Array:
        """f_v(x)."""
        return mean if context.victim is None else np.asarray(honest[context.victim])


@ATTACKS.add("targeted")
@dataclass(frozen=True)
class Targeted(Options):
    """One class is replaced by another: where c(x) is `source`, surely `target`; elsewhere F(x).

    Two options make it stronger in some runs: with `sure` it is surely c(x) elsewhere, which looks well informed, and
    with `wide` it lies also where a single honest agent predicts `source`. If one of the two classes does not exist,
    they are 0 and 1.
    """

    source: int = option(3, "class that is replaced", at_least=0)
    target: int = option(8, "class that replaces it", at_least=0)
    sure: bool = option(False, "be sure elsewhere as well")
    wide: bool = option(False, "lie wherever some honest agent predicts the source")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source == self.target:
            raise ConsilienceError(f"source and target of the attack are both class {self.source}. Name two classes.")

    def pair(self, classes: int) -> tuple[int, int]:
        """Source and target for this number of classes."""
        return (self.source, self.target) if max(self.source, self.target) < classes else (0, 1)

    def __call__(self, honest: Array, own: Array, context: AttackContext) -> Array:
        """(samples, classes)."""
        source, target = self.pair(own.shape[1])
        mean = honest.mean(axis=0)
        lies = mean.argmax(axis=1) == source
        if self.wide:
            lies |= (honest.argmax(axis=2) == source).any(axis=0)
        elsewhere = surely(mean.argmax(axis=1), own) if self.sure else mean
        return np.where(lies[:, None], surely(np.full(len(own), target), own), elsewhere)


@ATTACKS.add("sleeper")
@dataclass(frozen=True)
class Sleeper(Options):
    """Honest for some rounds, in which trust grows; then `collusion`."""

    rounds: int = option(3, "exchanges in which it is honest", at_least=0)

    def __call__(self, honest: Array, own: Array, context: AttackContext) -> Array:
        """(samples, classes)."""
        return own if context.round < self.rounds else collusion(honest, own, context)


@ATTACKS.add("stratum")
@dataclass(frozen=True)
class AttackStratum(Options):
    """An attack on stratified trust: it lies in the same share of every stratum, so that no stratum reveals it.

    Strata are those of the honest agents' unweighted reference (`core.stratified`). In each it is surely the runner-up
    of F(x) on the `share` of samples with the smallest max F(x), and surely c(x) on the others, which is as informative
    as possible.
    """

    share: float = option(UNSURE, "of every stratum, the least sure samples, on which to lie", above=0, below=1)

    def __call__(self, honest: Array, own: Array, context: AttackContext) -> Array:
        """(samples, classes)."""
        mean, agents = honest.mean(axis=0), len(honest)
        classes, sure = reference(np.full((agents, agents), 1 / agents), honest)
        numbers = strata(classes, sure, own.shape[1]).numbers
        lies = np.zeros(len(own), dtype=bool)
        for number in np.unique(numbers):
            members = np.flatnonzero(numbers == number)
            lies[members] = unsure(mean[members], self.share)
        return surely(np.where(lies, second(mean), mean.argmax(axis=1)), own)


def blurred(f: Array, noise: float, honest: Array, context: AttackContext) -> Array:
    """(1 - noise) f(x) + noise d(x), with d(x) ~ Dirichlet(1, ..., 1) drawn by each attacker for itself."""
    if not noise:
        return f
    return np.asarray((1 - noise) * f + noise * random(honest, f, context), dtype=f.dtype)


def surely(classes: Indices, like: Array) -> Array:
    """One row per sample with probability one for its class, in the shape and precision of `like`."""
    return np.eye(like.shape[1], dtype=like.dtype)[classes]


def second(f: Array) -> Indices:
    """The second most probable class of each row; if equal, the lower class comes first.

    >>> second(np.array([[0.1, 0.6, 0.3], [0.4, 0.2, 0.4]])).tolist()
    [2, 2]
    """
    return np.argsort(-f, axis=1, kind="stable")[:, 1]


def unsure(f: Array, share: float) -> NDArray[np.bool_]:
    """The `share` of rows, rounded, whose largest probability is smallest; if equal, the first."""
    chosen = np.zeros(len(f), dtype=bool)
    chosen[np.argsort(f.max(axis=1), kind="stable")[: round(share * len(f))]] = True
    return chosen
