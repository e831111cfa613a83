"""Intervals by resampling test samples: scores of resamples are those of the resampled predictions."""

import numpy as np
import pytest

from consilience.core.bootstrap import DRAWS, interval, resampled
from consilience.tasks import task_named

SAMPLES = 60


def made(task: str, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(outputs)
    if task == "regression":
        return draw.normal(0, 1, (SAMPLES, outputs)).astype(np.float32), draw.normal(0, 1, (SAMPLES, outputs))
    if task == "multilabel":
        y = draw.integers(0, 2, (SAMPLES, outputs))
        return np.clip(y * 0.2 + draw.uniform(0, 0.8, y.shape), 0, 1).astype(np.float32), y
    y = draw.integers(0, outputs, SAMPLES)
    f = draw.uniform(0, 1, (SAMPLES, outputs)) + 0.3 * np.eye(outputs)[y]
    return (f / f.sum(axis=1, keepdims=True)).astype(np.float32), y


CASES = [("classification", 2), ("classification", 4), ("multilabel", 3), ("regression", 2)]


@pytest.mark.parametrize(("task", "outputs"), CASES)
def test_the_score_of_a_resample_is_that_of_its_predictions(task, outputs):
    f, y = made(task, outputs)
    counts = next(resampled(SAMPLES, np.random.default_rng(0)))
    for score in task_named(task).scores:
        if np.isnan(score.measure(f, y)):
            continue
        terms = score.sums.terms(f, y)
        np.testing.assert_allclose(score.sums.score(terms.sum(axis=0)), score.measure(f, y), rtol=1e-6)
        found = score.sums.score(counts @ terms)
        slow = np.array(
            [
                score.measure(*(part[np.repeat(np.arange(SAMPLES), row.astype(int))] for part in (f, y)))
                for row in counts
            ]
        )
        if score.name == "auc":  # to first order
            assert np.corrcoef(found, slow)[0, 1] > 0.97
            assert found.std() == pytest.approx(slow.std(), rel=0.1)
        else:
            np.testing.assert_allclose(found, slow, rtol=1e-6, err_msg=score.name)


def test_every_resample_is_as_large_as_the_sample_and_they_differ():
    counts = np.concatenate(list(resampled(30, np.random.default_rng(0))))
    assert counts.shape == (DRAWS, 30)
    assert (counts.sum(axis=1) == 30).all()
    assert len(np.unique(counts, axis=0)) == DRAWS
    assert counts.mean(axis=0) == pytest.approx(np.ones(30), abs=0.2)
    assert counts.var() == pytest.approx(1 - 1 / 30, abs=0.05)


def test_the_interval_holds_the_truth_about_95_times_in_100():
    draw = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        right = (draw.random(100) < 0.7).astype(float)
        low, high = interval(np.concatenate([part @ right / 100 for part in resampled(100, draw, 200)]))
        held += low <= 0.7 <= high
    assert 180 <= held <= 199


def test_what_no_resample_knows_has_no_interval():
    assert np.isnan(interval(np.full(5, np.nan))).all()
    assert interval(np.array([1.0, np.nan, 1.0])) == (1.0, 1.0)
