"""Networks that end in softmax are refused, and no others."""

import numpy as np
import pytest
import torch
from torch import nn

import consilience as cs
from tests.test_sentences import SHARED, X, Y

SENTENCE = "agent 'a': its model returns probabilities .* Leave out the softmax at its end"


def test_a_network_that_ends_in_softmax_is_refused():
    with pytest.raises(cs.ConsilienceError, match=SENTENCE):
        cs.TorchAgent(nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=1)), X, Y, "a")


def test_one_whose_rows_are_all_the_same_at_first_is_refused_when_they_differ():
    layer = nn.Linear(4, 2)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    agent = cs.TorchAgent(nn.Sequential(layer, nn.Softmax(dim=1)), X, Y, "a")
    agent.train(SHARED, None, 0.0)
    with pytest.raises(cs.ConsilienceError, match=SENTENCE):
        agent.predict(SHARED)


class Fixed(nn.Module):
    """Returns the first columns of its input."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.outputs, self.scale = outputs, nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x[:, : self.outputs] * self.scale


@pytest.mark.parametrize(
    "logits",
    [
        np.where(np.arange(120)[:, None] == 119, [[0.7, 0.31]], [[0.7, 0.3]]),  # one row does not sum to one
        np.where(np.arange(120)[:, None] == 119, [[1.1, -0.1]], [[0.7, 0.3]]),  # one row is negative
        np.tile([[0.5, 0.5]], (120, 1)),  # a model that has learned nothing
        np.abs(X[:, :2]),
    ],
)
def test_logits_that_only_look_like_probabilities_are_not_refused(logits):
    agent = cs.TorchAgent(Fixed(2), logits.astype(np.float32), Y, "a")
    assert agent.predict(logits.astype(np.float32)).shape == (120, 2)


def test_values_of_other_tasks_may_sum_to_one():
    values = np.random.default_rng(0).dirichlet(np.ones(2), 120).astype(np.float32)
    agent = cs.TorchAgent(Fixed(2), values, values, "a", task="regression")
    np.testing.assert_allclose(agent.predict(values), values)
    cs.TorchAgent(Fixed(2), values, np.stack([Y, Y], axis=1), "a", task="multilabel")
