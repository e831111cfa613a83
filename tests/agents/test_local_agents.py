"""The agents of one process."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from torch import nn

from consilience import ConsilienceError, SklearnAgent, TorchAgent
from consilience.agents.local_agents import LocalAgents
from consilience.agents.training import Training
from consilience.extend import Losses, Wrapper
from tests.conftest import CLASSES, FEATURES, blobs


def agents(names="abc"):
    """Networks, which train as a batch, and one estimator among them."""
    made = []
    for seed, name in enumerate(names):
        data = blobs(30, seed)
        estimator = seed == 1
        made.append(
            SklearnAgent(LogisticRegression(), *data, name)
            if estimator
            else TorchAgent(nn.Linear(FEATURES, CLASSES), *data, name, training=Training(epochs=1))
        )
    return made


def test_agents_are_in_the_order_of_the_roster():
    a, b, c = agents()
    team = LocalAgents([b, c, a], ("c", "x", "a", "b"))
    assert team.names == ("c", "a", "b")
    assert list(team) == [c, a, b]
    assert team.first is c
    assert len(team) == 3


def test_without_a_roster_agents_stay_in_their_order():
    assert LocalAgents(iter(agents("cab"))).names == ("c", "a", "b")


def test_everyone_trains_and_is_told_of_when_it_has(shared):
    told = []
    team = LocalAgents(agents(), ("a", "b", "c"), told.append)
    losses = team.train(shared, {}, 0.0)
    assert list(losses) == ["a", "b", "c"]
    assert all(isinstance(one, Losses) for one in losses.values())
    assert sorted(told) == ["a", "b", "c"]


def test_an_agent_with_labels_trains_on_them_and_one_without_alone(shared):
    team = LocalAgents(agents())
    psi = np.full((len(shared), CLASSES), 1 / CLASSES, np.float32)
    losses = team.train(shared, {"b": psi, "c": psi}, 0.5)
    assert np.isnan(losses["a"].disagreement)
    assert losses["b"].disagreement > 0
    assert losses["c"].disagreement > 0


def test_numbers_do_not_depend_on_the_order_in_which_agents_are_listed(shared):
    import torch

    def trained(order):
        torch.manual_seed(0)
        made = agents()
        team = LocalAgents([made[number] for number in order], ("a", "b", "c"))
        team.train(shared, {}, 0.0)
        return team.published(shared)

    one, two = trained([0, 1, 2]), trained([2, 0, 1])
    assert list(one) == list(two) == ["a", "b", "c"]
    assert all(np.array_equal(one[name], two[name]) for name in one)


def test_some_agents_train_in_their_order_and_may_do_so_without_a_word(shared):
    told = []
    team = LocalAgents(agents("cab"), ("a", "b", "c"), told.append)
    assert team.subset({"c", "a"}).names == ("a", "c")
    assert list(team.subset(["b"], report=False).train(shared, {}, 0.0)) == ["b"] and not told
    team.subset(["c"]).train(shared, {}, 0.0)
    assert told == ["c"]
    assert team.subset([]).train(shared, {}, 0.0) == {}
    assert team.names == ("a", "b", "c")


def test_what_everyone_says_is_checked(shared):
    class Loud(Wrapper):
        def publish(self, shared):
            return self.agent.predict(shared) * 5

    a, b, c = agents()
    said = LocalAgents([a, b, c]).published(shared)
    assert list(said) == ["a", "b", "c"]
    assert all(f.dtype == np.float32 and f.shape == (len(shared), CLASSES) for f in said.values())
    with pytest.raises(ConsilienceError, match=r"agent 'b': 40 of 40 rows are not probabilities"):
        LocalAgents([a, Loud(b), c]).published(shared)


def test_one_model_for_two_agents_is_refused():
    body, frozen = nn.Linear(FEATURES, CLASSES), nn.Linear(FEATURES, FEATURES).requires_grad_(False)

    def agent(name: str, model: nn.Module) -> TorchAgent:
        return TorchAgent(model, *blobs(20, seed=1), name)

    with pytest.raises(ConsilienceError, match="agents 'a' and 'b' were given one model"):
        LocalAgents([agent("a", body), agent("b", body)])
    with pytest.raises(ConsilienceError, match="share weights that are trained"):
        LocalAgents([agent("a", body), agent("b", nn.Sequential(nn.Flatten(), body))])
    heads = [nn.Linear(FEATURES, CLASSES) for _ in range(2)]
    assert (
        len(LocalAgents([agent(name, nn.Sequential(frozen, head)) for name, head in zip("ab", heads, strict=True)]))
        == 2
    )
