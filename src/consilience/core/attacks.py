"""Attacks: what a liar says of the shared data instead of what it predicts.

Liars know the predictions of all honest agents before they speak, and may agree with each other. `honest` is always
(honest agents, samples, classes), `own` what the liar itself predicts, (samples, classes); both are probabilities. F is
the mean of `honest` over agents, c(x) = argmax F(x) what the honest together believe. To say a class surely is to give
it the probability one.
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
"""The share of samples on which attacks lie that say the truth elsewhere."""


@dataclass(frozen=True)
class AttackContext:
    """When and by whom a lie is told."""

    round: int = 0
    """How many exchanges there were before."""
    place: int = 0
    """Of the liar among the liars."""
    seed: int = 0
    """Of the run: liars draw from streams of their own."""
    victim: int | None = None
    """The honest agent to whom it is told; None where all are told the same."""
    memory: dict[str, Array] = field(default_factory=dict)
    """What this liar kept from earlier calls. An attack may add to it; nothing else of a call remains."""


class Attack(Protocol):
    """A function, or a dataclass of options that can be called like one.

    One that tells every victim something else has `per_victim = True`, and is asked once for each of them. One that
    makes no sense without the others' predictions has `sees_others = True`.
    """

    def __call__(self, honest: Array, own: Array, moment: AttackContext) -> Array:
        """What the liar says, (samples, classes)."""


ATTACKS = Registry("attack", "consilience.core.attacks", "consilience.attacks")


def attack_named(name: str) -> Attack:
    """An attack by its name, with options in brackets, such as targeted(source=1, target=7); without one, none."""
    head, options = toml.call(name or "none", "the attack")
    registered = ATTACKS.find(head)
    attack: Attack = registered() if isinstance(registered, type) else registered
    return changed(attack, options, name) if options else attack


def attack_name(attack: Attack) -> str:
    """How an attack is called, with those of its options that are not the default."""
    name = str(getattr(attack, "name", getattr(attack, "__name__", type(attack).__name__)))
    if not is_dataclass(attack):
        return name
    usual = to_table(type(attack)())
    options = {key: value for key, value in to_table(attack).items() if value != usual[key]}
    return f"{name}({', '.join(f'{key}={value}' for key, value in options.items())})" if options else name


def per_victim(attack: Attack) -> bool:
    """Whether `attack` tells every victim something else."""
    return bool(getattr(attack, "per_victim", False))


def _seeing_others(attack: T) -> T:
    """Marks a function as an attack that makes no sense without the others' predictions."""
    attack.sees_others = True  # type: ignore[attr-defined]
    return attack


@ATTACKS.add("none")
def none(honest: Array, own: Array, moment: AttackContext) -> Array:
    """The truth: what the agent predicts."""
    return own


@ATTACKS.add("flip")
def flip(honest: Array, own: Array, moment: AttackContext) -> Array:
    """Every class is called by the next one's name: f(x)[k] = own(x)[k - 1 mod C].

    >>> flip(np.zeros((0, 1, 3)), np.array([[0.7, 0.2, 0.1]]), Moment()).tolist()
    [[0.1, 0.7, 0.2]]
    """
    return np.roll(own, 1, axis=1)


@ATTACKS.add("random")
def random(honest: Array, own: Array, moment: AttackContext) -> Array:
    """f(x) ~ Dirichlet(1, ..., 1), drawn anew for every sample, round and liar."""
    draw = stream(moment.seed, "attack", "random", moment.place, moment.round)
    return draw.dirichlet(np.ones(own.shape[1]), len(own)).astype(own.dtype)


@ATTACKS.add("constant")
def constant(honest: Array, own: Array, moment: AttackContext) -> Array:
    """Surely the same class for every sample: the one that the honest say most often.

    With skewed classes such a liar agrees with everyone about most samples, and knows nothing.
    """
    classes = np.bincount(honest.mean(axis=0).argmax(axis=1), minlength=own.shape[1])
    return surely(np.full(len(own), classes.argmax()), own)


@ATTACKS.add("least-likely")
def least_likely(honest: Array, own: Array, moment: AttackContext) -> Array:
    """Surely argmin F(x): the loss maximisation attack of Roux, Zimmer and Pokutta (arXiv 2402.12265)."""
    return surely(honest.mean(axis=0).argmin(axis=1), own)


@ATTACKS.add("runner-up")
def runner_up(honest: Array, own: Array, moment: AttackContext) -> Array:
    """Surely the second most probable class of F(x): the error that is easiest to believe."""
    return surely(second(honest.mean(axis=0)), own)


@ATTACKS.add("collusion")
def collusion(honest: Array, own: Array, moment: AttackContext) -> Array:
    """Surely c(x) + s(x) mod C, with a shift s(x) from 1 to C - 1 that all liars agreed on, the same in all rounds."""
    classes = own.shape[1]
    shift = stream(moment.seed, "attack", "collusion").integers(1, classes, len(own))
    return surely((honest.mean(axis=0).argmax(axis=1) + shift) % classes, own)


@ATTACKS.add("stale")
def stale(honest: Array, own: Array, moment: AttackContext) -> Array:
    """What it predicted in its first exchange, for ever."""
    return moment.memory.setdefault("first", own)


@ATTACKS.add("worst-honest")
@_seeing_others
def worst_honest(honest: Array, own: Array, moment: AttackContext) -> Array:
    """The words of the honest agent j that is furthest from the rest: argmax_j sum_x |f_j(x) - F(x)|_1.

    Nothing is said that no honest agent says, so that no rule can refuse it by its values alone.
    """
    distance = np.abs(honest - honest.mean(axis=0)).sum(axis=(1, 2), dtype=np.float64)
    return np.asarray(honest[distance.argmax()])


@ATTACKS.add("copy")
@_seeing_others
def copy(honest: Array, own: Array, moment: AttackContext) -> Array:
    """The words of one honest peer, each liar another's: who is copied counts twice."""
    return np.asarray(honest[moment.place % len(honest)])


@ATTACKS.add("echo")
@dataclass(frozen=True)
class Echo(Options):
    """F(x) where the honest are sure; where they are not, surely the runner-up of F(x).

    They are not sure of the `share` of samples with the smallest max F(x). Trust that is earned by agreement where
    agents are sure is spent where they are not.
    """

    share: float = option(UNSURE, "of the samples, the least sure ones, on which to lie", above=0, below=1)
    noise: float = option(
        0.0, "how much of its words each liar draws at random, to be unlike the others", at_least=0, below=1
    )

    def __call__(self, honest: Array, own: Array, moment: AttackContext) -> Array:
        """(samples, classes)."""
        mean = honest.mean(axis=0)
        lie = np.where(unsure(mean, self.share)[:, None], surely(second(mean), own), mean)
        return blurred(lie, self.noise, honest, moment)


@ATTACKS.add("echo-each")
@dataclass(frozen=True)
class EchoEach(Options):
    """As `echo`, to every victim v in its own words: f_v(x) where v is sure; elsewhere surely the runner-up of F(x).

    Whom nobody in particular listens to, such as a log, gets what `echo` says.
    """

    share: float = option(UNSURE, "of the samples, the victim's least sure ones, on which to lie", above=0, below=1)
    noise: float = option(
        0.0, "how much of its words each liar draws at random, to be unlike the others", at_least=0, below=1
    )

    per_victim = True
    sees_others = True

    def __call__(self, honest: Array, own: Array, moment: AttackContext) -> Array:
        """(samples, classes)."""
        mean = honest.mean(axis=0)
        echoed = mean if moment.victim is None else honest[moment.victim]
        lie = np.where(unsure(echoed, self.share)[:, None], surely(second(mean), own), echoed)
        return blurred(lie, self.noise, honest, moment)


@ATTACKS.add("targeted")
@dataclass(frozen=True)
class Targeted(Options):
    """One class is to be taken for another: where c(x) is `source`, surely `target`; elsewhere F(x).

    Two things make it stronger in some runs: `sure` says surely c(x) in place of F(x), which looks well informed, and
    `wide` lies also where a single honest agent says `source`. With so few classes that one of the two does not
    exist, they are 0 and 1.
    """

    source: int = option(3, "the class that shall not be recognised", at_least=0)
    target: int = option(8, "the class that it shall be taken for", at_least=0)
    sure: bool = option(False, "be sure elsewhere, too")
    wide: bool = option(False, "lie wherever some honest agent says the source, not only where all together do")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source == self.target:
            raise ConsilienceError(f"source and target of the attack are both class {self.source}. Name two classes.")

    def pair(self, classes: int) -> tuple[int, int]:
        """Source and target among so many classes."""
        return (self.source, self.target) if max(self.source, self.target) < classes else (0, 1)

    def __call__(self, honest: Array, own: Array, moment: AttackContext) -> Array:
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
    """The truth for some rounds, in which trust grows; `collusion` from then on."""

    rounds: int = option(3, "exchanges in which it tells the truth", at_least=0)

    def __call__(self, honest: Array, own: Array, moment: AttackContext) -> Array:
        """(samples, classes)."""
        return own if moment.round < self.rounds else collusion(honest, own, moment)


@ATTACKS.add("stratum")
@dataclass(frozen=True)
class AttackStratum(Options):
    """Made against stratified trust: lies in the same share of every stratum, so that none of them shows it.

    Strata are those of the honest agents' unweighted reference (`core.stratified`). In each, on the `share` of samples
    with the smallest max F(x) it says surely the runner-up of F(x), and on the others surely c(x): nobody can be more
    informative there.
    """

    share: float = option(UNSURE, "of every stratum, the least sure samples, on which to lie", above=0, below=1)

    def __call__(self, honest: Array, own: Array, moment: AttackContext) -> Array:
        """(samples, classes)."""
        mean, agents = honest.mean(axis=0), len(honest)
        classes, sure = reference(np.full((agents, agents), 1 / agents), honest)
        numbers = strata(classes, sure, own.shape[1]).numbers
        lies = np.zeros(len(own), dtype=bool)
        for number in np.unique(numbers):
            members = np.flatnonzero(numbers == number)
            lies[members] = unsure(mean[members], self.share)
        return surely(np.where(lies, second(mean), mean.argmax(axis=1)), own)


def blurred(f: Array, noise: float, honest: Array, moment: AttackContext) -> Array:
    """(1 - noise) f(x) + noise d(x), with d(x) ~ Dirichlet(1, ..., 1) drawn by each liar for itself."""
    if not noise:
        return f
    return np.asarray((1 - noise) * f + noise * random(honest, f, moment), dtype=f.dtype)


def surely(classes: Indices, like: Array) -> Array:
    """One row per sample with probability one for its class, in the shape and precision of `like`."""
    return np.eye(like.shape[1], dtype=like.dtype)[classes]


def second(f: Array) -> Indices:
    """The second most probable class of each row; of equal ones the lower class comes first.

    >>> second(np.array([[0.1, 0.6, 0.3], [0.4, 0.2, 0.4]])).tolist()
    [2, 2]
    """
    return np.argsort(-f, axis=1, kind="stable")[:, 1]


def unsure(f: Array, share: float) -> NDArray[np.bool_]:
    """The `share` of rows, rounded, whose largest probability is smallest; of equal ones the first."""
    chosen = np.zeros(len(f), dtype=bool)
    chosen[np.argsort(f.max(axis=1), kind="stable")[: round(share * len(f))]] = True
    return chosen
