"""Predictions of many agents: the same bits whoever else predicts, and those of `predict` among few agents."""

import numpy as np
import pytest
import torch
from torch import nn

from consilience.agents import networks
from consilience.agents.batch_plan import MANY
from consilience.agents.batched_prediction import TOGETHER, predict_all
from consilience.agents.sklearn_agent import SklearnAgent
from consilience.agents.torch_agent import TorchAgent


def agents(count: int, shape: tuple[int, ...] = (3, 8, 8), make=networks.mlp) -> list[TorchAgent]:
    draw = np.random.default_rng(0)
    torch.manual_seed(0)
    return [
        TorchAgent(
            make(shape, 4), draw.normal(size=(9, *shape)).astype(np.float32), draw.integers(0, 4, 9), str(number)
        )
        for number in range(count)
    ]


ROWS = np.random.default_rng(1).normal(size=(300, 3, 8, 8)).astype(np.float32)


@pytest.mark.parametrize("make", [networks.mlp, networks.linear])
def test_among_few_agents_it_is_what_each_predicts(make) -> None:
    made = agents(5, make=make)
    found = {agent.name: f for agent, f in predict_all(made, ROWS, among=5)}
    assert sorted(found) == [agent.name for agent in made]
    assert all(np.array_equal(found[agent.name], agent.predict(ROWS)) for agent in made)


@pytest.mark.parametrize("make", [networks.mlp, networks.linear])
def test_among_many_agents_no_bit_depends_on_who_else_is_here(make) -> None:
    made = agents(TOGETHER + 5, make=make)
    whole = {agent.name: f for agent, f in predict_all(made, ROWS, among=MANY)}
    for part in (made[:1], made[3:9], made[::-1], made[-2:]):
        found = {agent.name: f for agent, f in predict_all(part, ROWS, among=MANY)}
        assert all(np.array_equal(found[name], whole[name]) for name in found)
    for agent in made:
        np.testing.assert_allclose(whole[agent.name], agent.predict(ROWS), atol=1e-6)


def test_other_models_and_wrappers_predict_as_they_do() -> None:
    one, two, three = agents(3)
    draw = np.random.default_rng(2)
    from sklearn.linear_model import LogisticRegression

    other = SklearnAgent(LogisticRegression(), draw.normal(size=(20, 192)), np.arange(20) % 4, "sklearn")
    other.train(ROWS, None, 0.0)
    convnet = TorchAgent(
        nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(72, 4)), ROWS[:9], np.arange(9) % 4, "c"
    )
    mixed = [one, other, convnet, two, three]
    found = {agent.name: f for agent, f in predict_all(mixed, ROWS, among=MANY)}
    assert sorted(found) == sorted(agent.name for agent in mixed)
    for agent in (other, convnet):
        assert np.array_equal(found[agent.name], agent.predict(ROWS))
