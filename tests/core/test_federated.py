"""Each equation of the federated methods against the paper's formula, number by number, for NumPy and for torch."""

import numpy as np
import pytest
import torch

from consilience.core import federated

SAMPLES = [10, 30, 60]
P = [0.1, 0.3, 0.6]
SIZE = 5


def numbers(seed: int) -> list[float]:
    return np.random.default_rng(seed).normal(size=SIZE).tolist()


X, G, C, H = numbers(0), numbers(1), numbers(2), numbers(3)
Y = [numbers(10 + i) for i in range(3)]
OWN = [numbers(20 + i) for i in range(3)]
NEW = [numbers(30 + i) for i in range(3)]


@pytest.fixture(params=[np.array, lambda v: torch.tensor(v, dtype=torch.float64)], ids=["numpy", "torch"])
def tensor(request):
    return request.param


def check(result, expected: list[float], tensor) -> None:
    assert type(result) is type(tensor(expected))
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-12)


def test_shares_are_the_parts_of_all_samples():
    assert federated.shares(SAMPLES) == P
    assert federated.shares([7]) == [1.0]


def test_average_is_weighted_by_samples(tensor):
    pooled = [sum(n * y[k] for n, y in zip(SAMPLES, Y, strict=True)) / sum(SAMPLES) for k in range(SIZE)]
    check(federated.average([tensor(y) for y in Y], federated.shares(SAMPLES)), pooled, tensor)


def test_average_of_one_is_that_one_to_the_bit():
    y = np.random.default_rng(0).normal(size=100).astype(np.float32)
    np.testing.assert_array_equal(federated.average([y], federated.shares([13])), y)


def test_models_and_shares_that_are_not_equally_many_are_refused():
    with pytest.raises(ValueError, match="argument 2 is longer"):
        federated.average([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="argument 2 is longer"):
        federated.scaffold_server_variate(0.0, [1.0], [1.0, 2.0], [1.0])


@pytest.mark.parametrize("mu", [0.0, 0.7])
def test_fedprox_gradient_is_that_of_its_objective(tensor, mu):
    """d/dy [G y + mu/2 (y - x)^2], by central differences, exact for a quadratic."""
    step = 0.5

    def objective(k: int, y: float) -> float:
        return G[k] * y + mu / 2 * (y - X[k]) ** 2

    slope = [(objective(k, y + step) - objective(k, y - step)) / (2 * step) for k, y in enumerate(Y[0])]
    check(federated.fedprox_gradient(tensor(G), tensor(Y[0]), tensor(X), mu), slope, tensor)


def test_scaffold_gradient(tensor):
    expected = [G[k] - OWN[0][k] + C[k] for k in range(SIZE)]
    check(federated.scaffold_gradient(tensor(G), tensor(OWN[0]), tensor(C)), expected, tensor)


def test_scaffold_variate_is_option_ii(tensor):
    expected = [OWN[0][k] - C[k] + (X[k] - Y[0][k]) / (8 * 0.05) for k in range(SIZE)]
    result = federated.scaffold_variate(tensor(OWN[0]), tensor(C), tensor(X), tensor(Y[0]), steps=8, lr=0.05)
    check(result, expected, tensor)


def test_scaffold_variate_under_sgd_is_the_mean_gradient_of_the_local_steps():
    """Whatever c_i and c were before: y moves by -lr (g_k - c_i + c) in each step."""
    lr, steps, y, gradients = 0.1, 7, np.array(X), []
    for _ in range(steps):
        gradients.append(3 * y - 1)
        y = y - lr * federated.scaffold_gradient(gradients[-1], np.array(OWN[0]), np.array(C))
    result = federated.scaffold_variate(np.array(OWN[0]), np.array(C), np.array(X), y, steps, lr)
    np.testing.assert_allclose(result, np.mean(gradients, axis=0), rtol=1e-10)


def test_scaffold_server_variate_moves_by_the_weighted_change(tensor):
    expected = [C[k] + sum(P[i] * (NEW[i][k] - OWN[i][k]) for i in range(3)) for k in range(SIZE)]
    before, after = [tensor(v) for v in OWN], [tensor(v) for v in NEW]
    check(federated.scaffold_server_variate(tensor(C), before, after, P), expected, tensor)


def test_feddyn_gradient_is_that_of_its_objective(tensor):
    """d/dy [G y - lambda_i y + alpha/2 (y - x)^2], by central differences."""
    alpha, step = 0.3, 0.5

    def objective(k: int, y: float) -> float:
        return G[k] * y - OWN[0][k] * y + alpha / 2 * (y - X[k]) ** 2

    slope = [(objective(k, y + step) - objective(k, y - step)) / (2 * step) for k, y in enumerate(Y[0])]
    check(federated.feddyn_gradient(tensor(G), tensor(Y[0]), tensor(X), tensor(OWN[0]), alpha), slope, tensor)


def test_feddyn_dual_is_the_gradient_where_the_local_problem_is_solved(tensor):
    """F(y) = a/2 (y - b)^2: from a (y - b) - lambda + alpha (y - x) = 0 follows lambda+ = a (y - b)."""
    a, b, alpha = 2.0, 0.4, 0.3
    y = [(a * b + OWN[0][k] + alpha * X[k]) / (a + alpha) for k in range(SIZE)]
    check(
        federated.feddyn_dual(tensor(OWN[0]), tensor(y), tensor(X), alpha),
        [a * (y[k] - b) for k in range(SIZE)],
        tensor,
    )


def test_feddyn_memory_and_server(tensor):
    alpha, y = 0.3, [tensor(v) for v in Y]
    h = [H[k] - alpha * sum(P[i] * (Y[i][k] - X[k]) for i in range(3)) for k in range(SIZE)]
    check(federated.feddyn_memory(tensor(H), y, tensor(X), P, alpha), h, tensor)
    moved = [sum(P[i] * Y[i][k] for i in range(3)) - h[k] / alpha for k in range(SIZE)]
    check(federated.feddyn_server(y, tensor(h), P, alpha), moved, tensor)


def test_feddyn_memory_is_the_average_of_the_duals():
    alpha, y, x, lam = 0.3, np.array(Y), np.array(X), np.array(OWN)
    h = federated.average(lam, P)
    renewed = [federated.feddyn_dual(lam[i], y[i], x, alpha) for i in range(3)]
    np.testing.assert_allclose(federated.feddyn_memory(h, y, x, P, alpha), federated.average(renewed, P), rtol=1e-12)


def test_single_precision_stays_single():
    one = np.ones(2, np.float32)
    for result in (
        federated.fedprox_gradient(one, one, one, 0.5),
        federated.scaffold_variate(one, one, one, one, 3, 0.1),
        federated.feddyn_server([one, one], one, [0.5, 0.5], 0.1),
    ):
        assert result.dtype == np.float32
