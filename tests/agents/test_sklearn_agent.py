"""What a user relies on in an agent with a scikit-learn style estimator."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from consilience import ConsilienceError, SklearnAgent
from consilience.agents.soft_labels import labelled_rows
from tests.conftest import CLASSES, blobs

LIGHT = {"n_estimators": 10}


def boosted():
    lightgbm = pytest.importorskip("lightgbm")
    xgboost = pytest.importorskip("xgboost")
    return [lightgbm.LGBMClassifier(**LIGHT, verbose=-1, n_jobs=1), xgboost.XGBClassifier(**LIGHT, n_jobs=1)]


def estimators():
    return [
        LogisticRegression(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        RandomForestClassifier(10),
        GradientBoostingClassifier(n_estimators=5),
        HistGradientBoostingClassifier(max_iter=5),
        GaussianNB(),
        KNeighborsClassifier(3),
        LinearDiscriminantAnalysis(),
        *boosted(),
    ]


def psi_for(samples: int):
    return np.random.default_rng(5).dirichlet(np.ones(CLASSES), samples).astype(np.float32)


@pytest.mark.parametrize("number", range(10))
def test_any_classifier_trains_predicts_and_resumes_bit_for_bit(number, shared):
    """With private labels that lack a class, as heterogeneous data do."""
    estimator = estimators()[number]
    x, y = blobs(40, seed=1, classes=2)
    y = np.where(y == 1, 2, 0)
    agent = SklearnAgent(estimator, x, y, "a", classes=CLASSES)
    agent.train(shared, None, 0.0)
    alone = agent.predict(shared)
    assert alone.shape == (len(shared), CLASSES)
    assert (alone[:, 1] == 0).all()
    np.testing.assert_allclose(alone.sum(axis=1), 1, atol=1e-5)

    agent.train(shared, psi_for(len(shared)), 0.5)
    together = agent.predict(shared)
    assert not np.array_equal(alone, together)
    again = SklearnAgent(estimator, x, y, "a", classes=CLASSES)
    again.restore(agent.state(), shared)
    np.testing.assert_array_equal(again.predict(shared), together)


def test_weighted_rows_are_the_local_objective():
    """For logistic regression the weighted fit minimises L + lam dist exactly: its gradient there is zero."""
    x, y = blobs(60, seed=1)
    shared, lam = blobs(40, seed=2)[0], 0.5
    psi = psi_for(40)
    agent = SklearnAgent(LogisticRegression(C=1e6, tol=1e-10, max_iter=10000), x, y, "a")
    agent.train(shared, psi, lam)
    own, star = agent.predict(x).astype(float), agent.predict(shared).astype(float)
    gradient = x.T @ (own - np.eye(CLASSES)[y]) / len(x) + lam * shared.T @ (star - psi) / len(shared)
    assert np.abs(gradient).max() < 1e-3
    without = x.T @ (own - np.eye(CLASSES)[y]) / len(x)
    assert np.abs(without).max() > 1e-2


def test_sampled_labels_follow_the_pseudo_labels():
    """Without sample weights, round(lam n) shared rows are drawn, each label with its probability."""
    psi = np.tile(np.array([0.2, 0.3, 0.5], np.float32), (50, 1))
    rows, labels, _ = labelled_rows("drawn", psi, False, 0.5 * 4000 / 50, np.random.default_rng(0))
    assert set(rows.tolist()) == set(range(50))
    assert len(rows) == len(labels) == 2000
    np.testing.assert_allclose(np.bincount(labels, minlength=3) / 2000, psi[0], atol=0.05)


def test_a_single_class_works_alone_and_together(shared):
    """One hospital's training data can hold a single class, which most estimators refuse to fit."""
    x, _ = blobs(20, seed=1)
    agent = SklearnAgent(LogisticRegression(), x, np.full(20, 2), "a")
    agent.train(shared, None, 0.0)
    np.testing.assert_array_equal(agent.predict(shared), np.tile([0, 0, 1], (len(shared), 1)))
    agent.train(shared, psi_for(len(shared)), 0.5)
    assert (agent.predict(shared) > 0).all()


def test_without_pseudo_labels_the_model_is_fitted_only_once(shared):
    fits = []

    class Counting(LogisticRegression):
        def fit(self, x, y, sample_weight=None):
            fits.append(len(x))
            return super().fit(x, y, sample_weight)

    agent = SklearnAgent(Counting(), *blobs(30, seed=1), "a", soft_labels="repeated")
    for _ in range(3):
        agent.train(shared, None, 0.0)
    assert len(fits) == 1
    agent.train(shared, psi_for(len(shared)), 0.5)
    agent.train(shared, None, 0.0)
    assert fits == [30, 30 + len(shared) * CLASSES, 30]


def test_the_random_state_comes_from_seed_and_name(shared):
    x, y = blobs(60, seed=1)

    def forest(name: str, seed: int):
        agent = SklearnAgent(RandomForestClassifier(5), x, y, name, seed=seed)
        agent.train(shared, None, 0.0)
        return agent.predict(shared)

    np.testing.assert_array_equal(forest("a", 0), forest("a", 0))
    assert not np.array_equal(forest("a", 0), forest("b", 0))
    assert not np.array_equal(forest("a", 0), forest("a", 1))


@pytest.mark.parametrize(
    "estimator", [make_pipeline(PolynomialFeatures(2), LinearRegression()), KNeighborsRegressor(3)]
)
def test_regressors_learn_values(estimator):
    x = np.linspace(-1, 1, 40, dtype=np.float32)[:, None]
    shared = np.linspace(2, 3, 20, dtype=np.float32)[:, None]
    agent = SklearnAgent(estimator, x, x[:, 0] ** 2, "a")
    agent.train(shared, None, 0.0)
    before = agent.predict(shared)
    agent.train(shared, np.full((20, 1), -5.0, np.float32), 1.0)
    assert agent.task.name == "regression"
    assert before.shape == (20, 1)
    assert agent.predict(shared).mean() < before.mean() - 0.5


def flags_of(x, y):
    return np.stack([y == 0, x[:, 0] > 0], axis=1).astype(int)


def test_weighted_rows_are_the_local_objective_of_every_label():
    """As for one class of several: the gradient of L + lam dist is zero for each label."""
    x, y = blobs(60, seed=1)
    shared, lam, flags = blobs(40, seed=2)[0], 0.5, flags_of(x, y)
    psi = np.random.default_rng(5).uniform(0.05, 0.95, (40, 2)).astype(np.float32)
    agent = SklearnAgent(LogisticRegression(C=1e6, tol=1e-10, max_iter=10000), x, flags, "a")
    losses = agent.train(shared, psi, lam)
    own, star = agent.predict(x).astype(float), agent.predict(shared).astype(float)
    gradient = x.T @ (own - flags) / len(x) + lam * shared.T @ (star - psi) / len(shared)
    assert np.abs(gradient).max() < 1e-3
    assert np.abs(x.T @ (own - flags) / len(x)).max() > 1e-2
    assert agent.task.name == "multilabel"
    assert agent.class_counts == flags.sum(axis=0).tolist()
    slow = -(psi * np.log(star) + (1 - psi) * np.log(1 - star)).mean()
    assert losses.disagreement == pytest.approx(slow, rel=1e-4)


def test_drawn_labels_follow_the_pseudo_labels_of_every_label():
    """Without sample weights each label's estimator gets round(lam n) shared rows, with labels by their probability."""
    fits = []

    class Recording(KNeighborsClassifier):
        def fit(self, x, y):
            fits.append((x, y))
            return super().fit(x, y)

    x, y = blobs(4000, seed=1)
    shared = blobs(50, seed=2)[0]
    psi = np.tile(np.array([0.2, 0.7], np.float32), (50, 1))
    agent = SklearnAgent(Recording(1), x, flags_of(x, y), "a", soft_labels="drawn")
    agent.train(shared, psi, 0.5)
    assert len(fits) == 2
    for label, (rows, answers) in enumerate(fits):
        np.testing.assert_array_equal(rows[:4000], x)
        np.testing.assert_array_equal(answers[:4000], flags_of(x, y)[:, label])
        assert len(rows) == 6000
        drawn = {tuple(row) for row in rows[4000:]}
        assert drawn == {tuple(row) for row in shared}
        assert answers[4000:].mean() == pytest.approx(psi[0, label], abs=0.04)


@pytest.mark.parametrize("estimator", [LogisticRegression(), KNeighborsClassifier(3), RandomForestClassifier(5)])
def test_several_labels_resume_to_the_bit_and_an_unknown_label_is_never_predicted(estimator, shared):
    x, y = blobs(40, seed=1)
    flags = np.column_stack([flags_of(x, y), np.zeros(40, int)])
    agent = SklearnAgent(estimator, x, flags, "a")
    agent.train(shared, None, 0.0)
    alone = agent.predict(shared)
    assert alone.shape == (len(shared), 3)
    assert not alone[:, 2].any()
    agent.train(shared, np.random.default_rng(5).random((len(shared), 3), np.float32), 0.5)
    together = agent.predict(shared)
    assert ((together >= 0) & (together <= 1)).all()
    assert together[:, 2].any()
    again = SklearnAgent(estimator, x, flags, "a")
    again.restore(agent.state(), shared)
    np.testing.assert_array_equal(again.predict(shared), together)


def test_the_task_follows_from_the_estimator_and_its_labels_or_is_given():
    x, y = blobs(20, seed=1)
    assert SklearnAgent(LogisticRegression(), x, y).task.name == "classification"
    assert SklearnAgent(LogisticRegression(), x, flags_of(x, y)).task.name == "multilabel"
    assert SklearnAgent(LinearRegression(), x, flags_of(x, y)).task.name == "regression"
    with pytest.raises(ConsilienceError, match="labels must be class numbers"):
        SklearnAgent(LogisticRegression(), x, flags_of(x, y), task="classification")


def test_images_are_flattened(shared):
    x, y = np.random.default_rng(0).random((20, 1, 4, 4)).astype(np.float32), np.arange(20) % 2
    agent = SklearnAgent(LogisticRegression(), x, y, "a")
    agent.train(x, None, 0.0)
    assert agent.predict(x).shape == (20, 2)


def test_an_estimator_without_probabilities_is_refused():
    with pytest.raises(ConsilienceError, match="CalibratedClassifierCV"):
        SklearnAgent(RidgeClassifier(), *blobs(20, seed=1), "a")


def test_no_data_is_refused():
    with pytest.raises(ConsilienceError, match="agent 'b' has no training data"):
        SklearnAgent(LogisticRegression(), np.zeros((0, 3)), np.zeros(0, int), "b")


def test_fewer_rows_than_neighbours_are_all_of_them(shared):
    x = np.random.default_rng(0).normal(size=(4, shared.shape[1])).astype(np.float32)
    for model in (KNeighborsClassifier(5), make_pipeline(StandardScaler(), KNeighborsClassifier(5))):
        agent = SklearnAgent(model, x, np.array([0, 1, 1, 0]))
        agent.train(shared, None, 0.0)
        np.testing.assert_allclose(agent.predict(x), 0.5)
