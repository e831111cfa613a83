"""The mechanism of a private agent: how much noise, what it has cost so far, and whether another round fits."""

import hashlib
import secrets
from dataclasses import asdict, dataclass
from math import inf, isinf
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from consilience.base.errors import ConsilienceError
from consilience.privacy.accountants import epsilon_of_record, noise_for, within
from consilience.privacy.draws import Draws, Repeatable, Secure
from consilience.privacy.entry import LedgerEntry, Used, from_array, to_array, used
from consilience.privacy.ledger import LedgerFile
from consilience.privacy.options import Privacy

Array = NDArray[Any]


@dataclass(frozen=True)
class Spent:
    """What a private agent has spent, for reports. The unit of privacy is one row of its private data."""

    epsilon: float | None
    """Of record, by dp-accounting's PLD accountant, earlier runs on the same rows included; None: without a bound."""
    budget: float
    delta: float
    clip: float
    noise: float
    """Standard deviation of the noise, divided by `clip`."""
    rate: float
    """Chance of a row to be in the sample of a step."""
    steps: int
    rounds: int
    """In which the agent trained on its private rows."""
    earlier: float | None
    """Epsilon that earlier runs on the same rows had spent."""
    generator: str
    stopped: int
    """The first round without private training because the budget was spent; 0 if there was none."""

    def table(self) -> dict[str, Any]:
        """As a table of plain values."""
        return asdict(self)


@final
class Mechanism:
    """DP-SGD of one agent: `steps` a round, each on a Poisson sample of the `rows` at `rate`.

    Every round of training, the warm-up included, is an entry of the ledger. It is written before the round's result
    can leave: into the ledger's file, if there is one, and into the checkpoint.
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
        """The first round that had to be left out because it would have exceeded the budget; 0 if there was none."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "Mechanism":
        """For a copy of the agent that trains beside it and stays where it is: nothing of it is published.

        It has as much noise as the original and stops when that does, and enters nothing into the ledger. Where the
        noise is secret it draws other noise.
        """
        copy = Mechanism(self.privacy, self.agent, self._secret, self.rows, self.rate, self.steps)
        copy.entries, copy.stopped, copy._original = list(self.entries), self.stopped, self
        if self._file is not None:
            copy._secret = secrets.randbits(256)
        return copy

    def plan(self, rounds: int) -> None:
        """Chooses the noise so that so many rounds in all fit the budget, unless it is given or chosen already."""
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
        """The draws of round `number`; None if the round would exceed the budget: then it must not take place."""
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
        """Enters the round. With a ledger's file it is on the disk when this returns."""
        entry = self._entry(number)
        if self._file is not None:
            self._file.add(self.run, entry)
        self.entries.append(entry)

    def keep(self, file: LedgerFile) -> None:
        """From now on enters rounds into a file as well, counts what is in it, and draws from a secret of its own.

        The seed of a federation is known to all peers: noise that followed from it could be taken away.
        """
        self._file = file
        self._secret = secrets.randbits(256)

    @property
    def run(self) -> str:
        """Names this run in the ledger, and comes back with its checkpoint."""
        return hashlib.sha256(f"run of {self.agent}: {self._secret}".encode()).hexdigest()[:16]

    @property
    def file(self) -> LedgerFile | None:
        """The ledger's file."""
        return self._file

    def record(self) -> float:
        """Epsilon so far, earlier runs on the same rows included: the one number that is shown, logged and reported."""
        return epsilon_of_record(used(self._all()), self.privacy.delta)

    def spent(self) -> Spent:
        """What a report says."""
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
        """Takes up what `state` gave. What a ledger's file holds beyond it stays spent."""
        noise = float(state["noise"])
        problem = next((entry.problem for entry in from_array(state["entries"]) if entry.problem), "")
        if problem or not 0 <= noise < inf:
            problem = problem or f"the noise {noise} is none"
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
        """Everything that was ever spent on these rows, as far as it is known here."""
        return self._file.entries if self._file is not None else self.entries

    def _earlier(self) -> list[LedgerEntry]:
        return self._file.before(self.run) if self._file is not None else []


def _finite(value: float) -> float | None:
    return None if value == inf else value
