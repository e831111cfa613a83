"""The privacy loss of a series of private steps, and the noise that fits a budget.

The accountant of record is dp-accounting's (PLD; Koskela et al., 2020, Doroshenko et al., 2022), which bounds the
privacy loss of Poisson-sampled Gaussian steps by convolving its distribution. The tests compare it with opacus' PRV
accountant (Gopi, Lee and Wutschitz, 2021): they agree within 2 %.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import exp, inf, isfinite, log, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from consilience.base.errors import ConsilienceError


class LedgerEntry(NamedTuple):
    """A round of private training: `steps` times, a sample of the rows at `rate` was used with noise `noise`."""

    round: int
    rate: float
    """Chance of each private row to be in the sample of a step."""
    noise: float
    """Standard deviation of the noise divided by the longest gradient of a row."""
    steps: int

    @property
    def problem(self) -> str:
        """Why the entry is invalid; empty if it is valid."""
        if not (isfinite(self.rate) and 0 < self.rate <= 1):
            return f"the rate {self.rate} is not between 0 and 1"
        if not (isfinite(self.noise) and self.noise > 0):
            return f"the noise {self.noise} is not above 0"
        return "" if self.round >= 0 and self.steps >= 0 else "a negative number of rounds or steps"


Used = tuple[tuple[float, float, int], ...]
"""(noise, rate, steps), each pair of noise and rate once, as accountants need it."""


def used(entries: Iterable[LedgerEntry]) -> Used:
    """The sum of entries, in a fixed order.

    >>> used([LedgerEntry(1, 0.5, 2.0, 10), LedgerEntry(2, 0.5, 2.0, 10)])
    ((2.0, 0.5, 20),)
    """
    steps: dict[tuple[float, float], int] = {}
    for entry in entries:
        if entry.steps:
            steps[entry.noise, entry.rate] = steps.get((entry.noise, entry.rate), 0) + entry.steps
    return tuple((noise, rate, count) for (noise, rate), count in sorted(steps.items()))


def to_array(entries: Sequence[LedgerEntry]) -> NDArray[np.float64]:
    """(entries, 4)."""
    return np.array([tuple(entry) for entry in entries], dtype=np.float64).reshape(-1, 4)


def from_array(array: NDArray[np.float64]) -> list[LedgerEntry]:
    """The inverse of `to_array`."""
    whole = np.nan_to_num(array, nan=-1, posinf=-1, neginf=-1)[:, [0, 3]].astype(np.int64).tolist()
    return [
        LedgerEntry(number, rate, noise, steps)
        for (number, steps), (_, rate, noise, _) in zip(whole, array.tolist(), strict=True)
    ]


INTERVAL = 1e-3
"""Grid of the accountant of record. It rounds up: a coarser grid never makes epsilon smaller."""
TOLERANCE = 1e-3
"""The chosen noise spends at least 1 - TOLERANCE of the budget."""
MOST_NOISE = 1e4


@lru_cache(maxsize=4096)
def epsilon_of_record(steps: Used, delta: float) -> float:
    """Epsilon at `delta` of all these steps together (dp-accounting, PLD). Infinite if a step had no noise."""
    if not steps:
        return 0.0
    if any(noise <= 0 for noise, _, _ in steps):
        return inf
    pld, events = _dp_accounting()
    accountant = pld.PLDAccountant(value_discretization_interval=INTERVAL)
    for noise, rate, count in steps:
        accountant.compose(events.PoissonSampledDpEvent(rate, events.GaussianDpEvent(noise)), count)
    return float(accountant.get_epsilon(delta))


def noise_for(epsilon: float, delta: float, rate: float, steps: int, before: Used = ()) -> float:
    """The smallest noise, within 0.1 %, for which `steps` more steps after those `before` stay within epsilon.

    Infinite if less than a hundredth of the budget is left, or no noise is enough.
    """
    if not steps:
        return 1.0
    if epsilon_of_record(before, delta) >= 0.99 * epsilon:
        return inf

    def spent(noise: float) -> float:
        return epsilon_of_record(tuple(sorted((*before, (noise, rate, steps)))), delta)

    low, high = 0.0, inf  # too little noise, enough noise
    guess = _gaussian_guess(epsilon, delta, rate, steps)
    while True:
        cost = spent(guess)
        if cost <= epsilon:
            high = guess
            if cost >= (1 - TOLERANCE) * epsilon or high - low <= 1e-3 * high:
                return high
        else:
            low = guess
        if low > MOST_NOISE:
            return inf
        near = guess * cost / ((1 - TOLERANCE / 2) * epsilon)  # noise is nearly proportional to 1 / epsilon
        middle = 2 * low if high == inf else sqrt(low * high) if low else high / 2
        guess = near if not before and low * (1 + 1e-9) < near < high else middle


def _gaussian_guess(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """A first guess: of Gaussian differential privacy, mu = rate sqrt(steps (e^(1/noise^2) - 1)) (Bu et al., 2020)."""
    mu = epsilon / (sqrt(2 * log(1.25 / delta)) + sqrt(epsilon / 2))
    return max(0.3, 1 / sqrt(log(1 + (mu / rate) ** 2 / steps)))


def within(steps: Used, planned: Used) -> bool:
    """Whether `steps` are among those `planned`."""
    most = {(noise, rate): count for noise, rate, count in planned}
    return all(count <= most.get((noise, rate), 0) for noise, rate, count in steps)


def advantage(epsilon: float, delta: float) -> float:
    """Upper bound of the AUC of any membership attack (Kairouz et al., 2015, hypothesis testing).

    The area under min(1, e^eps a + delta, 1 - e^-eps (1 - delta - a)).

    >>> round(advantage(0.0, 0.0), 3), round(advantage(1.0, 0.0), 3)
    (0.5, 0.731)
    """
    false = np.linspace(0, 1, 20_001)
    most = np.minimum(1, np.minimum(exp(min(epsilon, 50)) * false + delta, 1 - exp(-epsilon) * (1 - delta - false)))
    return float(np.trapezoid(most, false))


def _dp_accounting() -> tuple[Any, Any]:
    try:
        from dp_accounting import dp_event, pld
    except ImportError as error:
        raise ConsilienceError("privacy needs more packages: pip install 'consilience[privacy]'.") from error
    return pld, dp_event
