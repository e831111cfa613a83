"""The mechanism of a private agent: its noise, the privacy loss so far, and whether another round fits the budget."""

import hashlib
import os
import secrets
from dataclasses import asdict, dataclass
from math import inf, isinf
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from consilience.base.errors import ConsilienceError
from consilience.base.rows import Array
from consilience.core.streams import stream
from consilience.privacy.accountants import (
    LedgerEntry,
    Used,
    epsilon_of_record,
    from_array,
    noise_for,
    to_array,
    used,
    within,
)
from consilience.privacy.ledger import LedgerFile
from consilience.privacy.options import Privacy


class Draws(Protocol):
    """Random numbers of one round."""

    def normal(self, count: int) -> NDArray[np.float32]:
        """`count` independent numbers from N(0, 1)."""

    def chosen(self, rows: int, rate: float) -> NDArray[np.int64]:
        """A Poisson sample: each of `rows` is drawn independently with the chance `rate`."""


@final
class Repeatable:
    """Draws from a secret, agent and round alone: with these one can repeat every draw, and subtract the noise."""

    def __init__(self, secret: int, agent: str, number: int, attempt: int) -> None:
        self._noise = stream(secret, "noise", agent, number, attempt)
        self._sample = stream(secret, "sample", agent, number, attempt)

    def normal(self, count: int) -> NDArray[np.float32]:
        """In single precision."""
        return self._noise.standard_normal(count, dtype=np.float32)

    def chosen(self, rows: int, rate: float) -> NDArray[np.int64]:
        """A uniform number decides for every row."""
        return np.flatnonzero(self._sample.random(rows) < rate)


@final
class Secure:
    """Draws from the operating system's generator, which cannot be repeated.

    A normal number is half the sum of four, which hides the gaps between floating-point numbers (Holohan and Braghin,
    2021, section 5.1; opacus' secure mode does the same).
    """

    def normal(self, count: int) -> NDArray[np.float32]:
        """By the inverse of the distribution function, in double precision until the end."""
        from scipy.special import ndtri

        four = ndtri(_uniform(4 * count)).reshape(4, count)
        halved: NDArray[np.float32] = (four.sum(axis=0) / 2).astype(np.float32)
        return halved

    def chosen(self, rows: int, rate: float) -> NDArray[np.int64]:
        """A uniform number decides for every row."""
        return np.flatnonzero(_uniform(rows) < rate)


def _uniform(count: int) -> NDArray[np.float64]:
    """Numbers strictly between 0 and 1, 53 bits each."""
    bits = np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >> np.uint64(11)
    return (bits.astype(np.float64) + 0.5) / 2.0**53


@dataclass(frozen=True)
class Spent:
    """Privacy loss of an agent, for reports. The unit of privacy is one private row."""

    epsilon: float | None
    """Of record, by dp-accounting's PLD accountant, earlier runs on the same rows included; None = unbounded."""
    budget: float
    delta: float
    clip: float
    noise: float
    """Standard deviation of the noise, divided by `clip`."""
    rate: float
    """Chance of a row to be in the sample of a step."""
    steps: int
    rounds: int
    """Rounds with training on private rows."""
    earlier: float | None
    """Epsilon of earlier runs on the same rows."""
    generator: str
    stopped: int
    """The first round without private training because the budget was spent; 0 = none."""

    def table(self) -> dict[str, Any]:
        """As a table of plain values."""
        return asdict(self)


@final
class Mechanism:
    """DP-SGD of one agent: `steps` a round, each on a Poisson sample of the `rows` at `rate`.

    Every round of training, the warm-up included, is an entry of the ledger. It is written to the ledger's file, if
    there is one, and to the checkpoint, before the round's result can leave the site.
    """

    def __init__(self, privacy: Privacy, agent: str, seed: int, rows: int, rate: float, steps: int) -> None:
        privacy.check(agent, rows)
        self.privacy, self.agent, self.rows, self.rate, self.steps = privacy, agent, rows, rate, steps
        self.noise = privacy.noise
        self.entries: list[LedgerEntry] = []
        self._secret = seed
        self._file: LedgerFile | None = None
        self._planned: Used = ()
        self._original: Mechanism | None = None
        self.stopped = 0
        """The first round without private training because of the budget; 0 = none."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "Mechanism":
        """For a copy of the agent that trains alone for comparison, and of which nothing is published.

        It has as much noise as the original, stops when that does, and writes nothing to the ledger. If the noise is
        secret it draws other noise.
        """
        copy = Mechanism(self.privacy, self.agent, self._secret, self.rows, self.rate, self.steps)
        copy.entries, copy.stopped, copy._original = list(self.entries), self.stopped, self
        if self._file is not None:
            copy._secret = secrets.randbits(256)
        return copy

    def plan(self, rounds: int) -> None:
        """Chooses the noise so that `rounds` in total fit the budget, unless it is already set."""
        budget, todo = self.privacy, max(rounds - len(self.entries), 1)
        if not self.noise:
            noise = noise_for(budget.epsilon, budget.delta, self.rate, todo * self.steps, used(self._all()))
            if isinf(noise):
                raise ConsilienceError(
                    f"agent {self.agent!r}: a budget of epsilon {budget.epsilon:g} leaves nothing for {todo} rounds on "
                    f"these private rows, on which {self.record():.3g} is spent already. Stop here, or promise less: a "
                    "larger epsilon."
                )
            self.noise = noise
        whole = used([*self._all(), self._entry(0, todo)])
        self._planned = whole if epsilon_of_record(whole, budget.delta) <= budget.epsilon else ()

    def begin(self, number: int) -> Draws | None:
        """Random draws of round `number`; None if the round would exceed the budget and must not take place."""
        if self._original is not None:
            self.noise, self.stopped = self._original.noise, self._original.stopped
            return None if self.stopped else self._drawn(number)
        if not self.noise:
            raise ConsilienceError(
                f"agent {self.agent!r}: how much noise is needed is not known. Call plan(rounds) with the number of "
                "rounds to come before the first, or give Privacy a noise."
            )
        after = used([*self._all(), self._entry(number)])
        fits = within(after, self._planned) or epsilon_of_record(after, self.privacy.delta) <= self.privacy.epsilon
        if not fits:
            self.stopped = self.stopped or number
            return None
        return self._drawn(number)

    def _drawn(self, number: int) -> Draws:
        if self.privacy.secure:
            return Secure()
        attempt = self._file.attempts(self.run, number) if self._file is not None else 0
        return Repeatable(self._secret, self.agent, number, attempt)

    def end(self, number: int) -> None:
        """Records the round. With a ledger's file the entry is on disk when this returns."""
        entry = self._entry(number)
        if self._file is not None:
            self._file.add(self.run, entry)
        self.entries.append(entry)

    def keep(self, file: LedgerFile) -> None:
        """Uses a ledger's file from now on: its entries count, and the noise follows from a new secret.

        All peers know the seed of a federation: noise that followed from it could be subtracted.
        """
        self._file = file
        self._secret = secrets.randbits(256)

    @property
    def run(self) -> str:
        """The name of this run in the ledger, the same after a checkpoint."""
        return hashlib.sha256(f"run of {self.agent}: {self._secret}".encode()).hexdigest()[:16]

    @property
    def file(self) -> LedgerFile | None:
        """The ledger's file."""
        return self._file

    def record(self) -> float:
        """Epsilon so far, with earlier runs on the same rows: the number in all logs and reports."""
        return epsilon_of_record(used(self._all()), self.privacy.delta)

    def spent(self) -> Spent:
        """The privacy loss for reports."""
        budget = self.privacy
        earlier = epsilon_of_record(used(self._earlier()), budget.delta)
        return Spent(
            epsilon=_finite(self.record()),
            budget=budget.epsilon,
            delta=budget.delta,
            clip=budget.clip,
            noise=self.noise,
            rate=self.rate,
            steps=sum(entry.steps for entry in self.entries),
            rounds=len(self.entries),
            earlier=_finite(earlier),
            generator="operating system" if budget.secure else "secret" if self._file is not None else "seed",
            stopped=self.stopped,
        )

    def state(self) -> dict[str, Array]:
        """For a checkpoint."""
        secret = np.frombuffer(self._secret.to_bytes(64, "little"), np.uint8)
        numbers = {"noise": np.array(self.noise, dtype=np.float64), "stopped": np.array(self.stopped)}
        return {"entries": to_array(self.entries), "secret": secret, **numbers}

    def restore(self, state: dict[str, Array]) -> None:
        """Restores a `state`. Further entries of a ledger's file still count."""
        noise = float(state["noise"])
        problem = next((entry.problem for entry in from_array(state["entries"]) if entry.problem), "")
        if problem or not 0 <= noise < inf:
            problem = problem or f"invalid noise {noise}"
            raise ConsilienceError(
                f"agent {self.agent!r}: what its checkpoint says of its privacy budget is damaged ({problem}). Restore "
                "the run folder from a backup; without it nothing may be spent."
            )
        self.entries = from_array(state["entries"])
        self._secret = int.from_bytes(state["secret"].tobytes(), "little")
        self.noise, self.stopped = noise, int(state["stopped"])
        if self._file is not None:
            self._file.check_holds(self.run, self.entries)

    def _entry(self, number: int, rounds: int = 1) -> LedgerEntry:
        return LedgerEntry(number, self.rate, self.noise, self.steps * rounds)

    def _all(self) -> list[LedgerEntry]:
        return self._file.entries if self._file is not None else self.entries

    def _earlier(self) -> list[LedgerEntry]:
        return self._file.before(self.run) if self._file is not None else []


def _finite(value: float) -> float | None:
    return None if value == inf else value
