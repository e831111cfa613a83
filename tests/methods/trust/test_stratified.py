"""The stratified rule: what holds for every rule, and what it is for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import consilience as cs
from consilience.core.stratified import capped, centred_trust
from consilience.core.trust import entropy_trust
from consilience.methods.trust.expguard import ExpGuard
from consilience.methods.trust.protocol import Context, apply_rule
from consilience.methods.trust.simple import Centred
from consilience.methods.trust.stratified import Stratified
from consilience.tasks import task_named
from tests.conftest import blobs


def context(agents: int, task: str = "classification", noise: float = 1.0) -> Context:
    names = tuple(str(number) for number in range(agents))
    return Context(task_named(task), names, np.arange(agents), np.full(agents, noise), 1)


def predictions(agents: int, samples: int, classes: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(classes, 0.4), (agents, samples)).astype(np.float32)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 7), st.integers(1, 30), st.integers(2, 6), st.integers(0, 10**6), st.booleans())
def test_rows_are_positive_weights_and_labels_are_probabilities(agents, samples, classes, seed, centred):
    f = predictions(agents, samples, classes, seed)
    rule = Stratified(base=Centred() if centred else cs.Entropy())
    said = apply_rule(rule, f, context(agents))
    assert (said.trust > 0).all()
    np.testing.assert_allclose(said.trust.sum(axis=1), 1)
    np.testing.assert_allclose(said.labels.sum(axis=2), 1, atol=1e-4)


@settings(max_examples=20, deadline=None)
@given(st.integers(3, 6), st.integers(5, 30), st.integers(0, 10**6))
def test_renaming_agents_or_classes_renames_the_answer(agents, samples, seed):
    f = predictions(agents, samples, 4, seed)
    draw = np.random.default_rng(seed)
    who, what = draw.permutation(agents), draw.permutation(4)
    plain = Stratified()(f, context(agents))
    renamed = Stratified()(f[who][:, :, what], context(agents))
    np.testing.assert_allclose(renamed.trust, plain.trust[np.ix_(who, who)], atol=1e-5)
    np.testing.assert_allclose(renamed.labels, plain.labels[who][:, :, what], atol=1e-5)


@pytest.mark.parametrize(("base", "function"), [(cs.Entropy(), entropy_trust), (Centred(), centred_trust)])
def test_without_sharpness_it_is_its_base(base, function):
    f = predictions(5, 40, 3, 0)
    capped_base = Stratified(base=base, sharpness=0.0, duplicate_power=0)(f, context(5))
    np.testing.assert_allclose(capped_base.trust, capped(function(f)), rtol=1e-6)
    plain = Stratified(base=base, sharpness=0.0, cap=False, duplicate_power=0)(f, context(5))
    np.testing.assert_allclose(plain.trust, function(f), rtol=1e-6)
    mixed = np.tensordot(function(f).astype(np.float32), f, axes=1)
    np.testing.assert_allclose(plain.labels, mixed, atol=1e-5)


@pytest.mark.parametrize("base", [cs.Entropy(), Centred()])
def test_three_liars_in_unison_weigh_as_much_as_one(base):
    f = predictions(8, 200, 4, 1)
    f[6] = f[7] = f[5]
    alone = Stratified(base=base, sharpness=0.0, cap=False)(f[:6], context(6)).trust
    three = Stratified(base=base, sharpness=0.0, cap=False)(f, context(8)).trust
    ratio = alone[0, 5] / alone[0, 1]
    assert three[0, 5:].sum() / three[0, 1] == pytest.approx(ratio, rel=0.02)


def test_among_three_the_base_decides():
    f = predictions(3, 40, 3, 0)
    np.testing.assert_allclose(Stratified()(f, context(3)).trust, Stratified(sharpness=0.0)(f, context(3)).trust)


def test_what_the_base_keeps_is_kept():
    f = predictions(4, 30, 3, 0)
    first = apply_rule(Stratified(base=ExpGuard()), f, context(4))
    assert set(first.memory) == {"0", "1", "2", "3"}


def test_many_classes_and_few_samples_work():
    said = apply_rule(Stratified(), predictions(6, 300, 100, 0), context(6))
    assert said.labels.shape == (6, 300, 100)


def test_multi_label_strata_are_those_of_each_label():
    """Agent 2 knows nothing of label 1 and everything of label 0."""
    draw = np.random.default_rng(0)
    truth = draw.integers(0, 2, (60, 2))
    good = np.where(truth == 1, 0.9, 0.1)
    half = good.copy()
    half[:, 1] = 0.5
    f = np.stack([good, good, half, good]).astype(np.float32)
    said = apply_rule(Stratified(), f, context(4, "multilabel"))
    assert said.labels.shape == (4, 60, 2)
    plain = apply_rule(cs.Uniform(), f, context(4, "multilabel")).trust[0].astype(np.float32) @ f.reshape(4, -1)
    wrong = np.abs(said.labels[0] - truth).mean(axis=0)
    uniform = np.abs(plain.reshape(60, 2) - truth).mean(axis=0)
    assert wrong[1] < uniform[1] - 0.05
    assert wrong[0] == pytest.approx(uniform[0], abs=0.02)


@pytest.mark.parametrize("rule", [Centred(), Stratified(sharpness=0.0, cap=False, duplicate_power=0.0), Stratified()])
def test_how_frequent_labels_are_is_no_agreement(rule):
    """Agent 3 says the contrary of each label; agent 4 knows how frequent each label is, and nothing else."""
    draw, frequent = np.random.default_rng(0), np.array([0.9, 0.1, 0.8, 0.2])
    truth = draw.random((400, 4)) < frequent
    good = [frequent + 0.3 * (truth - frequent) + draw.normal(0, 0.02, truth.shape) for _ in range(3)]
    against = frequent - 0.3 * (truth - frequent)
    constant = np.tile(frequent, (400, 1))
    f = np.stack([*good, against, constant]).clip(0, 1).astype(np.float32)
    trust = apply_rule(rule, f, context(5, "multilabel")).trust
    assert (trust[0, 3:] < 0.01).all()
    assert (trust[0, :3] > 0.3).all()


def test_an_outlier_that_nobody_trusts_moves_no_reference():
    """A peer far away has weight 0 under the Gaussian base; what it says cannot cost the others their digits."""
    x = np.linspace(-1, 1, 80)[:, None]
    f = np.stack([x, x + 0.05, x - 0.05, x + 0.02]).astype(np.float32)
    far = np.full((1, 80, 1), -1e9, np.float32)
    plain = apply_rule(Stratified(), f, context(4, "regression", noise=0.3))
    said = apply_rule(Stratified(), np.concatenate([f, far]), context(5, "regression", noise=0.3))
    np.testing.assert_allclose(said.labels[:4], plain.labels, atol=0.02)
    assert (said.trust[:4, 4] < 1e-6).all()


def test_regression_weighs_peers_by_where_they_agree_with_the_reference():
    x = np.linspace(-1, 1, 80)
    truth = x[:, None]
    strange = truth.copy()
    strange[x > 0] += 3
    f = np.stack([truth, truth + 0.05, truth - 0.05, strange]).astype(np.float32)
    said = apply_rule(Stratified(), f, context(4, "regression", noise=0.3))
    error = np.abs(said.labels[0] - truth)[:, 0]
    assert error[x > 0.1].max() < 0.1
    assert said.trust[0, 3] < said.trust[0, 1]
    np.testing.assert_allclose(said.trust.sum(axis=1), 1)


def test_it_works_in_a_collaboration_of_mixed_models(shared):
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB

    agents = [
        cs.SklearnAgent(GaussianNB(), *blobs(25, 1), "a"),
        cs.SklearnAgent(LogisticRegression(), *blobs(25, 2), "b"),
        cs.SklearnAgent(LogisticRegression(), *blobs(25, 3, classes=2), "c"),
    ]
    method = cs.Consensus(warmup=1, trust=Stratified())
    result = cs.collaborate(agents, shared, rounds=4, method=method, target=blobs(300, seed=7))
    score = result.history.pivot(index="round", columns="agent", values="accuracy_target")
    assert score.loc[4, "c"] > score.loc[1, "c"] + 0.1, "it never saw a class, and learns it"


def test_the_report_shows_whom_agents_believe_on_each_class(shared, tmp_path):
    """Agent c never saw class 2: nobody asks it there. What is recorded goes through folder and checkpoint."""
    from sklearn.naive_bayes import GaussianNB

    from consilience.report.page import page_data

    def agents() -> list[cs.SklearnAgent]:
        return [cs.SklearnAgent(GaussianNB(), *blobs(40, n, classes=2 if n == 2 else 3), "abcd"[n]) for n in range(4)]

    method = cs.Consensus(warmup=1, trust=Stratified())
    result = cs.collaborate(agents(), shared, rounds=2, method=method, out=tmp_path / "run")
    found = cs.load_run(tmp_path / "run").by_class
    assert found["trust"].shape == (4, 4, 3)
    np.testing.assert_array_equal(found["trust"], result.run.by_class["trust"])
    np.testing.assert_allclose(found["trust"].sum(axis=1), 1)
    assert found["samples"].sum() == len(shared)
    believed = found["trust"][0, 2]
    assert believed[2] < 0.5 * min(believed[:2])
    shown = page_data(result.run)["by_class"]
    assert shown["samples"] == found["samples"].tolist()
    assert shown["matrices"][2][0][2] == pytest.approx(believed[2], rel=1e-3)


def test_trust_that_is_made_anew_for_every_sample_cannot_be_kept(shared):
    from sklearn.naive_bayes import GaussianNB

    agents = [cs.SklearnAgent(GaussianNB(), *blobs(25, n), str(n)) for n in range(3)]
    with pytest.raises(cs.ConsilienceError, match="Use the schedule dynamic instead of static"):
        cs.collaborate(agents, shared, rounds=3, method=cs.Consensus(warmup=1, schedule="static", trust=Stratified()))
