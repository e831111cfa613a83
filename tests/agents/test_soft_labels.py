"""Pseudo-labels for estimators that take classes: what each can do is found out by trying."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import consilience as cs
from consilience import ConsilienceError, SklearnAgent
from consilience.agents.soft_labels import labelled_rows
from tests.conftest import CLASSES, blobs


def psi_of(samples: int):
    return np.random.default_rng(5).dirichlet(np.ones(CLASSES), samples).astype(np.float32)


def mode(estimator, **options) -> str:
    return SklearnAgent(estimator, *blobs(30, seed=1), "a", **options).soft_labels


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (LogisticRegression(), "repeated"),
        (GaussianNB(), "repeated"),
        (DecisionTreeClassifier(), "repeated"),
        (ExtraTreesClassifier(5), "repeated"),
        (DecisionTreeClassifier(min_samples_leaf=20), "largest"),
        (DecisionTreeClassifier(min_samples_leaf=100), "largest"),
        (DecisionTreeClassifier(min_samples_split=400), "largest"),
        (HistGradientBoostingClassifier(max_iter=5), "largest"),
        (HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=100), "largest"),
        (DummyClassifier(), "repeated"),
        (RandomForestClassifier(5), "largest"),
        (KNeighborsClassifier(3), "sharpened"),
        (CalibratedClassifierCV(KNeighborsClassifier(3)), "sharpened"),
        (CalibratedClassifierCV(LinearDiscriminantAnalysis()), "sharpened"),
        (CalibratedClassifierCV(make_pipeline(StandardScaler(), LogisticRegression())), "sharpened"),
        (VotingClassifier([("a", make_pipeline(StandardScaler(), LogisticRegression()))], voting="soft"), "sharpened"),
        (SVC(probability=True), "sharpened"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "repeated"),
        (make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), KNeighborsClassifier(3))), "sharpened"),
    ],
    ids=lambda value: str(value).split("(")[0] if not isinstance(value, str) else value,
)
def test_how_an_estimator_learns_from_pseudo_labels_follows_from_what_it_does(estimator, expected):
    """By its signature CalibratedClassifierCV honours weights, and all trees are alike."""
    assert mode(estimator) == expected
    assert mode(estimator, soft_labels="drawn") == "drawn", "unless it is said"


def test_an_estimator_that_wants_its_own_rows_is_tried_on_those():
    class Two(LogisticRegression):
        """Takes no more than two features."""

        def fit(self, x, y, sample_weight=None):
            assert x.shape[1] == 2
            return super().fit(x, y, sample_weight)

    x, y = blobs(30, seed=1)
    agent = SklearnAgent(Two(), x[:, :2], y, "a")
    assert agent.soft_labels == "repeated"
    assert SklearnAgent(Two(), x[:, :2], np.zeros(30, int), "a").soft_labels == "repeated", "with a single class, too"


def test_sharpened_classes_are_drawn_by_their_squared_probabilities():
    """None twice before all rows stand there once; slow loop over many draws."""
    psi = np.array([[0.6, 0.3, 0.1], [0.0, 0.2, 0.8]])
    found = np.zeros((2, 3))
    for seed in range(3000):
        row, label, weight = labelled_rows("sharpened", psi, False, 1.0, np.random.default_rng(seed))
        assert sorted(row.tolist()) == [0, 1]
        assert weight is None
        for at, one in zip(row, label, strict=True):
            found[at, one] += 1 / 3000
    expected = [[p**2 / sum(q**2 for q in of_row) for p in of_row] for of_row in psi]
    np.testing.assert_allclose(found, expected, atol=0.03)
    row, _, _ = labelled_rows("sharpened", psi, False, 1.5, np.random.default_rng(0))
    assert sorted(row[:2].tolist()) == [0, 1]
    assert len(row) == 3


def test_values_keep_their_pseudo_labels_without_weights():
    values = np.arange(6.0)[:, None] - 3
    row, target, weight = labelled_rows("sharpened", values, True, 0.5, np.random.default_rng(0))
    assert len(row) == 3
    assert weight is None
    np.testing.assert_array_equal(target, values[row])


@pytest.mark.parametrize("inner", [KNeighborsClassifier(5), LinearDiscriminantAnalysis()])
def test_a_wrapper_that_drops_weights_learns_from_peers_instead_of_forgetting_all(inner):
    """With weights that are dropped every shared row would stand there once for each class, as if all were true."""
    x, y = blobs(60, seed=1)
    shared, truth = blobs(100, seed=2)
    agent = SklearnAgent(CalibratedClassifierCV(inner, cv=3), x, y, "a")
    agent.train(shared, None, 0.0)
    alone = (agent.predict(shared).argmax(axis=1) == truth).mean()
    psi = np.full((100, CLASSES), 0.05, np.float32) + 0.85 * np.eye(CLASSES, dtype=np.float32)[truth]
    for _ in range(3):
        agent.train(shared, psi, 1.0)
    together = (agent.predict(shared).argmax(axis=1) == truth).mean()
    assert alone > 0.8
    assert together >= alone


@pytest.mark.parametrize("inner", [KNeighborsClassifier(5), LinearDiscriminantAnalysis()])
def test_on_digits_a_wrapper_that_drops_weights_is_not_ruined_by_its_peers(inner):
    """With every shared row once for each class it fell to chance within three rounds."""
    x, y = load_digits(return_X_y=True)
    x, y = x[:1200] / 16, y[:1200]
    parts = np.split(np.random.default_rng(0).permutation(1200), [150, 300, 450, 650])
    agents = [
        SklearnAgent(CalibratedClassifierCV(inner, cv=3), x[own], y[own], name)
        for name, own in zip("abc", parts[:3], strict=True)
    ]
    shared, target = x[parts[3]], (x[parts[4]], y[parts[4]])
    method = cs.Consensus(warmup=1)
    result = cs.collaborate(agents, shared, target=target, method=method, rounds=4, progress=False)
    together = result.history.query("round == 4")["accuracy_target"]
    alone = result.history.query("round == 1")["accuracy_target"]
    assert alone.min() > 0.75
    assert (together.to_numpy() >= alone.to_numpy() - 0.01).all()


def test_the_steps_before_the_last_see_every_row_once():
    x, y = blobs(30, seed=1)
    shared = blobs(40, seed=2)[0] + 3
    agent = SklearnAgent(make_pipeline(StandardScaler(), LogisticRegression()), x, y, "a")
    agent.train(shared, np.full((40, CLASSES), 1 / CLASSES, np.float32), 0.5)
    scaler, last = (step for _, step in agent.estimator.steps)
    np.testing.assert_allclose(scaler.mean_, np.concatenate([x, shared]).mean(axis=0), rtol=1e-5)
    assert scaler.n_samples_seen_ == 70
    assert last.n_features_in_ == x.shape[1]
    np.testing.assert_allclose(agent.estimator.predict_proba(shared), agent.predict(shared), atol=1e-6)


def test_a_tree_with_large_leaves_does_not_learn_noise_by_heart():
    """Labels that are pure noise: a leaf of 20 rows holds 20 samples, not two that stand there ten times."""
    draw = np.random.default_rng(0)
    x, shared = draw.normal(0, 1, (50, 20)), draw.normal(0, 1, (200, 20))
    y, noise = draw.integers(0, 10, 50), draw.dirichlet(np.full(10, 0.1), 200).astype(np.float32)

    def repeats(soft_labels: str) -> float:
        agent = SklearnAgent(DecisionTreeClassifier(min_samples_leaf=20), x, y, "a", soft_labels=soft_labels)
        agent.train(shared, noise, 1.0)
        return float((agent.predict(shared).argmax(axis=1) == noise.argmax(axis=1)).mean())

    assert repeats("repeated") > 0.5
    assert repeats("auto") < 0.35


def test_boosted_trees_with_large_leaves_do_not_learn_noise_by_heart():
    """A leaf of 100 rows cannot be tried on 60 rows, of which no tree splits off any."""
    draw = np.random.default_rng(0)
    x, shared = draw.normal(0, 1, (100, 10)), draw.normal(0, 1, (400, 10))
    y, noise = draw.integers(0, 10, 100), draw.dirichlet(np.full(10, 0.1), 400).astype(np.float32)
    agent = SklearnAgent(HistGradientBoostingClassifier(max_iter=30, min_samples_leaf=100), x, y, "a")
    agent.train(shared, noise, 1.0)
    assert (agent.predict(shared).argmax(axis=1) == noise.argmax(axis=1)).mean() < 0.5


def test_the_largest_term_of_the_disagreement_is_its_class_with_its_weight():
    psi = psi_of(50)
    rows, labels, weights = labelled_rows("largest", psi, False, 0.5 * 30 / 50, np.random.default_rng(0))
    assert rows.tolist() == list(range(50))
    for row, label, weight in zip(rows, labels, weights, strict=True):
        assert psi[row, label] == max(psi[row])
        assert weight == pytest.approx(0.5 * 30 / 50 * max(psi[row]))


def test_stacking_is_accepted_and_what_has_no_probabilities_is_not(shared):
    x, y = blobs(40, seed=1)
    stack = StackingClassifier([("a", GaussianNB()), ("b", KNeighborsClassifier(3))], cv=3)
    assert not hasattr(stack, "predict_proba")
    agent = SklearnAgent(stack, x, y, "a")
    agent.train(shared, np.full((len(shared), CLASSES), 1 / CLASSES, np.float32), 0.5)
    np.testing.assert_allclose(agent.predict(shared).sum(axis=1), 1, atol=1e-5)
    hard = [RidgeClassifier(), StackingClassifier([("a", GaussianNB())], RidgeClassifier(), cv=3)]
    for estimator in [
        *hard,
        VotingClassifier([("a", GaussianNB())]),
        make_pipeline(StandardScaler(), RidgeClassifier()),
    ]:
        with pytest.raises(ConsilienceError, match="has no predict_proba"):
            SklearnAgent(estimator, x, y, "a")
    with pytest.raises(ConsilienceError, match="soft_labels is 'twice'"):
        SklearnAgent(GaussianNB(), x, y, "a", soft_labels="twice")


@pytest.mark.parametrize("estimator", [DecisionTreeRegressor(), KNeighborsRegressor(1)])
def test_the_noise_of_a_model_that_repeats_its_data_is_measured_out_of_sample(estimator, shared):
    draw = np.random.default_rng(0)
    x = draw.uniform(-1, 1, (200, 1))
    y = x[:, 0] + draw.normal(0, 0.5, 200)
    agent = SklearnAgent(estimator, x, y, "a")
    agent.train(x, None, 0.0)
    assert np.abs(agent.predict(x)[:, 0] - y).max() < 1e-6
    assert 0.5 < agent.noise < 1, "each of two noisy values has an error of 0.5"
    again = SklearnAgent(estimator, x, y, "a")
    again.restore(agent.state(), x)
    assert again.noise == agent.noise
    assert SklearnAgent(estimator, x[:1], y[:1], "one").noise == pytest.approx(abs(y[0]))


def test_an_output_that_is_given_four_times_has_the_same_noise():
    draw = np.random.default_rng(0)
    x = draw.uniform(-1, 1, (60, 1))
    y = x + draw.normal(0, 0.5, (60, 1))
    one, four = (SklearnAgent(KNeighborsRegressor(3), x, np.repeat(y, n, axis=1), "a").noise for n in (1, 4))
    assert one == pytest.approx(four)
