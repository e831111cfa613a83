"""Times that can be compared: the things to compare take turns, so that a busy moment hits all of them."""

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

import numpy as np


def interleaved(things: Mapping[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """Median seconds of each, over `repeats` turns after a first one that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in things}
    for turn in range(repeats + 1):
        for name, thing in things.items():
            began = time.perf_counter()
            thing()
            if turn:
                seconds[name].append(time.perf_counter() - began)
    return {name: median(values) for name, values in seconds.items()}


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The p of seconds ~ size^p, by least squares on the logarithms of the upper half of the sizes."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)[0])


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows as a Markdown table."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"


def verdict(reached: bool) -> str:
    """A goal's word in a table."""
    return "yes" if reached else "no"
