"""Which runs a comparison has: methods x settings x seeds. An axis is a setting and the values that are tried."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from consilience.base import toml
from consilience.base.errors import ConsilienceError
from consilience.base.options import to_table
from consilience.settings.settings import Settings, changed, where_it_is
from consilience.workers.job import Job

MOST_RUNS = 100_000
MOST_SEEDS = 10_000
"""Largest number of seeds in one range."""
ALONE = "alone"
"""The baseline of gains."""
PROBLEM = ("data.", "agents.privacy.")
"""Prefixes of the settings that make another problem."""


@dataclass(frozen=True)
class Axis:
    """A setting, and the values that are tried."""

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Planned:
    """One run of a comparison."""

    job: Job
    """Its folder is relative to that of the comparison."""
    method: str
    setting: dict[str, Any]
    """Values by axis, without the axes that the method does not have."""
    seed: int


def parse_axis(text: str) -> Axis:
    """`key=value,value,...`, each value in TOML; a comma in brackets or quotes separates nothing.

    >>> parse_axis("lam=0.1,0.5,1"), parse_axis("models=[mlp],[cnn, mlp]").values
    (Axis(key='lam', values=(0.1, 0.5, 1)), (['mlp'], ['cnn', 'mlp']))
    """
    key, equals, values = text.partition("=")
    items = [item.strip() for item in re.split(r",(?![^\[(]*[\])])(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", values)]
    if not equals or not key.strip() or not all(items):
        raise ConsilienceError(f"--grid {text}: write a setting and its values, such as lam=0.1,0.5,1.")
    parsed = tuple(_value(item) for item in items)
    if len(set(map(str, parsed))) < len(parsed):
        raise ConsilienceError(f"--grid {text}: a value is there twice.")
    return Axis(key.strip(), parsed)


def _value(text: str) -> Any:
    if text.startswith("[") and text.endswith("]"):
        return [toml.value(item.strip()) for item in text[1:-1].split(",") if item.strip()]
    return toml.value(text)


def parse_seeds(text: str, what: str = "seeds") -> list[int]:
    """Numbers from a list or a range; `what` names them in errors.

    >>> parse_seeds("0-2"), parse_seeds("3,5")
    ([0, 1, 2], [3, 5])
    """
    seeds: list[int] = []
    for item in text.split(","):
        first, dash, last = item.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ConsilienceError(f"{what} {text}: write numbers and ranges, such as 0-4 or 1,3,5.")
        begin, end = int(first), int(last or first)
        if end < begin:
            raise ConsilienceError(f"{what} {text}: the range {begin}-{end} is empty. Write {end}-{begin}.")
        if end - begin >= MOST_SEEDS:
            raise ConsilienceError(f"{what} {text}: the range has more than {MOST_SEEDS} numbers. Write a shorter one.")
        seeds += range(begin, end + 1)
    return list(dict.fromkeys(seeds))


def plan(settings: Settings, methods: Sequence[str], seeds: Sequence[int], axes: Sequence[Axis] = ()) -> list[Planned]:
    """Every method with every seed and every combination of the values of those axes that it has."""
    if not methods or not seeds:
        raise ConsilienceError("name at least one method and one seed, such as consensus and 0.")
    keys = [axis.key for axis in axes]
    if len(set(keys)) < len(keys):
        raise ConsilienceError("--grid: the same setting is there twice; write all its values in one.")
    references = (ALONE,) if ALONE in methods and not axes else ()  # with it runs keep what home models need
    settings = replace(settings, run=replace(settings.run, references=references))
    by_method = {method: _combinations(settings.with_method(method), method, axes) for method in methods}
    for axis in axes:
        if not any(axis.key in setting for combinations in by_method.values() for setting, _ in combinations):
            changed(settings, {axis.key: axis.values[0]}, "--grid")  # raises an error that lists the known settings
    count = len(seeds) * sum(map(len, by_method.values()))
    if count > MOST_RUNS:
        raise ConsilienceError(f"this grid has {count:,} runs. Use fewer values.")
    planned = []
    for seed in seeds:
        for method, combinations in by_method.items():
            for setting, chosen in combinations:
                name = (setting_text(setting) or "default") if axes else ""
                folder = Path(f"seed-{seed}") / method / re.sub(r"[^\w.,=+\[\]-]+", "_", name)
                label = f"{method}, {name}, seed {seed}" if name else f"{method}, seed {seed}"
                planned.append(Planned(Job(chosen.with_seed(seed), folder, method, label=label), method, setting, seed))
    return planned


def _combinations(base: Settings, method: str, axes: Sequence[Axis]) -> list[tuple[dict[str, Any], Settings]]:
    known = to_table(base)
    own = [axis for axis in axes if where_it_is(axis.key, known)]
    settings = [dict(zip((axis.key for axis in own), values, strict=True)) for values in combined(own)]
    return [(setting, changed(base, setting, f"--grid, {method}")) for setting in settings]


def combined(axes: Sequence[Axis]) -> "itertools.product[tuple[Any, ...]]":
    """Every combination of the values of some axes; one that is empty without axes."""
    return itertools.product(*(axis.values for axis in axes))


def given(settings: Settings, axes: Sequence[Axis]) -> frozenset[str]:
    """Those axes that make another problem rather than a better answer."""
    known = to_table(settings)
    names = {axis.key: where_it_is(axis.key, known) for axis in axes}
    return frozenset(key for key, full in names.items() if full and full[0].startswith(PROBLEM))


def setting_text(setting: dict[str, Any]) -> str:
    """A setting as text.

    >>> setting_text({"lam": 0.5, "alpha": 1})
    'lam=0.5, alpha=1'
    """
    return ", ".join(f"{key}={value}" for key, value in setting.items())
