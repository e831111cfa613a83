"""FedProx as its paper prints it."""

import numpy as np
import pytest

from consilience import FedAvg, FedProx
from tests.methods.models import (
    RATE,
    after,
    assert_same_weights,
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


def test_fedprox_with_plain_loops():
    """Algorithm 2 of Li et al. (2020): local steps on F_i(w) + mu/2 |w - x|^2."""
    data, mu = quadratic_data(), 0.5
    p, x = shares_of(data), weight_of(quadratics(data)[0]).astype(float)
    for _ in range(3):
        y = {}
        for name, (_, _, steps) in data.items():
            w = x
            for _ in range(steps):
                w = w - RATE * (gradient_of(data, name, w) + mu * (w - x))
            y[name] = w
        x = sum(p[name] * y[name] for name in data)
    np.testing.assert_allclose(weight_of(after(FedProx(mu=mu), 3, data)[1]), x, rtol=1e-4, atol=1e-5)


def test_it_ends_nearer_the_optimum_of_different_agents_than_fedavg_but_not_there():
    data = quadratic_data()
    best = pooled_optimum(data)
    fedavg, fedprox = (
        np.linalg.norm(weight_of(after(method, 25, data)[0]) - best) for method in (FedAvg(), FedProx(mu=0.5))
    )
    assert 0.05 < fedprox < fedavg
    data = quadratic_data(iid=True)
    np.testing.assert_allclose(weight_of(after(FedProx(mu=0.5), 25, data)[0]), pooled_optimum(data), atol=1e-4)


def test_without_its_term_it_is_fedavg_to_the_bit(shared):
    one, two, other = classifiers(), classifiers(), classifiers()
    rounds_of(FedAvg(), 3, one, shared)
    rounds_of(FedProx(mu=0.0), 3, two, shared)
    rounds_of(FedProx(mu=5.0), 3, other, shared)
    assert_same_weights(one[0].weights(), two[0].weights())
    assert not np.array_equal(one[0].weights()["0.weight"], other[0].weights()["0.weight"])
