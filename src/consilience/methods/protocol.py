"""The interfaces of a method and of an exchange, and the types that pass between a method and the driver."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Losses, Weights
from consilience.base.errors import ConsilienceError
from consilience.core.wire import Wire
from consilience.tasks.protocol import Array, Task


@dataclass(frozen=True)
class Memory:
    """State that later rounds need; it is saved in the checkpoint."""

    common: dict[str, Array] = field(default_factory=dict)
    """The same in every process."""
    own: dict[str, dict[str, Array]] = field(default_factory=dict)
    """Arrays of one agent alone, by agent."""


@dataclass(frozen=True)
class Record:
    """Results of a round, for the history. No later round needs them."""

    predictions: dict[str, Array]
    """Predictions of this process's agents on the shared data after training."""
    losses: dict[str, Losses]
    sent: dict[str, int]
    """Bytes that each agent of this process sent."""
    heard: tuple[str, ...] = ()
    """Agents that were heard, in the order of the roster."""
    received: dict[str, Array] = field(default_factory=dict)
    """Their predictions before training; empty if these are not those after the last round."""
    trust: Array | None = None
    """(agents of this process, roster); None where nobody was weighed."""
    by_class: dict[str, Array] = field(default_factory=dict)
    """For rules that weigh peers differently on each class: trust (agents of this process, roster, classes), samples
    (classes,) and unsure (classes,)."""
    peers: Array | None = None
    """In sparse exchange: the peers of each agent as indices in the roster, (agents of this process, heard). Trust then
    has the same shape."""


@dataclass(frozen=True)
class Round:
    """One round of a method, after its training."""

    number: int
    record: Record
    memory: Memory = field(default_factory=Memory)


@dataclass(frozen=True)
class Start:
    """Where a method starts and ends."""

    rounds: int
    """The last round."""
    done: int = 0
    """Rounds already done, before a checkpoint."""
    memory: Memory = field(default_factory=Memory)
    """State after these rounds."""
    seed: int = 0


@dataclass(frozen=True)
class Received:
    """What one process received in an exchange."""

    predictions: dict[str, Array]
    """Predictions on the shared data by agent. An agent that is missing here was not heard this round."""
    sent: dict[str, int]
    """Bytes that each agent of this process sent."""
    number: int = 0
    """The round that was exchanged. It is later than the one asked for if this site was away."""
    told: dict[str, dict[str, Array]] = field(default_factory=dict)
    """By agent: predictions that some peers sent to it alone, instead of those that everyone else received."""


class Exchange(Protocol):
    """How predictions travel. A method's `agents` are those of this process; the exchange supplies the others' data."""

    roster: tuple[str, ...]
    """All agents. Its order is the order of rows and columns of every trust matrix."""

    def gather(self, number: int, own_predictions: dict[str, Array]) -> Received:
        """Publishes the predictions of this process's agents in round `number`; returns those of all who were heard."""


class SparseExchange(Protocol):
    """An exchange in which each agent can hear a few peers only."""

    def gather_some(self, number: int, own_predictions: dict[str, Array], wanted: dict[str, Array]) -> Received:
        """As `gather`, but each agent of this process hears only the peers `wanted`, as indices in the roster.

        The result may hold more predictions, for other agents of this process.
        """


class DeclaresSamples(Protocol):
    """An exchange that knows how many private samples agents declare."""

    samples: Mapping[str, int]
    """By agent; those that declare none are missing."""


class SharesArrays(Protocol):
    """An exchange that carries arrays of any kind, such as weights. Exchanges between organisations do not."""

    def share(self, arrays: dict[str, Weights]) -> dict[str, Weights]:
        """Publishes the arrays of this process's agents; returns those of all agents in the order of the roster."""


class StatefulExchange(Protocol):
    """An exchange with a state that is saved in the checkpoint."""

    def state(self) -> dict[str, Array]:
        """The state; the same in every process."""

    def restore(self, state: dict[str, Array]) -> None:
        """Restores a saved `state`."""


class Method(Protocol):
    """A method of collaborative learning: a frozen dataclass whose fields are its options."""

    @property
    def label(self) -> str:
        """Its name in tables and folders: one word."""

    @property
    def title(self) -> str:
        """Its name in text."""

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
        """Runs the rounds after `start.done` up to `start.rounds`, and yields each when it has ended.

        Args:
            agents: Agents of this process.
            shared: Shared data.
            exchange: How predictions travel between all agents.
            start: Last round, rounds already done, and their memory.
        """


def wrong_checkpoint(done: int, title: str) -> ConsilienceError:
    """The error for a checkpoint that does not hold the memory of the method `title`."""
    return ConsilienceError(
        f"the checkpoint of round {done} does not hold what {title} keeps for these agents. "
        "Was it made by another method? Resume with the same one, or start again in another folder."
    )


def check_wire(wire: Wire, task: Task) -> None:
    """Raises an error if the task's predictions cannot have the form of the wire."""
    if wire.form in ("top-k", "label") and not task.sums_to_one:
        raise ConsilienceError(
            f"wire.form is '{wire.form}', which is for probabilities that sum to one. Use float32 or float16 for "
            f"{task.name}."
        )
