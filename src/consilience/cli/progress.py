"""Live lines on the terminal while runs are under way."""

import time
from collections.abc import Callable

from rich import progress
from rich.console import Console

from consilience.runtime.events import Event, Finished, Started, Trained
from consilience.workers.job import Job

SLOW = 2.0
"""Seconds after which a round that is under way is looked into."""


class Progress:
    """Each running method with its round, accuracy and disagreement; all together with the time left.

    In slow rounds there is a line for each worker, with how many of its agents have trained.
    """

    def __init__(self, console: Console, rounds: int, runs: int, label: Callable[[Job], str]) -> None:
        self._rounds, self._label = rounds, label
        self._bar = progress.Progress(
            progress.TextColumn("{task.description:22}"),
            progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[state]}"),
            console=console,
            transient=True,
        )
        self._all = self._bar.add_task(
            "all rounds" if runs > 1 else "rounds", total=rounds * runs, state="starting ..."
        )
        self._runs: dict[str, progress.TaskID] = {}
        self._workers: dict[str, list[progress.TaskID]] = {}
        """Lines of the workers of a run, which stay hidden until a round is slow."""
        self._began: dict[str, float] = {}
        """When the round of a run that is under way began."""

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, job: Job, event: Event) -> None:
        """Brings the lines up to date; at the start of a run also says which worker trains which agents."""
        what = self._label(job)
        if isinstance(event, Started):
            self._begin(what, event.agents_by_worker)
        elif what not in self._runs:
            pass  # another worker was faster than the first, which tells of the start
        elif isinstance(event, Trained):
            line = self._workers[what][event.worker]
            slow = time.monotonic() - self._began[what] > SLOW
            self._bar.update(line, advance=1, state="agents trained in this round", visible=slow)
        else:
            self._end_round(what, event)

    def _begin(self, what: str, agents_by_worker: tuple[tuple[str, ...], ...]) -> None:
        self._began[what] = time.monotonic()
        if len(agents_by_worker) > 1:
            parts = [f"worker {place} trains {', '.join(names)}" for place, names in enumerate(agents_by_worker)]
            self._bar.console.print(f"Agents of {what}: {'; '.join(parts)}.", highlight=False)
        self._runs[what] = self._bar.add_task(what, total=self._rounds, state="", visible=False)
        names = [
            f"  {what}, worker {place}" if len(agents_by_worker) > 1 else f"  {what}"
            for place in range(len(agents_by_worker))
        ]
        self._workers[what] = [
            self._bar.add_task(name, total=len(agents), state="", visible=False)
            for name, agents in zip(names, agents_by_worker, strict=True)
        ]

    def _end_round(self, what: str, event: Finished) -> None:
        key = next(name for name in event.means if name.endswith("_target"))
        label = key.removesuffix("_target").replace("_", " ")
        state = f"{label} {event.means[key]:.3f}  disagreement {event.means['disagreement_all']:.3f}"
        last = event.number >= self._rounds
        self._began[what] = time.monotonic()
        before = self._bar.tasks[self._runs[what]].completed
        self._bar.update(self._all, advance=event.number - before, state="left")
        self._bar.update(self._runs[what], completed=event.number, state=state, visible=not last)
        for line in self._workers[what]:
            self._bar.reset(line, visible=self._bar.tasks[line].visible and not last)
