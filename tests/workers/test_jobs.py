"""Jobs: one method with one seed each, run wherever there is room."""

from pathlib import Path

import pytest

from consilience.runtime.callbacks import Ended, Finished, Started, Trained
from consilience.settings.settings import Settings
from consilience.workers.job import Job
from consilience.workers.jobs import run_jobs
from tests.conftest import Hears
from tests.workers.small import SMALL


def test_a_job_is_called_as_its_method_was():
    assert Job(Settings(), Path("run")).method == "consensus"
    named = Job(Settings().with_method("fedprox(mu=0.1)"), Path("run"), "fedprox(mu=0.1)")
    assert named.method == "fedprox(mu=0.1)"
    assert Job(Settings().with_method("fedprox(mu=0.1)"), Path("run")).method == "fedprox"


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_runs_come_back_in_order_with_every_round_and_finished_ones_once(tmp_path, workers):
    """With as many workers as pay off (here one), with one, and two runs side by side."""
    jobs = [Job(SMALL.with_method(name), tmp_path / name, name) for name in ("naive", "alone")]
    told = []
    runs = run_jobs(jobs, workers, [Hears(lambda run, event: told.append((run.name, event)))])
    assert [run.summary.method for run in runs] == ["naive", "alone"]
    for name in ("naive", "alone"):
        events = [event for method, event in told if method == name]
        assert isinstance(events[0], Started)
        assert events[0].agents_by_worker == (("0", "1"),)
        assert events[-1] == Ended(seconds=runs[("naive", "alone").index(name)].summary.seconds)
        assert [event.number for event in events if isinstance(event, Finished)] == [1, 2]
        assert [event for event in events if isinstance(event, Trained)] == [Trained("0", 0), Trained("1", 0)] * 2
    again = run_jobs(jobs, workers, [Hears(lambda run, event: pytest.fail("it was finished"))])
    assert [run.summary for run in again] == [run.summary for run in runs]
