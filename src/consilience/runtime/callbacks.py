"""Events of runs and the callbacks that receive them, such as progress, loggers and users' own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from consilience.runtime.summary import Summary
from consilience.tasks.protocol import Array


@dataclass(frozen=True)
class RunInfo:
    """The run that an event belongs to. Several runs may be under way at the same time."""

    name: str = "run"
    """How the run is called, such as "paper" or "paper, seed 3"."""
    folder: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Every setting of the run by its dotted key, such as method.lam."""


@dataclass(frozen=True)
class Started:
    """The run begins, or resumes after an interruption."""

    summary: Summary
    """The facts of the run and its agents."""
    agents_by_worker: tuple[tuple[str, ...], ...]
    done: int = 0
    """Rounds that were finished before."""


@dataclass(frozen=True)
class Computed:
    """Features of more rows were computed, before or while a run is under way."""

    backbone: str
    done: int
    """Rows of the set whose features are computed."""
    rows: int
    """All rows of the set."""


@dataclass(frozen=True)
class Trained:
    """An agent has trained in the round that is under way."""

    agent: str
    worker: int = 0


@dataclass(frozen=True)
class Finished:
    """A round has ended, and is saved if the run has a folder."""

    number: int
    means: dict[str, float]
    """Means over agents of every measure."""
    agents: dict[str, dict[str, float]] = field(default_factory=dict)
    """Every measure of each agent: the columns of metrics.parquet."""
    trust: Array | None = None
    """(agents, roster); None in a round without collaboration and in sparse exchange."""


@dataclass(frozen=True)
class Ended:
    """The run has finished; or it was stopped or failed, and can be resumed."""

    finished: bool = True
    seconds: float | None = None


Event = Started | Computed | Trained | Finished | Ended
_METHODS = {Started: "start", Computed: "computed", Trained: "trained", Finished: "round", Ended: "end"}
EventSink = Callable[[Event], None]
"""A function that receives the events of one run."""


class Callback:
    """Receives the events of runs. Override what you need; an exception raised here ends the run.

    A round is saved before its event, so that a run that a callback ends can be resumed after its last round. Each
    method takes:

        run: The run that the event belongs to.
        news: What happened: a `Started`, `Computed`, `Trained`, `Finished` or `Ended`.
    """

    def start(self, run: RunInfo, news: Started) -> None:
        """A run begins."""

    def computed(self, run: RunInfo, news: Computed) -> None:
        """Features of more rows were computed."""

    def trained(self, run: RunInfo, news: Trained) -> None:
        """An agent has trained."""

    def round(self, run: RunInfo, news: Finished) -> None:
        """A round has ended."""

    def end(self, run: RunInfo, news: Ended) -> None:
        """A run has ended."""

    def handle(self, run: RunInfo, event: Event) -> None:
        """Passes an event to its method."""
        getattr(self, _METHODS[type(event)])(run, event)


@final
class Callbacks(Callback):
    """Several callbacks as one. Leaving its context ends the runs that are still under way, as unfinished."""

    def __init__(self, callbacks: Sequence[Callback] = ()) -> None:
        self._callbacks = callbacks
        self._under_way: dict[Path | str, RunInfo] = {}

    def __enter__(self) -> "Callbacks":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the runs that are still under way."""
        for run in list(self._under_way.values()):
            self.handle(run, Ended(finished=False))

    def handle(self, run: RunInfo, event: Event) -> None:
        """Passes an event to all callbacks."""
        if isinstance(event, Started):
            self._under_way[run.folder or run.name] = run
        elif isinstance(event, Ended):
            self._under_way.pop(run.folder or run.name, None)
        for callback in self._callbacks:
            callback.handle(run, event)
