"""Averaging of models instead of predictions: FedAvg, FedProx, SCAFFOLD and FedDyn, one equation per function.

Letters as in SCAFFOLD: `x` is the server's model, `y` that of an agent after or during its local training, `g` the
gradient of its loss, `p` the agents' shares of the samples. Every function acts on one tensor at a time and uses
only + - * /, so that it works for NumPy arrays and torch tensors. The papers weight all agents equally where we
write p_i; with p_i the methods minimise the loss over everyone's samples, sum_i p_i F_i.
"""

from collections.abc import Sequence
from typing import Any

Tensor = Any
"""A NumPy array, a torch tensor or a number."""


def shares(samples: Sequence[int]) -> list[float]:
    """p_i = n_i / sum_j n_j, the share of all training samples that agent i holds.

    >>> shares([30, 10])
    [0.75, 0.25]
    """
    total = sum(samples)
    return [n / total for n in samples]


def average(y: Sequence[Tensor], p: Sequence[float]) -> Tensor:
    """x = sum_i p_i y_i, the server update of FedAvg (McMahan et al., 2017, Algorithm 1), FedProx and SCAFFOLD.

    FedAvg does not change the gradient.

    >>> average([1.0, 5.0], [0.75, 0.25])
    2.0
    """
    return sum(share * value for share, value in zip(p, y, strict=True))


def fedprox_gradient(g: Tensor, y: Tensor, x: Tensor, mu: float) -> Tensor:
    """g + mu (y - x), the gradient of F_i(y) + mu/2 |y - x|^2 (FedProx: Li et al., 2020, equation 2).

    >>> fedprox_gradient(1.0, y=3.0, x=2.0, mu=0.5)
    1.5
    """
    return g + mu * (y - x)


def scaffold_gradient(g: Tensor, c_i: Tensor, c: Tensor) -> Tensor:
    """g - c_i + c (SCAFFOLD: Karimireddy et al., 2020, equation 3): without the agent's own drift, with the mean drift.

    >>> scaffold_gradient(1.0, c_i=0.75, c=0.25)
    0.5
    """
    return g + (c - c_i)


def scaffold_variate(c_i: Tensor, c: Tensor, x: Tensor, y: Tensor, steps: int, lr: float) -> Tensor:
    """c_i+ = c_i - c + (x - y) / (K lr) after K local steps (equation 4, option II).

    Under plain SGD, x - y = lr sum_k (g_k - c_i + c), so that c_i+ is exactly the mean gradient along the way, and
    c - c_i takes the drift out. Momentum m makes it about 1 / (1 - m) times too large. Under Adam, (x - y) / (K lr) is
    the mean *normalised* step, of order one for every weight however small its gradient: it has the gradient's sign
    but not its scale. Where gradients are much smaller than one, as in classification, c - c_i then drowns them and
    the model gets worse than with FedAvg. The paper's guarantees are for SGD: use it with SCAFFOLD.

    >>> scaffold_variate(0.0, 0.0, x=1.0, y=0.5, steps=5, lr=0.125)
    0.8
    """
    return c_i - c + (x - y) / (steps * lr)


def scaffold_server_variate(c: Tensor, before: Sequence[Tensor], after: Sequence[Tensor], p: Sequence[float]) -> Tensor:
    """c+ = c + sum_i p_i (c_i+ - c_i) (equation 5); `before` are the c_i, `after` the c_i+.

    >>> scaffold_server_variate(0.5, [0.0, 1.0], [1.0, 0.0], [0.75, 0.25])
    1.0
    """
    return c + average([new - old for old, new in zip(before, after, strict=True)], p)


def feddyn_gradient(g: Tensor, y: Tensor, x: Tensor, lam_i: Tensor, alpha: float) -> Tensor:
    """g - lambda_i + alpha (y - x), the gradient of F_i(y) - <lambda_i, y> + alpha/2 |y - x|^2.

    FedDyn: Acar et al., 2021, Algorithm 1, where lambda_i is written as the gradient of F_i at agent i's last model:
    that is what it is once the local problem is solved, with whatever optimizer. Few local steps solve it in part.

    >>> feddyn_gradient(1.0, y=3.0, x=2.0, lam_i=0.25, alpha=0.5)
    1.25
    """
    return g - lam_i + alpha * (y - x)


def feddyn_dual(lam_i: Tensor, y: Tensor, x: Tensor, alpha: float) -> Tensor:
    """lambda_i+ = lambda_i - alpha (y - x), the agent's update after its local training.

    >>> feddyn_dual(0.25, y=3.0, x=2.0, alpha=0.5)
    -0.25
    """
    return lam_i - alpha * (y - x)


def feddyn_memory(h: Tensor, y: Sequence[Tensor], x: Tensor, p: Sequence[float], alpha: float) -> Tensor:
    """h+ = h - alpha sum_i p_i (y_i - x). With everyone in every round, h = sum_i p_i lambda_i.

    >>> feddyn_memory(0.0, [3.0, 1.0], x=2.0, p=[0.75, 0.25], alpha=0.5)
    -0.25
    """
    return h - alpha * average([value - x for value in y], p)


def feddyn_server(y: Sequence[Tensor], h: Tensor, p: Sequence[float], alpha: float) -> Tensor:
    """x+ = sum_i p_i y_i - h+ / alpha. It stands still only where h = 0: where the sum of all gradients vanishes.

    >>> feddyn_server([3.0, 1.0], -0.25, [0.75, 0.25], alpha=0.5)
    3.0
    """
    return average(y, p) - h / alpha
