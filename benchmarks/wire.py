"""Communication: bytes a round for each form of predictions, and what it costs in accuracy."""

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.timing import table
from consilience.experiments.compare import estimate
from consilience.settings.presets import DEFAULT, read_settings
from consilience.workers.job import Job
from consilience.workers.jobs import run_jobs

FORMS = {"float32": {}, "float16": {"method.wire.form": "float16"}} | {
    f"top-k, k = {k}": {"method.wire.form": "top-k", "method.wire.top": k} for k in (1, 3)
}
SEEDS = range(5)


def run() -> str:
    """The section on communication."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = [
            Job(read_settings(DEFAULT, changes | {"seed": seed, "references": []}), Path(folder) / f"{n}-{seed}")
            for n, changes in enumerate(FORMS.values())
            for seed in SEEDS
        ]
        runs = iter(run_jobs(jobs))
        last = {form: [next(runs).last_round() for _ in SEEDS] for form in FORMS}
    scores = {
        form: np.array([one[~one["low_quality"]]["accuracy_target"].mean() for one in rounds])
        for form, rounds in last.items()
    }
    rows = []
    for form, rounds in last.items():
        sent = rounds[0]["bytes_sent"].sum()
        against = estimate(scores[form] - scores["float32"])
        change = "-" if form == "float32" else f"{against.mean:+.3f} ± {against.half_width:.3f}"
        whole = last["float32"][0]["bytes_sent"].sum()
        rows.append([form, f"{sent / 1e3:.0f} kB", f"{whole / sent:.1f}", f"{scores[form].mean():.3f}", change])
    head = ["wire", "bytes a round", "times fewer", "accuracy", "against float32"]
    return (
        "## Communication\n\nThe default (`digits`): what all ten agents send in a round, each to nine peers, and the "
        f"accuracy on the target domain of the agents with good labels, mean over seeds 0 to {SEEDS[-1]}; ± is a 95 % "
        "confidence interval of the paired difference.\n\n" + table(head, rows)
    )
