"""The live lines of a run."""

from io import StringIO

import pytest
from rich.console import Console

from consilience.report import progress as module
from consilience.report.progress import Progress
from consilience.runtime.callbacks import Finished, RunInfo, Started, Trained
from consilience.runtime.summary import Summary

RUN = RunInfo("paper")
MEANS = {"accuracy_shared": 0.9, "accuracy_target": 0.5, "auc_target": 0.7, "disagreement_all": 0.25}


def started(*agents_by_worker: tuple[str, ...], done: int = 0, rounds: int = 10) -> Started:
    return Started(Summary("paper", "paper", "classification", rounds, 1, 9), agents_by_worker, done)


def lines(progress: Progress) -> list[str]:
    """What stands on the screen, with single spaces and without the bars."""
    screen = Console(file=StringIO(), width=120)
    screen.print(progress._bar)
    text = screen.file.getvalue().replace("━", "").replace("╺", "").replace("╸", "")
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize(("slow", "shown"), [(0.0, True), (1e9, False)])
def test_slow_rounds_show_how_far_every_worker_is(monkeypatch, slow, shown):
    monkeypatch.setattr(module, "SLOW", slow)
    screen = StringIO()
    with Progress(Console(file=screen, width=120), 2, 1) as progress:
        progress.handle(RUN, started(("a", "b"), ("c",), rounds=2))
        assert "Agents of paper: worker 0 trains a, b; worker 1 trains c." in screen.getvalue()
        assert len(lines(progress)) == 1
        progress.handle(RUN, Trained("a", 0))
        progress.handle(RUN, Trained("c", 1))
        assert any("paper, worker 0 1/2" in line for line in lines(progress)) == shown
        assert any("paper, worker 1 1/1" in line for line in lines(progress)) == shown
        progress.handle(RUN, Finished(1, MEANS))
        assert any("paper 1/2" in line and "accuracy 0.500 disagreement 0.250" in line for line in lines(progress))
        assert any("paper, worker 0 0/2" in line for line in lines(progress)) == shown
        progress.handle(RUN, Finished(2, MEANS))
        assert [line.split(" ")[:2] for line in lines(progress)] == [["rounds", "2/2"]]


def test_a_resumed_run_goes_on_at_its_round():
    with Progress(Console(file=StringIO(), width=120), 10, 1) as progress:
        progress.handle(RUN, started(("a", "b"), done=6))
        assert lines(progress)[0].startswith("rounds 6/10")
        progress.handle(RUN, Finished(7, MEANS))
        assert lines(progress)[0].startswith("rounds 7/10")
