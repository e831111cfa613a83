"""Labels of the baselines, each written a second time with plain loops."""

import math

import numpy as np
import pytest

from consilience.core import distillation, trust


def words(agents: int = 5, samples: int = 7, classes: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(classes), (agents, samples))


def softmax(z: list[float]) -> list[float]:
    total = sum(math.exp(value) for value in z)
    return [math.exp(value) / total for value in z]


@pytest.mark.parametrize("floor", [1e-30, 0.1])
def test_mean_of_logits_with_plain_loops(floor):
    f = words()
    expected = [
        softmax([sum(math.log(max(f[j, s, c], floor)) for j in range(5)) / 5 for c in range(4)]) for s in range(7)
    ]
    np.testing.assert_allclose(distillation.mean_logits(f, floor), expected)


def test_a_constant_that_is_added_to_all_logits_of_a_row_changes_nothing():
    """So log-probabilities do for logits."""
    draw = np.random.default_rng(1)
    logits = draw.normal(0, 3, (5, 7, 4))
    e = np.exp(logits)
    expected = [softmax(row) for row in logits.mean(axis=0).tolist()]
    np.testing.assert_allclose(distillation.mean_logits(e / e.sum(axis=2, keepdims=True)), expected)


def test_one_agent_cannot_rule_a_class_out_alone():
    """An estimator gives a class that its data do not show no chance at all."""
    f = np.array([[[1.0, 0.0]], [[0.02, 0.98]], [[0.02, 0.98]]])
    assert distillation.mean_logits(f, 1e-3).argmax() == 1
    assert distillation.mean_logits(f).argmax() == 0
    assert np.isfinite(distillation.mean_logits(f)).all()


@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_sharpened_mean_with_plain_loops(temperature):
    f = words()
    expected = [softmax([sum(f[j, s, c] for j in range(5)) / 5 / temperature for c in range(4)]) for s in range(7)]
    np.testing.assert_allclose(distillation.sharpened_mean(f, temperature), expected)


def test_sharpening_takes_entropy_away_and_keeps_the_class():
    f = words(samples=200)
    sharp, mean = distillation.sharpened_mean(f, 0.05), f.mean(axis=0)
    assert trust.entropy(sharp).mean() < 0.6 * trust.entropy(mean).mean()
    np.testing.assert_array_equal(sharp.argmax(axis=1), mean.argmax(axis=1))


@pytest.mark.parametrize("make", [distillation.mean_logits, lambda f: distillation.sharpened_mean(f, 0.1)])
def test_labels_are_distributions_in_the_precision_of_the_predictions(make, monkeypatch):
    monkeypatch.setattr(trust, "CHUNK_BYTES", 300)
    f = words(samples=50)
    whole = make(f)
    np.testing.assert_allclose(whole.sum(axis=1), 1)
    assert make(f.astype(np.float32)).dtype == np.float32
    monkeypatch.undo()
    np.testing.assert_allclose(make(f), whole)


def test_class_means_with_plain_loops():
    f, y = words(1, 9)[0], np.array([0, 2, 2, 0, 2, 2, 0, 0, 2])
    found = distillation.class_means(f, y, 4)
    assert found.dtype == np.float32 and found.shape == (4, 4)
    for c in range(4):
        rows = [f[s] for s in range(9) if y[s] == c]
        if rows:
            np.testing.assert_allclose(found[c], sum(rows) / len(rows), rtol=1e-6)
        else:
            assert np.isnan(found[c]).all()


def test_others_means_with_plain_loops():
    """Class 1 is known to agents 0 and 2 alone, class 3 to agent 1 alone, and class 2 to nobody."""
    means = words(4, 4, 4, seed=2)
    means[[1, 3], 1] = means[[0, 2, 3], 3] = means[:, 2] = np.nan
    found = distillation.others_means(means)
    for i in range(4):
        for c in range(4):
            rows = [means[j, c] for j in range(4) if j != i and not np.isnan(means[j, c, 0])]
            expected = sum(rows) / len(rows) if rows else np.eye(4)[c]
            np.testing.assert_allclose(found[i, c], expected, atol=1e-12)
