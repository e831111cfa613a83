"""FedDyn as its paper prints it."""

import numpy as np
import pytest

from consilience import FedDyn
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


def test_feddyn_with_plain_loops():
    """Algorithm 1 of Acar et al. (2021), where lambda_i is the gradient at agent i's last model."""
    data, alpha = quadratic_data(), 0.4
    p, x = shares_of(data), weight_of(quadratics(data)[0]).astype(float)
    h, lambda_of = np.zeros(3), dict.fromkeys(data, np.zeros(3))
    agents = quadratics(data)
    for done in rounds_of(FedDyn(alpha=alpha), 3, agents, data["a"][0]):
        y = {}
        for name, (_, _, steps) in data.items():
            w = x
            for _ in range(steps):
                w = w - RATE * (gradient_of(data, name, w) - lambda_of[name] + alpha * (w - x))
            y[name] = w
            lambda_of[name] = lambda_of[name] - alpha * (w - x)
        h = h - alpha * sum(p[name] * (y[name] - x) for name in data)
        x = sum(p[name] * y[name] for name in data) - h / alpha
        np.testing.assert_allclose(done.memory.common["weight"][0], h, rtol=1e-4, atol=1e-5)
        for name in data:
            np.testing.assert_allclose(done.memory.own[name]["weight"][0], lambda_of[name], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(weight_of(agents[1]), x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("iid", [False, True])
def test_it_reaches_the_optimum_whether_or_not_agents_differ(iid):
    data = quadratic_data(iid)
    np.testing.assert_allclose(weight_of(after(FedDyn(alpha=1.0), 25, data)[0]), pooled_optimum(data), atol=1e-4)


def test_statistics_of_batch_norm_are_averaged_without_the_servers_memory(shared):
    """One round in which h acts on parameters: x = sum_i p_i y_i - h / alpha, and on nothing else."""
    start = classifier("a").weights()
    trained = {}
    for name in SIZES:
        agent = classifier(name)
        agent.set_weights(start)
        agent.train_alone(lambda key, g, y: g + 0.5 * (y - _tensor(start[key])))
        trained[name] = agent.weights()
    agents = classifiers()
    [one] = rounds_of(FedDyn(alpha=0.5), 1, agents, shared)
    total = sum(SIZES.values())
    expected = {k: sum(SIZES[a] * trained[a][k].astype(float) for a in SIZES) / total for k in start}
    for key, h in one.memory.common.items():
        np.testing.assert_allclose(h, -0.5 * (expected[key] - start[key]), atol=1e-6)
        expected[key] = expected[key] - h / 0.5
    assert one.memory.common.keys() < start.keys()
    assert_same_weights(agents[2].weights(), expected, rtol=1e-5, atol=1e-6)


def _tensor(array):
    import torch

    return torch.from_numpy(array)
