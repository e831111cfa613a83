"""Times that can be compared: the things to compare take turns, so that a busy moment hits all of them."""

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

TURNS = 3


def turns(
    things: Mapping[str, Callable[[], object]], repeats: int = 1, clock: Callable[[], float] = time.process_time
) -> dict[str, list[float]]:
    """Seconds of each in every turn after a first one, the median of `repeats` calls; by default CPU time."""
    seconds: dict[str, list[float]] = {name: [] for name in things}
    for turn in range(TURNS + 1):
        for name, thing in things.items():
            taken = []
            for _ in range(repeats):
                began = clock()
                thing()
                taken.append(clock() - began)
            if turn:
                seconds[name].append(median(taken))
    return seconds


def over(some: Sequence[float], others: Sequence[float]) -> list[float]:
    """Ratios, turn by turn."""
    return [one / other for one, other in zip(some, others, strict=True)]


def ranged(values: Sequence[float], scale: float = 1, unit: str = "") -> str:
    """The median and the range, with three digits: 1.23 (1.2-1.3) ms."""
    middle, low, high = (value * scale for value in (median(values), min(values), max(values)))
    return f"{digits(middle)} ({digits(low)}-{digits(high)}){unit and ' ' + unit}"


def digits(value: float) -> str:
    """Three digits, and not fewer than those before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def ms(values: Sequence[float]) -> str:
    """Seconds as milliseconds."""
    return ranged(values, 1e3, "ms")


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows as a Markdown table."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"
