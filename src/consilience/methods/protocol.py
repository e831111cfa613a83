"""What a method is: a frozen dataclass of options with one generator, and what it needs of the world around it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Losses, Weights
from consilience.base.errors import ConsilienceError
from consilience.core.wire import Wire
from consilience.tasks.protocol import Array, Task


@dataclass(frozen=True)
class Memory:
    """What later rounds need of earlier ones. It goes through the checkpoint."""

    common: dict[str, Array] = field(default_factory=dict)
    """The same in every process."""
    own: dict[str, dict[str, Array]] = field(default_factory=dict)
    """By agent: what belongs to it alone."""


@dataclass(frozen=True)
class Record:
    """What is written down of a round, and no later round needs."""

    predictions: dict[str, Array]
    """What this process's agents say of the shared data after training."""
    losses: dict[str, Losses]
    sent: dict[str, int]
    """Bytes that each agent of this process sent."""
    heard: tuple[str, ...] = ()
    """Agents that were heard, in the order of the roster."""
    received: dict[str, Array] = field(default_factory=dict)
    """What they said before training."""
    trust: Array | None = None
    """(agents of this process, roster); None where nobody was weighed."""
    by_class: dict[str, Array] = field(default_factory=dict)
    """For rules that weigh peers differently on each class: trust (agents of this process, roster, classes), samples
    (classes,) and unsure (classes,)."""
    peers: Array | None = None
    """Where agents heard some peers only, which (agents of this process, heard): places in the roster. Trust then has
    the same shape, and is in these."""


@dataclass(frozen=True)
class Round:
    """One round of a method, seen after its training."""

    number: int
    record: Record
    memory: Memory = field(default_factory=Memory)


@dataclass(frozen=True)
class Start:
    """From where to where a method goes: the last round, and what is known of the rounds already done."""

    rounds: int
    done: int = 0
    memory: Memory = field(default_factory=Memory)
    seed: int = 0
    """Of what a method draws."""


@dataclass(frozen=True)
class Received:
    """What one process knows after an exchange."""

    predictions: dict[str, Array]
    """Predictions on the shared data by agent. An agent that is missing here was not heard this round."""
    sent: dict[str, int]
    """Bytes that each agent of this process sent."""
    number: int = 0
    """The round that was exchanged, if it is later than the one asked for: a site that was away takes it up."""
    told: dict[str, dict[str, Array]] = field(default_factory=dict)
    """By agent: what some of its peers told it alone, in place of the predictions that everyone else has of them."""


class Exchange(Protocol):
    """How predictions travel. `agents` of a method are those of this process; the exchange makes up the difference."""

    roster: tuple[str, ...]
    """All agents. Its order is the order of rows and columns of every trust matrix."""

    def gather(self, number: int, own_predictions: dict[str, Array]) -> Received:
        """Publishes the predictions of this process's agents in round `number`; those of everyone who was heard."""


class SparseExchange(Protocol):
    """An exchange in which agents may hear a few peers only."""

    def gather_some(self, number: int, own_predictions: dict[str, Array], wanted: dict[str, Array]) -> Received:
        """As `gather`, where each agent of this process hears those `wanted`, places in the roster, and nobody else.

        The answer may hold more, which is in this process for other agents.
        """


class SharesArrays(Protocol):
    """An exchange that carries more than predictions, such as weights. Organisations' exchanges do not."""

    def share(self, arrays: dict[str, Weights]) -> dict[str, Weights]:
        """The arrays of all agents, in the order of the roster, from those of this process's agents."""


class StatefulExchange(Protocol):
    """An exchange that must know later what it saw before. What it keeps goes through the checkpoint."""

    def state(self) -> dict[str, Array]:
        """What a later `restore` needs; the same in every process."""

    def restore(self, state: dict[str, Array]) -> None:
        """Takes up a saved `state`."""


class Method(Protocol):
    """A way of learning together. Its fields are its options."""

    @property
    def label(self) -> str:
        """How tables and folders call it: one word."""

    @property
    def title(self) -> str:
        """How it is called in text."""

    @property
    def warmup(self) -> int:
        """Rounds in which everyone trains alone before the first exchange."""

    @property
    def uses_shared(self) -> bool:
        """Whether agents train on the shared data after the warm-up, or only on their own."""

    @property
    def wire(self) -> Wire:
        """The form in which predictions are published."""

    def rounds(self, agents: LocalAgents, shared: Array, exchange: Exchange, start: Start) -> Iterator[Round]:
        """Goes through the rounds after `start.done` up to `start.rounds`, and yields each when it has ended."""


class NamedByClass:
    """A method whose class has its name."""

    @property
    def label(self) -> str:
        """The name in small letters."""
        return type(self).__name__.lower()

    @property
    def title(self) -> str:
        """The name."""
        return type(self).__name__


def check_wire(wire: Wire, task: Task) -> None:
    """Refuses a form of predictions that the task does not have."""
    if wire.form in ("top-k", "label") and not task.sums_to_one:
        raise ConsilienceError(
            f"wire.form is '{wire.form}', which is for probabilities that sum to one. Use float32 or float16 for "
            f"{task.name}."
        )
