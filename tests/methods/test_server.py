"""The loop that all methods with a server share, as a user meets it."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from consilience import Consensus, ConsilienceError, FedAvg, FedDyn, FedProx, Scaffold, SklearnAgent, TorchAgent
from consilience.agents.local_agents import LocalAgents
from consilience.agents.training import Training
from consilience.extend import InMemory, Received, ServerMethod, Start, Wrapper
from consilience.methods import method_named
from consilience.methods.server import each
from tests.conftest import CLASSES, FEATURES, blobs
from tests.methods.models import (
    RATE,
    SIZES,
    assert_same_losses,
    assert_same_weights,
    classifier,
    classifiers,
    gradient_of,
    network,
    plain_network,
    quadratic_data,
    quadratics,
    rounds_of,
    weight_of,
)

SERVER = [FedAvg(), FedProx(), Scaffold(), FedDyn()]
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("keep_optimizer", [False, True])
@pytest.mark.parametrize("kind", [FedAvg, FedProx, Scaffold])
def test_one_agent_is_plain_training_to_the_bit(shared, kind, keep_optimizer):
    """With one optimizer throughout, or with a new one every round."""
    alone, agent, losses = classifier("b"), classifier("b"), []
    for _ in range(3):
        if not keep_optimizer:
            alone.optimizer = torch.optim.Adam(alone.model.parameters(), lr=5e-3)
        losses.append(alone.train(shared, None, 0.0).local)
    options = {"mu": 0.0} if kind is FedProx else {}
    rounds = rounds_of(kind(keep_optimizer=keep_optimizer, **options), 3, [agent], shared)
    assert_same_weights(alone.weights(), agent.weights())
    assert [done.record.losses["b"].local for done in rounds] == losses


@pytest.mark.parametrize("method", SERVER)
def test_after_a_round_everyone_holds_the_same_model_which_is_what_is_recorded(shared, method):
    agents = classifiers()
    rounds = rounds_of(method, 2, agents, shared)
    assert [done.number for done in rounds] == [1, 2]
    for done in rounds:
        assert done.record.heard == ("a", "b", "c")
        assert done.record.trust is None and done.record.received == {}
        for agent in agents:
            np.testing.assert_array_equal(done.record.predictions[agent.name], done.record.predictions["a"])
    np.testing.assert_array_equal(done.record.predictions["a"], agents[2].predict(shared))


def test_bytes_are_the_model_up_and_down_and_twice_that_for_scaffold(shared):
    """Three weights of four bytes; with batch norm also its statistics, for which SCAFFOLD has no variates."""
    data, parameters, statistics = quadratic_data(), (FEATURES + 1 + 2) * 8 + (8 + 1) * CLASSES, 2 * 8
    for method in SERVER:
        twice = 2 if method == Scaffold() else 1
        assert rounds_of(method, 1, quadratics(data), data["a"][0])[0].record.sent["a"] == 2 * 4 * 3 * twice
        sent = rounds_of(method, 1, classifiers(), shared)[0].record.sent
        assert sent == dict.fromkeys(SIZES, 2 * 4 * (parameters * twice + statistics))


@pytest.mark.parametrize("method", SERVER)
def test_the_order_in_which_agents_are_listed_changes_no_bit(shared, method):
    listed, backwards = classifiers(), classifiers()[::-1]
    exchange, done = InMemory(tuple(SIZES)), []
    for agents in (listed, backwards):
        done.append(list(method.rounds(LocalAgents(agents, exchange.roster), shared, exchange, Start(2)))[-1])
    assert_same_weights(listed[0].weights(), backwards[0].weights())
    assert_same_losses(*done)


@pytest.mark.parametrize("method", SERVER)
def test_frozen_parameters_stay_as_they_are(shared, method):
    agents = classifiers()
    for agent in agents:
        agent.model[0].requires_grad_(False)
    before = agents[0].weights()["0.weight"]
    rounds_of(method, 3, agents, shared)
    np.testing.assert_array_equal(agents[2].weights()["0.weight"], before)


ALL = [*SERVER, FedDyn(evaluate="average"), Scaffold(variates="steps", keep_optimizer=True), FedAvg(warmup=1)]
ALL += [method_named(name) for name in ("feddf", "fd", "fedmd", "ds-fl", "fedct", "cronus", "kt-pfl")]


@pytest.mark.parametrize("method", ALL, ids=lambda method: method.title)
def test_plain_agents_train_together_and_reach_what_they_reach_one_by_one(shared, method, monkeypatch):
    """In four rounds of every method, up to rounding; and nobody trains by itself."""
    ends = []
    for batched in (False, True):
        if batched:
            monkeypatch.setattr(TorchAgent, "_steps", None)
        training = Training(epochs=2, batch=16, shared_batch=20, batched=batched)
        agents = [
            TorchAgent(plain_network(number), *blobs(size, number), name, training=training)
            for number, (name, size) in enumerate(SIZES.items())
        ]
        ends.append((agents, rounds_of(method, 4, agents, shared)[-1]))
    (alone, expected), (together, done) = ends
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one.predict(shared), other.predict(shared), atol=2e-4)
        mine, theirs = done.record.losses[one.name], expected.record.losses[one.name]
        assert (mine.trained, mine.forward) == (theirs.trained, theirs.forward)
        assert mine.local == pytest.approx(theirs.local, rel=1e-3)
        assert mine.disagreement == pytest.approx(theirs.disagreement, rel=1e-3, nan_ok=True)
    assert done.record.sent == expected.record.sent


@pytest.mark.parametrize("method", [method for method in SERVER if method.elementwise])
@given(seed=st.integers(0, 2**32 - 1))
def test_an_elementwise_gradient_is_the_same_for_a_part_of_its_tensors(method, seed):
    draw = np.random.default_rng(seed)
    tensors = draw.normal(size=(5, 4, 3)).astype(np.float32)
    whole = method.gradient(*tensors)
    for row in range(4):
        np.testing.assert_array_equal(whole[row], method.gradient(*tensors[:, row]))


class Passes(Wrapper):
    """Changes nothing."""


@pytest.mark.parametrize("method", [*SERVER, Consensus(warmup=1)], ids=lambda method: method.label)
def test_wrapped_agents_give_the_same_bits(shared, method):
    """Those with batch norm, which train one by one, and plain ones, which train as one computation."""
    for make in (network, plain_network):
        plain, wrapped = (
            [TorchAgent(make(seed), *blobs(30, seed), str(seed), training=Training(epochs=2)) for seed in range(3)]
            for _ in range(2)
        )
        one = rounds_of(method, 2, plain, shared)[-1]
        two = rounds_of(method, 2, [Passes(agent) for agent in wrapped], shared)[-1]
        assert_same_losses(one, two)
        for agent, other in zip(plain, wrapped, strict=True):
            np.testing.assert_array_equal(one.record.predictions[agent.name], two.record.predictions[agent.name])
            assert_same_weights(agent.weights(), other.weights())


@pytest.mark.parametrize(
    ("make", "model", "says"),
    [
        (TorchAgent, lambda: network(0, width=9), r"differs from agent 'a' in 0.weight: \(9, 6\) against \(8, 6\)"),
        (
            TorchAgent,
            lambda: network(0, norm=False),
            r"differs from agent 'a' in 1.weight: missing against \(8,\)",
        ),
        (SklearnAgent, LogisticRegression, "has no weights that can be averaged"),
    ],
)
def test_different_models_are_refused_with_advice(shared, make, model, says):
    other = make(model(), *blobs(30, seed=5), "other", kind="strange")
    advice = (
        "Averaging models needs the same torch architecture everywhere; consensus works for agents with different "
        "models.$"
    )
    with pytest.raises(ConsilienceError, match=rf"^agent 'other' \(strange\) {says}\. {advice}"):
        rounds_of(FedAvg(), 1, [*classifiers(), other], shared)


def test_a_model_with_more_parts_than_the_first_is_refused(shared):
    agents = [
        TorchAgent(network(0, norm=False), *blobs(30, seed=5), "small"),
        TorchAgent(network(0), *blobs(30, seed=5), "large"),
    ]
    with pytest.raises(ConsilienceError, match=r"^agent 'large' .* differs from agent 'small' in "):
        rounds_of(FedAvg(), 1, agents, shared)


@pytest.mark.parametrize(("here", "missing"), [("ab", "c"), ("bc", "a"), ("c", "a, b")])
def test_agents_in_another_process_are_refused_with_advice(shared, here, missing):
    exchange = InMemory(tuple(SIZES))
    team = LocalAgents([agent for agent in classifiers() if agent.name in here], exchange.roster)
    with pytest.raises(ConsilienceError) as error:
        list(FedProx().rounds(team, shared, exchange, Start(1)))
    assert str(error.value) == (
        f"agents {missing} live in another process, but FedProx averages all models in one. "
        "Put all agents into one process, or use consensus."
    )


def test_between_organisations_there_is_no_server(shared):
    class Sites:
        roster = tuple(SIZES)

        def gather(self, number, own_predictions):
            return Received(own_predictions, dict.fromkeys(own_predictions, 0))

    with pytest.raises(ConsilienceError) as error:
        list(Scaffold().rounds(LocalAgents(classifiers(), Sites.roster), shared, Sites(), Start(1)))
    assert str(error.value) == (
        "SCAFFOLD averages models, but between organisations only predictions travel. Use consensus."
    )


@pytest.mark.parametrize("method", SERVER)
def test_the_loop_takes_up_where_it_is_told(shared, method):
    whole, rest = classifiers(), classifiers()
    rounds = rounds_of(method, 4, whole, shared)
    first = rounds_of(method, 2, rest, shared)
    later = rounds_of(method, 4, rest, shared, Start(4, 2, first[-1].memory))
    assert [done.number for done in later] == [3, 4]
    assert_same_losses(later[-1], rounds[-1])
    assert_same_weights(whole[0].weights(), rest[0].weights())


def test_a_memory_of_another_method_is_refused(shared):
    scaffold, consensus = (rounds_of(m, 1, classifiers(), shared)[0].memory for m in (Scaffold(), Consensus(warmup=0)))
    with pytest.raises(ConsilienceError) as error:
        rounds_of(FedAvg(), 2, classifiers(), shared, Start(2, 1, scaffold))
    assert str(error.value) == (
        "the checkpoint of round 1 does not hold what FedAvg keeps for these agents. "
        "Was it made by another method? Resume with the same one, or start again in another folder."
    )
    for method, memory in ((FedAvg(), consensus), (FedDyn(), consensus), (Scaffold(), Start(1).memory)):
        with pytest.raises(ConsilienceError, match="does not hold what"):
            rounds_of(method, 2, classifiers(), shared, Start(2, 1, memory))


@dataclass(frozen=True)
class Momentum(ServerMethod):
    """A server that goes on in the direction of its last step (FedAvgM: Hsu et al., 2019), and agents that count."""

    beta: float = 0.5

    keeps_state = True

    def own_update(self, local):
        assert local.agent.samples in (40, 20, 60)
        return {name: local.gradients[name].numpy() / local.agent.steps for name in local.own}

    def server_update(self, end):
        v = each(lambda v, x, y: self.beta * v + (x - y), end.common, end.x, end.average())
        return each(lambda x, v: x - v, end.x, v), v


def test_a_method_of_the_users_own_is_a_few_lines():
    data = quadratic_data()
    agents = quadratics(data)
    total = sum(len(x) for x, _, _ in data.values())
    x, v = weight_of(agents[0]).astype(float), np.zeros(3)
    for done in rounds_of(Momentum(), 3, agents, data["a"][0]):
        mean = np.zeros(3)
        for name, (samples, _, steps) in data.items():
            w, seen = x, []
            for _ in range(steps):
                seen.append(gradient_of(data, name, w))
                w = w - RATE * seen[-1]
            mean = mean + len(samples) / total * w
            np.testing.assert_allclose(done.memory.own[name]["weight"][0], sum(seen) / steps, rtol=1e-4, atol=1e-5)
        v = 0.5 * v + (x - mean)
        x = x - v
        np.testing.assert_allclose(done.memory.common["weight"][0], v, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(weight_of(agents[2]), x, rtol=1e-4, atol=1e-5)
    assert (Momentum().label, Momentum().title) == ("momentum", "Momentum")


def test_what_the_hooks_are_given_at_the_end_of_a_round():
    """Lists are in the order of the roster; shares add up to one; what was kept before and what is kept now."""
    ends = []

    @dataclass(frozen=True)
    class Watched(Momentum):
        def server_update(self, end):
            ends.append(end)
            return super().server_update(end)

    data = quadratic_data()
    first, second = rounds_of(Watched(), 2, quadratics(data), data["a"][0])
    assert ends[0].p == pytest.approx([40 / 120, 20 / 120, 60 / 120])
    assert all((kept["weight"] == 0).all() for kept in ends[0].before)
    for before, now, name in zip(ends[1].before, ends[1].own, "abc", strict=True):
        np.testing.assert_array_equal(before["weight"], first.memory.own[name]["weight"])
        np.testing.assert_array_equal(now["weight"], second.memory.own[name]["weight"])
    np.testing.assert_array_equal(ends[1].common["weight"], first.memory.common["weight"])
