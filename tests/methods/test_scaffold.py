"""SCAFFOLD as its paper prints it, and with variates from gradients."""

import numpy as np
import pytest
import torch

from consilience import ConsilienceError, Scaffold
from tests.methods.models import (
    RATE,
    after,
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


@pytest.mark.parametrize("variates", ["gradients", "steps"])
def test_scaffold_with_plain_loops(variates):
    """Algorithm 1 of Karimireddy et al. (2020), option II. Under plain SGD both kinds of variates are the same."""
    data = quadratic_data()
    p, x = shares_of(data), weight_of(quadratics(data)[0]).astype(float)
    c, c_of = np.zeros(3), dict.fromkeys(data, np.zeros(3))
    agents = quadratics(data)
    rounds = rounds_of(Scaffold(variates=variates), 3, agents, data["a"][0])
    for done in rounds:
        y, change = {}, {}
        for name, (_, _, steps) in data.items():
            w, seen = x, []
            for _ in range(steps):
                seen.append(gradient_of(data, name, w))
                w = w - RATE * (seen[-1] - c_of[name] + c)
            renewed = c_of[name] - c + (x - w) / (steps * RATE)
            np.testing.assert_allclose(renewed, sum(seen) / steps, atol=1e-12)
            y[name], change[name], c_of[name] = w, renewed - c_of[name], renewed
        x = sum(p[name] * y[name] for name in data)
        c = c + sum(p[name] * change[name] for name in data)
        np.testing.assert_allclose(done.memory.common["weight"][0], c, rtol=1e-4, atol=1e-5)
        for name in data:
            np.testing.assert_allclose(done.memory.own[name]["weight"][0], c_of[name], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(weight_of(agents[1]), x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("iid", [False, True])
def test_it_reaches_the_optimum_whether_or_not_agents_differ(iid):
    """The optimum is the least-squares solution of all samples together, so that it also tells the sample weights."""
    data = quadratic_data(iid)
    np.testing.assert_allclose(weight_of(after(Scaffold(), 25, data)[0]), pooled_optimum(data), atol=1e-4)


def test_there_is_a_variate_for_every_parameter_and_none_for_statistics(shared):
    agents = classifiers()
    [one] = rounds_of(Scaffold(), 1, agents, shared)
    parameters = {"0.weight", "0.bias", "1.weight", "1.bias", "4.weight", "4.bias"}
    assert one.memory.common.keys() == parameters
    assert all(one.memory.own[name].keys() == parameters for name in "abc")
    for key, value in agents[0].weights().items():
        if key in parameters:
            assert one.memory.own["b"][key].shape == one.memory.common[key].shape == value.shape
            assert one.memory.own["b"][key].dtype == one.memory.common[key].dtype == np.float32


def test_several_learning_rates_are_refused_where_the_rate_is_needed(shared):
    def two_rates(parameters):
        first, *others = parameters
        return torch.optim.SGD([{"params": [first], "lr": 0.1}, {"params": others, "lr": 0.2}])

    with pytest.raises(ConsilienceError, match=r"agent 'a': the optimizer has learning rates \[0.1, 0.2\]"):
        rounds_of(Scaffold(variates="steps"), 1, classifiers(optimizer=two_rates), shared)
    assert len(rounds_of(Scaffold(), 1, classifiers(optimizer=two_rates), shared)) == 1
