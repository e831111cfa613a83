"""Jobs on worker processes."""

import pytest

from consilience.workers import pool
from consilience.workers.job import Job
from consilience.workers.jobs import run_jobs
from tests.workers.small import SMALL, methods_on_two_seeds


def test_a_worker_goes_on_with_jobs_of_the_data_that_it_has(tmp_path, monkeypatch):
    started, start = [], pool._start
    monkeypatch.setattr(pool, "_start", lambda job, *given: started.append(job.settings.run.seed) or start(job, *given))
    runs = run_jobs(methods_on_two_seeds(tmp_path / "two"), workers=2)
    assert started == [3, 3, 4, 4]  # not six
    for run, alone in zip(runs, run_jobs(methods_on_two_seeds(tmp_path / "one"), workers=1), strict=True):
        assert run.metrics.equals(alone.metrics)


@pytest.mark.slow
def test_workers_are_the_same_where_no_server_forks_them(tmp_path, monkeypatch):
    """As on Windows: each process begins from nothing."""
    [forked] = run_jobs([Job(SMALL, tmp_path / "forked")], 2, [])
    monkeypatch.setattr(pool, "_FORKS", False)
    monkeypatch.setattr(pool, "_METHOD", "spawn")
    [spawned] = run_jobs([Job(SMALL, tmp_path / "spawned")], 2, [])
    assert spawned.metrics.equals(forked.metrics)
