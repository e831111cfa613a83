"""One job in this process."""

import numpy as np

from consilience.runtime.run import load_run
from consilience.settings import wiring
from consilience.workers import work as working
from consilience.workers.jobs import run_jobs
from tests.workers.small import methods_on_two_seeds


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
