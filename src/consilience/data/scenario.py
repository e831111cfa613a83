"""A scenario: what each agent holds, what is shared, and what only the experimenter knows."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from consilience.base.errors import ConsilienceError
from consilience.base.rows import Array, Rows, count, fingerprint, take
from consilience.core.streams import stream
from consilience.data.columns import Column
from consilience.data.datasets import Dataset, RawScale, RawSteps
from consilience.data.options import Data
from consilience.data.partitions import PARTITIONS, Deal, Indices, balanced_quotas, rank_in_class
from consilience.tasks import task_named
from consilience.tasks.protocol import require_classes


@dataclass(frozen=True)
class AgentData:
    """One agent's private data: to train on, and to test on."""

    x: Rows
    y: Array
    test_x: Rows
    test_y: Array


@dataclass(frozen=True)
class Scenario:
    """Private shares, the shared data X*, and for evaluation alone its labels and a sample of the target domain."""

    shares: dict[str, AgentData]
    shared: Rows
    shared_y: Array
    target_x: Rows
    target_y: Array
    classes: tuple[str, ...]
    """Class names; empty for regression."""
    raw: RawScale | RawSteps | None = field(default=None, kw_only=True)
    """What was done to the raw samples of a built-in dataset."""
    low_quality: tuple[str, ...] = ()
    task: str = "classification"
    columns: tuple[Column, ...] = ()
    """What the columns of a user's own table hold."""
    notes: tuple[str, ...] = ()
    """How the user's own data were read, and who has them."""
    warnings: tuple[str, ...] = ()
    """What may make results wrong."""
    labels_known: bool = True
    """Whether anybody knows the labels of the shared data; otherwise `shared_y` is -1 throughout."""

    def fingerprint(self) -> str:
        """SHA-256 of all rows and labels, order included: two runs with the same one saw the same data."""
        parts = [self.shared, self.shared_y, self.target_x, self.target_y]
        for share in self.shares.values():
            parts += [share.x, share.y, share.test_x, share.test_y]
        return fingerprint(*parts)


def split(data: Dataset, options: Data, agents: int, seed: int) -> Scenario:
    """Splits `data` among agents.

    A fraction is held out as a sample of the target domain. The rest falls among the agents by the partition (with
    natural there is one agent per hospital, with its name); each contributes `shared_per_agent` random samples
    to X* and keeps a fraction of what is left to test on. Where the dataset has rows without labels, as many of these
    are drawn for X* instead. With `shared_balanced`, the contributions are chosen so
    that the classes of X* are as even as the agents' data allow; with `shared_limit`, X* is a random part of them.
    Agents in `low_quality` have all training labels shifted by one random non-zero number modulo the number of classes;
    those in `concept_shift` have two classes swapped or their features moved, in all that they hold but give away.
    """
    _check_task(data, options)
    order = stream(seed, "target").permutation(len(data.y))
    held_out, rest = np.split(order, [round(options.target_fraction * len(order))])
    held = _shuffled_parts(data, rest, options, agents, seed)
    if options.shared_balanced:
        held = _balanced_first(data, held, options.shared_per_agent)
    shares: dict[str, AgentData] = {}
    shared: list[Array] = []
    for number, (name, own) in enumerate(held.items()):
        given, kept = np.split(own, [options.shared_per_agent if data.unlabelled is None else 0])
        test, train = np.split(kept, [round(options.test_fraction * len(kept))])
        y = data.y[train]
        if number in options.low_quality:
            y = shift_labels(y, len(data.classes), stream(seed, "low quality", name))
        x, test_x, test_y = take(data.x, train), take(data.x, test), data.y[test]
        if number in options.concept_shift and options.shift == "labels":
            y, test_y = (swap_classes(own, len(data.classes), stream(seed, "concept", name)) for own in (y, test_y))
        elif number in options.concept_shift:
            x, test_x = (move_features(own, x, stream(seed, "concept", name)) for own in (x, test_x))
        shared.append(given)
        shares[name] = AgentData(x, y, test_x, test_y)
    star, pool = np.concatenate(shared), data.x
    if data.unlabelled is not None:
        pool, number = data.unlabelled, min(options.shared_per_agent * len(held), count(data.unlabelled))
        star = np.sort(stream(seed, "unlabelled").choice(count(pool), number, replace=False))
    if 0 < options.shared_limit < len(star):
        star = np.sort(stream(seed, "shared limit").choice(star, options.shared_limit, replace=False))
    known = data.unlabelled is None
    return Scenario(
        shares=shares,
        shared=take(pool, star),
        shared_y=data.y[star] if known else np.full(len(star), -1),
        labels_known=known,
        target_x=take(data.x, held_out),
        target_y=data.y[held_out],
        classes=data.classes,
        raw=data.raw,
        low_quality=tuple(name for number, name in enumerate(held) if number in options.low_quality),
        task=data.task,
        columns=data.columns,
        notes=data.notes,
        warnings=data.warnings,
    )


def _check_task(data: Dataset, options: Data) -> None:
    """Refuses options that need classes for a task without classes."""
    if task_named(data.task).has_classes:
        return
    by_class = {
        f"partition={options.partition}": getattr(PARTITIONS.find(options.partition), "by_class", False),
        "shared_balanced": options.shared_balanced,
        "low_quality": bool(options.low_quality),
        "concept_shift": bool(options.concept_shift) and options.shift == "labels",
    }
    for what, used in by_class.items():
        if used:
            raise ConsilienceError(
                f"{what} goes by the class of a sample, and {data.task} has none. Use partition=iid, and neither "
                "shared_balanced nor low_quality nor concept_shift, but with shift=features."
            )


def _shuffled_parts(data: Dataset, rest: Indices, options: Data, agents: int, seed: int) -> dict[str, Indices]:
    """The samples `rest` by agent, each agent's in random order."""
    shares = options.shared_per_agent if data.unlabelled is None else 0
    smallest = shares + 5
    if len(rest) < 2 * smallest:
        raise ConsilienceError(
            f"the data have {len(data.y)} samples, of which {len(rest)} are for the agents. Two agents need "
            f"{2 * smallest}: each shares {shares} and keeps 5. Add samples."
        )
    names = tuple(str(number) for number in range(agents))
    if options.partition == "natural":
        names = _group_names(data, agents)
    partition = PARTITIONS.find(options.partition)
    deal = Deal(
        data.x[rest] if getattr(partition, "by_input", False) else data.x[:0],
        data.y[rest],
        agents,
        stream(seed, "partition"),
        options.alpha,
        options.shards,
        smallest,
        None if data.groups is None else data.groups[rest],
    )
    parts = partition(deal)
    for name, indices in zip(names, parts, strict=True):
        if len(indices) < smallest:
            raise ConsilienceError(
                f"agent {name!r} has {len(indices)} samples, too few to share {options.shared_per_agent} and keep 5. "
                "Lower shared_per_agent, or use fewer agents."
            )
    owned = zip(names, parts, strict=True)
    return {name: stream(seed, "share", name).permutation(rest[indices]) for name, indices in owned}


def _balanced_first(data: Dataset, held: dict[str, Indices], each: int) -> dict[str, Indices]:
    """Reorders each agent's samples: the first `each` of all agents together are even over classes."""
    counts = np.array([np.bincount(data.y[own], minlength=len(data.classes)) for own in held.values()])
    sorted_parts = {}
    for (name, own), quota in zip(held.items(), balanced_quotas(counts, each), strict=True):
        y = data.y[own]
        stays = rank_in_class(y) >= quota[y]
        sorted_parts[name] = own[np.argsort(stays, kind="stable")]
    return sorted_parts


def _group_names(data: Dataset, agents: int) -> tuple[str, ...]:
    """The hospitals' names, one for each agent."""
    if data.groups is None:
        raise ConsilienceError("this dataset does not say where its samples come from. Use partition=dirichlet or iid.")
    if len(data.group_names) != agents:
        raise ConsilienceError(
            f"agents is {agents}, but the dataset comes from {len(data.group_names)}: {', '.join(data.group_names)}. "
            f"Set agents={len(data.group_names)}."
        )
    return data.group_names


def shift_labels(y: Array, classes: int, draw: np.random.Generator) -> Array:
    """y + s mod C with one random s from 1..C-1: every label is wrong.

    >>> bool((shift_labels(np.array([0, 1, 2]), 3, np.random.default_rng(0)) != np.array([0, 1, 2])).all())
    True
    """
    return np.asarray((y + draw.integers(1, classes)) % classes)


def swap_classes(y: Array, classes: int, draw: np.random.Generator) -> Array:
    """Labels with two random classes swapped.

    >>> swap_classes(np.array([0, 1, 1]), 2, np.random.default_rng(0))
    array([1, 0, 0])
    """
    first, second = draw.choice(classes, 2, replace=False)
    numbers = np.arange(classes)
    numbers[[first, second]] = second, first
    return np.asarray(numbers[y])


def move_features(x: Rows, others: Rows, draw: np.random.Generator) -> Array:
    """x + d with d ~ N(0, s^2) for each column, s its standard deviation in `others`; of images one for all pixels.

    >>> moved = move_features(np.zeros((2, 3)), np.array([[0, 0, 0], [2, 2, 0]]), np.random.default_rng(0))
    >>> moved.round(2).tolist()
    [[0.13, -0.13, 0.0], [0.13, -0.13, 0.0]]
    """
    if not isinstance(x, np.ndarray) or not isinstance(others, np.ndarray):
        raise ConsilienceError("features of tables and texts cannot be moved: set shift=labels, or concept_shift=[].")
    axes = tuple(range(x.ndim)) if x.ndim > 2 else 0
    offset = draw.normal(size=1 if x.ndim > 2 else x.shape[1]) * others.std(axis=axes)
    moved: Array = (x + offset).clip(0, 255) if x.dtype == np.uint8 else x + offset
    return moved.astype(x.dtype)


def polynomial(seed: int, agents: int = 3, samples: int = 50) -> Scenario:
    """The regression example of the paper's appendix A: f(x) = 0.5x^3 + 0.3x^2 - 5x + 4 with unit noise.

    Agents see x ~ N(mu, 1) with mu = -2, 0, 2 (and 3 for a fourth); X* is 50 points between -4 and 4.
    """
    means = (-2.0, 0.0, 2.0, 3.0)
    if agents > len(means):
        raise ConsilienceError(f"the polynomial example has at most {len(means)} agents, not {agents}.")

    def truth(x: Array) -> Array:
        return np.asarray(0.5 * x**3 + 0.3 * x**2 - 5 * x + 4, dtype=np.float32)

    shares = {}
    for number in range(agents):
        draw = stream(seed, "polynomial", number)
        x = draw.normal(means[number], 1, (2, samples, 1)).astype(np.float32)
        y = truth(x) + draw.normal(0, 1, x.shape).astype(np.float32)
        shares[str(number)] = AgentData(x[0], y[0], x[1], y[1])
    shared = np.linspace(-4, 4, 50, dtype=np.float32)[:, None]
    target = stream(seed, "target").uniform(-4, 4, (400, 1)).astype(np.float32)
    return Scenario(shares, shared, truth(shared), target, truth(target), (), task="regression")


@dataclass(frozen=True)
class Canaries:
    """The canaries of one agent, those that are in its private data and those that are not."""

    x: Array
    y: Array
    inside: NDArray[np.bool_]


def canaries(scenario: Scenario, count: int, seed: int) -> dict[str, Canaries]:
    """Canaries for each agent: inputs at the extremes of each feature, random labels; half of them are in."""
    task = task_named(scenario.task)
    require_classes(task, f"canaries have a random class, and {scenario.task} has none. Set canaries=0.")
    if not isinstance(scenario.shared, np.ndarray):
        raise ConsilienceError("canaries need rows of numbers; these are tables or texts. Set canaries=0.")
    low, high = scenario.shared.min(axis=0), scenario.shared.max(axis=0)
    drawn = {}
    for name in scenario.shares:
        draw = stream(seed, "canaries", name)
        x = np.where(draw.random((count, *low.shape)) < 0.5, low, high).astype(scenario.shared.dtype)
        drawn[name] = Canaries(x, draw.integers(0, len(scenario.classes), count), draw.random(count) < 0.5)
    return drawn


def with_canaries(scenario: Scenario, count: int, seed: int) -> Scenario:
    """The scenario with the canaries that are in among the private rows, after the others."""
    if not count:
        return scenario
    shares = {}
    for name, own in canaries(scenario, count, seed).items():
        share = scenario.shares[name]
        x, y = np.concatenate([share.x, own.x[own.inside]]), np.concatenate([share.y, own.y[own.inside]])
        shares[name] = replace(share, x=x, y=y.astype(share.y.dtype))
    return replace(scenario, shares=shares)
