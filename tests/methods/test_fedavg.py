"""FedAvg as its paper prints it, and what averaging means for a model with batch norm."""

import numpy as np
import pytest

from consilience import FedAvg
from tests.methods.models import (
    RATE,
    SIZES,
    after,
    assert_same_weights,
    classifier,
    classifiers,
    gradient_of,
    pooled_optimum,
    quadratic_data,
    quadratics,
    rounds_of,
    shares_of,
    weight_of,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def test_fedavg_with_plain_loops():
    """Algorithm 1 of McMahan et al. (2017): three rounds, in which agents differ in samples and local steps."""
    data = quadratic_data()
    p, x = shares_of(data), weight_of(quadratics(data)[0]).astype(float)
    for _ in range(3):
        y = {}
        for name, (_, _, steps) in data.items():
            w = x
            for _ in range(steps):
                w = w - RATE * gradient_of(data, name, w)
            y[name] = w
        x = sum(p[name] * y[name] for name in data)
    for agent in after(FedAvg(), 3, data):
        np.testing.assert_allclose(weight_of(agent), x, rtol=1e-4, atol=1e-5)


def test_it_reaches_the_optimum_of_equal_agents_and_not_that_of_different_ones():
    data = quadratic_data()
    assert np.linalg.norm(weight_of(after(FedAvg(), 25, data)[0]) - pooled_optimum(data)) > 0.3
    data = quadratic_data(iid=True)
    np.testing.assert_allclose(weight_of(after(FedAvg(), 25, data)[0]), pooled_optimum(data), atol=1e-4)


def test_models_and_batch_norm_statistics_are_averaged_by_samples(shared):
    """One round is: train each from the first agent's weights, then average with n_i / n."""
    start = classifier("a").weights()
    trained = {}
    for name in SIZES:
        agent = classifier(name)
        agent.set_weights(start)
        agent.train(shared, None, 0.0)
        trained[name] = agent.weights()
    assert {"1.running_mean", "1.running_var"} < start.keys()
    assert "1.num_batches_tracked" not in start
    agents = classifiers()
    rounds_of(FedAvg(), 1, agents, shared)
    total = sum(SIZES.values())
    expected = {k: sum(SIZES[a] * trained[a][k].astype(float) for a in SIZES) / total for k in start}
    for agent in agents:
        assert_same_weights(agent.weights(), expected, rtol=1e-6, atol=1e-8)
        assert {value.dtype for value in agent.weights().values()} == {np.dtype(np.float32)}
    assert [int(agent.model[1].num_batches_tracked) for agent in agents] == [4, 6, 10]


def test_nothing_is_remembered(shared):
    for done in rounds_of(FedAvg(), 2, classifiers(), shared):
        assert done.memory.common == {}
        assert done.memory.own == {"a": {}, "b": {}, "c": {}}
