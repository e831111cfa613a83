"""Labelled datasets, as arrays. Those that come with the package are in `data/sets/`, one file for each source."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.registry import Registry
from consilience.base.rows import Array, Rows, take
from consilience.data.columns import Column
from consilience.data.partitions import first_of_each

DATASETS = Registry("dataset", "consilience.data.sets", "consilience.datasets")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class RawScale:
    """How a dataset was scaled: x = (raw - mean) / deviation."""

    mean: Array
    deviation: Array
    about: str
    """What raw samples are, in a sentence."""
    largest: int = 0
    """The largest number in raw pixels; 0 for other samples."""
    columns: tuple[str, ...] = ()
    """Names of the columns, where raw samples come from a table."""

    def raw(self, x: Array) -> Array:
        """Raw samples of scaled ones: x deviation + mean."""
        raw = x * self.deviation + self.mean
        return np.rint(raw).astype(np.uint8) if self.largest else np.asarray(raw, dtype=np.float64)


@dataclass(frozen=True)
class RawSteps:
    """How raw samples became rows, where more than a scale was applied."""

    steps: tuple[Any, ...]
    """The preprocessing of a table, or fitted transformers of scikit-learn, in their order."""
    examples: Rows
    """Some raw samples."""
    about: str
    """What raw samples are, in a sentence."""
    columns: tuple[str, ...] = ()
    """Names of the columns that raw samples have in a table."""


@dataclass(frozen=True)
class Dataset:
    """Inputs (samples, ...) or rows of another kind, and labels; where samples come from hospitals, their numbers."""

    x: Rows
    y: Array
    """Class numbers (samples,), or what another task takes as labels."""
    classes: tuple[str, ...]
    """Names of classes or labels; empty for regression."""
    groups: Array | None = None
    group_names: tuple[str, ...] = ()
    raw: RawScale | RawSteps | None = None
    """What was done to raw samples, so that exported models do it, too."""
    task: str = "classification"
    columns: tuple[Column, ...] = ()
    """What the columns of `x` hold, where it was a table in a user's own file."""
    notes: tuple[str, ...] = ()
    """How the user's own data were read: sentences, and a line for each column."""
    warnings: tuple[str, ...] = ()
    """What may make results wrong."""
    unlabelled: Rows = None
    """Rows of the target domain without labels, of which the shared data are drawn, if there are such."""


@dataclass(frozen=True)
class Request:
    """What is asked of a dataset. It may ignore `limit`: then `load` keeps the first samples of each class."""

    data_dir: Path | None = None
    """The folder of real data."""
    limit: int = 0
    """Samples of each class, within each hospital; 0 for all."""
    side: int = 0
    """Height and width of images; 0 for the dataset's own."""
    agents: int = 0
    """For data that come divided; 0 for the usual number."""
    seed: int = 0
    label: str = "label"
    """Of somebody's own file: the column of labels."""
    agent: str = ""
    """The column that says which agent each row belongs to."""
    task: str = "classification"
    types: Mapping[str, str] = field(default_factory=dict)
    """Kinds of columns that the user asks for."""
    drop: tuple[str, ...] = ()
    """Columns that are no features."""
    as_bytes: bool = False
    """Whether images stay bytes, where the dataset has them as such: for models that read pixels."""


@dataclass(frozen=True)
class Size:
    """How large a dataset is, to guess how long a run will take."""

    samples: int
    parts: int
    """Classes, times hospitals: `limit` applies to each."""
    values: int
    """Of an input."""


SIZES: dict[str, Size] = {}
"""By name; datasets that are not here are taken for small."""


def dataset(name: str, size: Size | None = None, sizes: bool = False) -> Callable[[F], F]:
    """Registers a function (Request) -> Dataset; or -> Scenario, where the data come divided among agents.

    Args:
        name: The name of the dataset.
        size: How large it is, to guess how long a run takes.
        sizes: Whether the function handles `side` and `limit` of the request itself.
    """

    def register(make: F) -> F:
        def checked(request: Request) -> Any:
            if request.side and not sizes:
                raise ConsilienceError(f"{name} comes in one size only. Leave out side.")
            data = make(request)
            return first_of_classes(data, request.limit) if isinstance(data, Dataset) and not sizes else data

        DATASETS.add(name)(checked)
        if size is not None:
            SIZES[name] = size
        return make

    return register


def size_of(name: str) -> Size:
    """How large a dataset is expected to be."""
    DATASETS.names()
    return SIZES.get(name, Size(0, 0, 0))


def first_of_classes(data: Dataset, limit: int) -> Dataset:
    """The first `limit` samples of each class, within each hospital; without classes, of each hospital."""
    if not limit:
        return data
    kind = data.y if data.task == "classification" else np.zeros(len(data.y), dtype=np.int64)
    origin = np.zeros_like(kind) if data.groups is None else data.groups
    first = first_of_each(np.stack([kind, origin]), limit)
    groups_left = None if data.groups is None else data.groups[first]
    return replace(data, x=take(data.x, first), y=data.y[first], groups=groups_left)
