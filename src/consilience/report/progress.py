"""Live lines on the terminal while runs are under way."""

import time
from collections.abc import Callable, Sequence
from math import isnan
from typing import Self

from rich import progress
from rich.console import Console

from consilience.runtime.callbacks import Callback, Computed, Finished, RunInfo, Started, Trained

MOST_NAMES = 20
"""Up to this number of agents of a worker they are listed."""
QUIET = 10.0
"""Seconds between two lines of a run where there is no terminal."""
SLOW = 2.0
"""Seconds after which the lines of workers are shown."""


class _Bars:
    """Bars with the time left, on a terminal alone; they go away at the end."""

    def __init__(self, console: Console, description: str, *more: str) -> None:
        self._bar = progress.Progress(
            progress.TextColumn(description, markup=False),
            progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(),
            *(progress.TextColumn(text, markup=False) for text in more),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._printed = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def _print_seldom(self, line: str) -> None:
        """Prints a line where there is no terminal, unless another was printed just before."""
        now = time.monotonic()
        if not self._bar.console.is_terminal and now - self._printed > QUIET:
            self._printed = now
            self._bar.console.print(line, highlight=False, soft_wrap=True)


class Progress(_Bars, Callback):
    """Each running method with its round, accuracy and disagreement; all together with the time left.

    In slow rounds there is a line for each worker, with how many of its agents have trained.
    """

    def __init__(self, console: Console, rounds: int, runs: int) -> None:
        super().__init__(console, "{task.description:22}", "{task.fields[state]}")
        self._rounds = rounds
        self._all = self._bar.add_task(
            "all rounds" if runs > 1 else "rounds", total=rounds * runs, state="starting ..."
        )
        self._runs: dict[str, progress.TaskID] = {}
        self._of: dict[str, int] = {}
        """Rounds of a run."""
        self._workers: dict[str, list[progress.TaskID]] = {}
        """Lines of the workers of a run, which stay hidden until a round is slow."""
        self._backbones: dict[str, progress.TaskID] = {}
        self._said: set[str] = set()
        """Lines about the data, which several runs share."""
        self._began: dict[str, float] = {}
        """When the round of a run that is under way began."""

    def start(self, run: RunInfo, news: Started) -> None:
        """Adds the lines of a run, hidden at first, and prints which worker trains which agents."""
        what, agents_by_worker = run.name, news.agents_by_worker
        for line in (line for line in news.summary.opening if line not in self._said):
            self._said.add(line)
            self._bar.console.print(line, highlight=False, markup=False, soft_wrap=True)
        self._began[what] = time.monotonic()
        if len(agents_by_worker) > 1:
            workers = [f"worker {number} trains {_listed(names)}" for number, names in enumerate(agents_by_worker)]
            self._bar.console.print(f"Agents of {what}: {'; '.join(workers)}.", highlight=False)
        rounds = self._of[what] = news.summary.rounds
        more = rounds - self._rounds if what not in self._runs else rounds - news.done  # a run may be made longer
        self._bar.update(self._all, total=(self._bar.tasks[self._all].total or 0) + more)
        self._bar.update(self._all, advance=news.done if what not in self._runs else 0)
        self._runs[what] = self._bar.add_task(what, total=rounds, completed=news.done, state="", visible=False)
        several = len(agents_by_worker) > 1
        self._workers[what] = [
            self._bar.add_task(
                f"  {what}, worker {number}" if several else f"  {what}", total=len(agents), state="", visible=False
            )
            for number, agents in enumerate(agents_by_worker)
        ]

    def computed(self, run: RunInfo, news: Computed) -> None:
        """Shows how far a backbone is with a set of rows."""
        if news.backbone not in self._backbones:
            self._backbones[news.backbone] = self._bar.add_task(f"  {news.backbone}", state="features of rows")
        line, done = self._backbones[news.backbone], min(news.done, news.rows)
        self._bar.update(line, completed=done, total=news.rows, visible=done < news.rows)
        self._print_seldom(f"{news.backbone}: features of {done} of {news.rows} rows")

    def trained(self, run: RunInfo, news: Trained) -> None:
        """Shows the line of a worker if the round is slow."""
        if run.name not in self._runs:
            return  # another worker was faster than the first, which sends the start
        line = self._workers[run.name][news.worker]
        slow = time.monotonic() - self._began[run.name] > SLOW
        self._bar.update(line, advance=1, state="agents trained in this round", visible=slow)

    def round(self, run: RunInfo, news: Finished) -> None:
        """Moves the bars to the next round."""
        what = run.name
        key = next(name for name in news.means if name.endswith("_target"))
        label = key.removesuffix("_target").replace("_", " ")
        known = {label: news.means[key], "disagreement": news.means["disagreement_all"]}
        known |= {"epsilon": news.means["epsilon"]} if "epsilon" in news.means else {}
        state = "  ".join(f"{name} {value:.3f}" for name, value in known.items() if not isnan(value))
        last = news.number >= self._of[what]
        self._began[what] = time.monotonic()
        self._print_seldom(f"{what}: round {news.number} of {self._of[what]}  {state}")
        before = self._bar.tasks[self._runs[what]].completed
        self._bar.update(self._all, advance=news.number - before, state="left")
        self._bar.update(self._runs[what], completed=news.number, state=state, visible=not last)
        for line in self._workers[what]:
            self._bar.reset(line, visible=self._bar.tasks[line].visible and not last)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} agents"


class Lines(Callback):
    """A line for every round."""

    def __init__(self, say: Callable[[str], None], rounds: int) -> None:
        self._say, self._rounds = say, rounds

    def round(self, run: RunInfo, news: Finished) -> None:
        """Prints mean scores, where they are known."""
        columns = ("accuracy_own", "accuracy_target", "rmse_own", "rmse_target", "epsilon")
        known = [f"{key} {news.means[key]:.3f}" for key in columns if news.means.get(key, -1) >= 0]
        self._say(f"round {news.number} of {self._rounds} done{': ' if known else ''}{', '.join(known)}")


class Steps(_Bars):
    """The number of finished steps and the current one: on a terminal in a line that goes away, elsewhere in lines."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, "{task.description}")
        self._line = self._bar.add_task("starting ...", total=None)

    def tell(self, what: str, done: int, of: int, doing: str) -> None:
        """Shows how far `what` is."""
        self._bar.update(self._line, description=f"{what}: {doing}", completed=done, total=of)
        if done < of:
            self._print_seldom(f"{what}: step {done + 1} of {of}, {doing}")
