"""Pseudo-labels against plain loops."""

import numpy as np
import pytest

from consilience.core import labels
from consilience.core.labels import geometric_labels, majority_labels, pseudo_labels


def predictions(agents=4, samples=6, classes=3):
    return np.random.default_rng(0).dirichlet(np.ones(classes), size=(agents, samples))


def slow_pseudo_labels(w, f):
    rows, agents, samples, outputs = len(w), len(f), len(f[0]), len(f[0][0])
    psi = np.zeros((rows, samples, outputs))
    for i in range(rows):
        for x in range(samples):
            for c in range(outputs):
                for j in range(agents):
                    psi[i, x, c] += w[i][j] * f[j][x][c]
    return psi


def slow_majority(f):
    agents, samples, classes = f.shape
    labels = np.zeros((samples, classes))
    for x in range(samples):
        votes = [0] * classes
        for j in range(agents):
            votes[f[j, x].tolist().index(max(f[j, x]))] += 1
        labels[x, votes.index(max(votes))] = 1
    return labels


@pytest.mark.parametrize("rows", [1, 4])
def test_pseudo_labels_mix_the_predictions_by_trust(rows):
    f = predictions()
    w = np.random.default_rng(1).dirichlet(np.ones(4), size=rows)
    np.testing.assert_allclose(pseudo_labels(w, f), slow_pseudo_labels(w, f), rtol=1e-12)


@pytest.mark.parametrize("columns", [0, 1, 5, 18, 100])
def test_pseudo_labels_may_take_the_place_of_the_predictions_part_by_part(monkeypatch, columns):
    f = predictions()
    w = np.random.default_rng(1).dirichlet(np.ones(4), size=4)
    expected = slow_pseudo_labels(w, f)
    monkeypatch.setattr(labels, "CHUNK_BYTES", columns * 4 * f.itemsize)
    assert pseudo_labels(w, f, out=f) is f
    np.testing.assert_allclose(f, expected, rtol=1e-12)


def test_pseudo_labels_mix_predicted_values_too():
    f = np.random.default_rng(2).normal(size=(3, 5, 1))
    w = np.random.default_rng(3).dirichlet(np.ones(3), size=3)
    np.testing.assert_allclose(pseudo_labels(w, f), slow_pseudo_labels(w, f), rtol=1e-10)


def test_pseudo_labels_of_probabilities_are_probabilities():
    psi = pseudo_labels(np.random.default_rng(1).dirichlet(np.ones(4), size=4), predictions())
    assert (psi >= 0).all()
    np.testing.assert_allclose(psi.sum(axis=2), 1)


def test_pseudo_labels_keep_the_precision_of_the_predictions():
    f, w = predictions(), np.random.default_rng(1).dirichlet(np.ones(4), size=4)
    single = pseudo_labels(w, f.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, pseudo_labels(w, f), rtol=1e-5)


def slow_geometric(w, f, scale):
    """prod_j f_j^w_ij, and for labels that of 1 - f_j, renormalised."""
    psi = np.empty((len(w), *f.shape[1:]))
    for i in range(len(w)):
        for x in range(f.shape[1]):
            yes, no = [1.0] * f.shape[2], [1.0] * f.shape[2]
            for c in range(f.shape[2]):
                for j in range(len(f)):
                    yes[c] *= f[j][x][c] ** w[i][j]
                    no[c] *= (1 - f[j][x][c]) ** w[i][j]
            for c in range(f.shape[2]):
                psi[i, x, c] = yes[c] / (sum(yes) if scale == "classes" else yes[c] + no[c])
    return psi


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("scale", ["classes", "labels"])
def test_geometric_labels_mix_the_logits_by_trust(rows, scale):
    f = predictions()
    w = np.random.default_rng(1).dirichlet(np.ones(4), size=rows)
    np.testing.assert_allclose(geometric_labels(w, f, scale), slow_geometric(w, f, scale), rtol=1e-9)
    assert geometric_labels(w, f.astype(np.float32), scale).dtype == np.float32


def test_geometric_labels_of_agents_that_are_sure_of_other_classes_are_finite():
    psi = geometric_labels(np.full((1, 3), 1 / 3), np.eye(3)[:, None], "classes")
    np.testing.assert_allclose(psi, 1 / 3)


@pytest.mark.parametrize("agents", [1, 2, 4, 7])
def test_majority_labels_are_the_class_with_most_votes(agents):
    f = predictions(agents=agents, samples=40, classes=4)
    assert majority_labels(f).tolist() == slow_majority(f).tolist()


def test_a_tied_vote_goes_to_the_lowest_class():
    votes = np.array([[2, 0], [1, 2], [2, 2], [1, 0], [0, 1]])
    f = np.eye(3)[votes]
    assert majority_labels(f).tolist() == [[0, 1, 0], [1, 0, 0]]


def test_an_agent_that_is_undecided_votes_for_its_lowest_class():
    assert majority_labels(np.array([[[0.2, 0.4, 0.4]]])).tolist() == [[0, 1, 0]]


def test_a_vote_counts_the_same_however_confident():
    f = np.array([[[1.0, 0.0]], [[0.45, 0.55]], [[0.49, 0.51]]])
    assert majority_labels(f).tolist() == [[0, 1]]


def test_majority_labels_keep_the_precision_of_the_predictions():
    assert majority_labels(predictions().astype(np.float32)).dtype == np.float32
