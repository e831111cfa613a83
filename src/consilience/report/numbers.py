"""How numbers are written: once, for screen and page alike."""

from collections.abc import Sequence
from math import isnan
from typing import Any

import numpy as np

UNKNOWN = "-"


def number(value: float) -> str:
    """Three digits after the point; large numbers whole, tiny ones with their power of ten.

    >>> number(0.8125), number(0.00004), number(1234.5), number(-0.0), number(float("nan"))
    ('0.812', '4e-05', '1,234', '0.000', '-')
    """
    if isnan(value):
        return UNKNOWN
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1g}" if 0 < abs(value) < 0.0005 else f"{value + 0.0:.3f}"  # no minus before zero


def signed(value: float) -> str:
    """With its sign.

    >>> signed(0.25), signed(-0.25), signed(0.0)
    ('+0.250', '-0.250', '0.000')
    """
    return f"+{number(value)}" if value > 0 else number(value)


def spread(values: Sequence[float], up: bool) -> list[float]:
    """Mean, worst, 10 %, median, 90 % and best of many values, where higher is better if `up`.

    >>> spread([1.0, 2.0, 6.0], up=False)[:2]
    [3.0, 6.0]
    """
    sign = 1 if up else -1
    return [float(np.mean(values)), *(sign * np.percentile(sign * np.asarray(values), [0, 10, 50, 90, 100])).tolist()]


def bounds(low: float, high: float) -> str:
    """An interval of differences.

    >>> bounds(-0.0123, 0.456), bounds(float("nan"), float("nan"))
    ('-0.012 … +0.456', '-')
    """
    return UNKNOWN if isnan(low) or isnan(high) else f"{signed(low)} … {signed(high)}"


def many(number: float) -> str:
    """A large count for people.

    >>> many(1_080_000), many(840), many(float("nan"))
    ('1.08 M', '840', '-')
    """
    if isnan(number):
        return UNKNOWN
    return f"{number / 1e6:.2f} M" if number >= 1e5 else f"{number / 1e3:.1f} k" if number >= 1000 else f"{number:.0f}"


def listed(words: Sequence[str], what: str = "") -> str:
    """Words with commas, and "and" before the last; before them `what` they are, in the plural if there are several.

    >>> listed(["a", "b", "c"]), listed(["a", "b"], "agent"), listed(["a"], "agent")
    ('a, b and c', 'agents a and b', 'agent a')
    """
    text = " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
    return f"{what}{'s' * (len(words) > 1)} {text}" if what else text


def size(number: float) -> str:
    """Bytes for people.

    >>> size(1_080_000)
    '1.1 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError


def rounded(values: Any) -> Any:
    """`values` with four significant digits, as (lists of) floats; None for what is not finite."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim:
        return [rounded(row) for row in array]
    return float(f"{array:.4g}") if np.isfinite(array) else None
