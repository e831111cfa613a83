"""Who counts how far in a collective prediction, also when some are missing."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import consilience as cs
from consilience.base.errors import ConsilienceError
from consilience.core.ensemble import collective_weights
from consilience.runtime.ensemble import collective, own_weights, shared_weights, weights_of
from consilience.tasks import task_named

NAMES = ("a", "b", "c")
W = np.array([[0.6, 0.3, 0.1], [0.4, 0.5, 0.1], [0.3, 0.3, 0.4]])
F = {name: np.random.default_rng(index).dirichlet(np.ones(2), 4).astype(np.float32) for index, name in enumerate(NAMES)}
CLASSES, LABELS = task_named("classification"), task_named("multilabel")


def test_parts_say_how_far_each_one_counts() -> None:
    found = collective(shared_weights(NAMES, W, None), F, CLASSES)
    np.testing.assert_allclose(found.parts, np.tile(collective_weights(W), (4, 1)))
    mixed = sum(found.parts[:, [index]] * found.by_agent[name] for index, name in enumerate(found.names))
    np.testing.assert_allclose(np.asarray(found), mixed, rtol=1e-6)
    assert len(found) == 4 and found.names == list(NAMES)


def test_who_is_not_heard_leaves_its_weight_to_the_others() -> None:
    weights = own_weights(NAMES, W[0], np.stack([W[0], W[2]], axis=1))
    found = collective(weights, {name: F[name] for name in ("c", "a")}, CLASSES)
    assert found.names == ["a", "c"]
    allowed = np.array([[6 / 7, 1 / 7], [3 / 7, 4 / 7]])
    assert all(np.isclose(part, allowed).all(axis=1).any() for part in found.parts)
    np.testing.assert_allclose(found.parts.sum(axis=1), 1)


def test_without_trust_all_count_the_same() -> None:
    found = collective(shared_weights(NAMES, np.zeros((0, 0)), None), F, CLASSES)
    np.testing.assert_allclose(found.predictions, np.mean(list(F.values()), axis=0), rtol=1e-6)


def test_several_labels_have_weights_of_their_own() -> None:
    by_label = np.stack([W, np.eye(3)], axis=2)
    found = collective(shared_weights(NAMES, W, by_label), F, LABELS)
    f = np.stack(list(F.values()))
    np.testing.assert_allclose(found.predictions[:, 0], collective_weights(W) @ f[:, :, 0], rtol=1e-5)
    np.testing.assert_allclose(found.predictions[:, 1], f[:, :, 1].mean(axis=0), rtol=1e-5)


@pytest.mark.parametrize("rule", [cs.Entropy(), cs.Stratified()])
def test_a_result_predicts_together(rule: object) -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(120, 4)).astype(np.float32)
    y = (x[:, 0] + x[:, 1] > 0).astype(int)
    agents = [
        cs.SklearnAgent(LogisticRegression(), x[start : start + 15], y[start : start + 15], name)
        for start, name in ((0, "a"), (15, "b"), (30, "c"))
    ]
    result = cs.collaborate(agents, x[45:80], method=cs.Consensus(trust=rule, warmup=1), rounds=3)
    found = result.predict(x[80:])
    assert found.predictions.shape == (40, 2) and found.parts.shape == (40, 3)
    np.testing.assert_allclose(found.predictions.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(found.by_agent["b"], agents[1].predict(x[80:]))
    one = result.predict(x[80:81])
    np.testing.assert_allclose(one.predictions, found.predictions[:1], atol=1e-6)  # whatever else is asked
    if isinstance(rule, cs.Entropy):
        np.testing.assert_allclose(result.predict(x[80:], as_agent="b").parts[0], result.trust[-1][1])
    with pytest.raises(ConsilienceError, match="no trust of an agent 'd'"):
        weights_of(result.run, "d")
