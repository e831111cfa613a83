"""Jobs: one method with one seed each, run wherever there is room."""

from pathlib import Path

import numpy as np
import pytest

from consilience.runtime.callbacks import Ended, Finished, Started, Trained
from consilience.runtime.run import load_run
from consilience.settings import wiring
from consilience.settings.presets import read_settings
from consilience.settings.settings import Settings
from consilience.workers import pool
from consilience.workers import work as working
from consilience.workers.job import Job
from consilience.workers.jobs import run_jobs
from tests.conftest import Hears

SMALL = read_settings(
    "digits", {"rounds": 2, "warmup": 1, "agents.count": 2, "models": ["linear"], "epochs": 1, "low_quality": []}
)


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


def methods_on_two_seeds(folder: Path) -> list[Job]:
    return [
        Job(SMALL.with_method(name).with_seed(seed), folder / f"{name}-{seed}")
        for seed in (3, 4)
        for name in ("naive", "alone", "fedmd")
    ]


def test_a_worker_goes_on_with_jobs_of_the_data_that_it_has(tmp_path, monkeypatch):
    started, start = [], pool._start
    monkeypatch.setattr(pool, "_start", lambda job, *given: started.append(job.settings.run.seed) or start(job, *given))
    runs = run_jobs(methods_on_two_seeds(tmp_path / "two"), workers=2)
    assert started == [3, 3, 4, 4]  # not six
    for run, alone in zip(runs, run_jobs(methods_on_two_seeds(tmp_path / "one"), workers=1), strict=True):
        assert run.metrics.equals(alone.metrics)


def test_methods_on_one_seed_share_its_data(tmp_path, monkeypatch):
    built = []
    monkeypatch.setattr(working, "build_scenario", lambda s: built.append(s.run.seed) or wiring.build_scenario(s))
    jobs = methods_on_two_seeds(tmp_path)
    runs = run_jobs(jobs, workers=1)
    assert built == [3, 4]
    for run, job in zip(runs, jobs, strict=True):
        stored = load_run(job.folder)
        assert stored.metrics.equals(run.metrics)
        assert stored.metrics.dtypes.equals(run.metrics.dtypes)
        assert stored.summary == run.summary
        assert np.array_equal(stored.trust, run.trust)
        assert stored.draws.keys() == run.draws.keys()


@pytest.mark.slow
def test_workers_are_the_same_where_no_server_forks_them(tmp_path, monkeypatch):
    """As on Windows: each process begins from nothing."""
    [forked] = run_jobs([Job(SMALL, tmp_path / "forked")], 2, [])
    monkeypatch.setattr(pool, "_FORKS", False)
    monkeypatch.setattr(pool, "_METHOD", "spawn")
    [spawned] = run_jobs([Job(SMALL, tmp_path / "spawned")], 2, [])
    assert spawned.metrics.equals(forked.metrics)
