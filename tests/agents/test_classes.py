"""Names of classes are the same, in the same order, for all agents."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

import consilience as cs
from consilience import ConsilienceError
from tests.base.test_rows import learned
from tests.conftest import FEATURES, blobs


def test_class_names_are_the_same_for_all_agents_whatever_each_has_seen():
    x, y = blobs(60, seed=1)
    names = np.array(["cat", "dog", "fish"])
    two = y[:30] != 0
    torch.manual_seed(0)

    def agents():
        return [
            cs.SklearnAgent(LogisticRegression(), x[:30][two], names[y[:30][two]], "dogs and fish"),
            cs.TorchAgent(nn.Linear(FEATURES, 3), x[30:], list(names[y[30:]]), "all"),
        ]

    made = agents()
    assert made[0].class_names == ("dog", "fish")
    target = blobs(50, seed=2)
    result = learned(made, blobs(40, seed=3)[0], (target[0], pd.Series(names[target[1]])))
    assert [agent.class_names for agent in result.agents] == [("cat", "dog", "fish")] * 2
    assert made[0].class_counts[0] == 0
    numbers = [
        cs.SklearnAgent(LogisticRegression(), x[:30][two], y[:30][two], "dogs and fish"),
        cs.TorchAgent(nn.Linear(FEATURES, 3), x[30:], y[30:], "all"),
    ]
    numbers[1].model.load_state_dict(agents()[1].model.state_dict())
    order = ["fish", "dog", "cat"]
    turned = learned(agents(), blobs(40, seed=3)[0], (target[0], names[target[1]]), class_names=order)
    assert turned.run.summary.classes == order
    assert (turned.agents[1].class_counts == np.bincount(2 - y[30:])).all()
    with pytest.raises(ConsilienceError, match="the target data: the label 'bird' is none of the classes cat"):
        learned(agents(), x, (x[:1], ["bird"]))
    with pytest.raises(ConsilienceError, match="some agents are words, those of agent 'all' are numbers"):
        learned([agents()[0], numbers[1]], x, target)
    with pytest.raises(ConsilienceError, match="its model has 3 outputs, but there are 2 classes"):
        learned(
            [cs.TorchAgent(nn.Linear(FEATURES, 3), x, y > 0, "a"), cs.SklearnAgent(LogisticRegression(), x, y > 0)],
            x,
            target,
        )


def test_yes_and_no_are_classes():
    x, y = blobs(40, seed=1)
    agents = [
        cs.SklearnAgent(LogisticRegression(), x[p], y[p] == 0, str(n)) for n, p in enumerate(np.split(np.arange(40), 2))
    ]
    result = learned(agents, x, (x, list(map(bool, y == 0))))
    assert result.run.summary.classes == ["False", "True"]
