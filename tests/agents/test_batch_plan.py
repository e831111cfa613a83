"""Which samples every agent of a batch takes in every step."""

import numpy as np
import pytest

from consilience.agents import batch_plan
from consilience.agents.local_agents import LocalAgents
from tests.agents.test_batched import SAMPLES, classifiers, close, corrections, soft_labels, train
from tests.agents.together import train_all, train_all_alone, train_all_on_own, train_all_on_shared


def test_labels_of_private_rows_in_a_batch_equal_the_agents_one_by_one():
    together, alone = classifiers(), classifiers(batched=False)
    labels = {agent.name: soft_labels(agent.samples)[agent.name] for agent in alone}
    for _ in range(2):
        losses = train_all_on_own(together, labels, 0.7)
        expected = {agent.name: agent.train(agent.rows, labels[agent.name], 0.7) for agent in alone}
    for one, two in zip(together, alone, strict=True):
        close(one, two, atol=2e-4)
        mine, theirs = losses[one.name], expected[one.name]
        assert mine.local == pytest.approx(theirs.local, rel=1e-3)
        assert mine.disagreement == pytest.approx(theirs.disagreement, rel=1e-3)
        assert mine.trained == theirs.trained


def test_weights_of_pseudo_labels_may_differ_from_agent_to_agent(shared):
    together, alone, labels = classifiers(), classifiers(batched=False), soft_labels(len(shared))
    lam = {name: 0.2 + number for number, name in enumerate(SAMPLES)}
    for _ in range(2):
        train_all(together, shared, labels, lam)
        for agent in alone:
            agent.train(shared, labels[agent.name], lam[agent.name])
    for one, two in zip(together, alone, strict=True):
        close(one, two, atol=2e-4)


def test_an_agent_that_ignores_its_pseudo_labels_leaves_the_others_theirs(shared):
    """Its weight of them is 0: labels of the agents after it are still found."""
    together, alone, labels = classifiers(), classifiers(batched=False), soft_labels(len(shared))
    lam = dict.fromkeys(SAMPLES, 0.7) | {"b": 0.0, "e": 0.0}
    losses = train_all(together, shared, labels, lam)
    for one, two in zip(together, alone, strict=True):
        expected = two.train(shared, labels[two.name], lam[two.name])
        close(one, two, atol=2e-4)
        assert losses[one.name].disagreement == pytest.approx(expected.disagreement, rel=1e-3, nan_ok=True)


@pytest.mark.parametrize("among", [len(SAMPLES), batch_plan.MANY])
def test_alone_on_private_data_no_bit_depends_on_who_else_is_in_the_batch(among):
    """Also among many agents, whose steps are narrow: agents with as many samples in a step train together."""
    roster = tuple(SAMPLES) + tuple(f"other {number}" for number in range(among - len(SAMPLES)))

    def trained(groups: list[str]) -> dict[str, dict]:
        agents, correct = {agent.name: agent for agent in classifiers()}, corrections(classifiers())
        for group in groups * 2:
            LocalAgents([agents[name] for name in group], roster).train_alone(correct)
        return {name: agent.state() for name, agent in agents.items()}

    whole = trained(["abcde"])
    for groups in (["a", "b", "c", "d", "e"], ["eb", "dca"]):
        for name, state in trained(groups).items():
            assert all(np.array_equal(value, whole[name][key]) for key, value in state.items()), (groups, name)
    alone, correct = classifiers(batched=False), corrections(classifiers())
    for _ in range(2):
        train_all_alone(alone, correct)
    for agent in alone:
        for key, value in agent.state().items():
            np.testing.assert_allclose(value, whole[agent.name][key], rtol=1e-3, atol=2e-4)


def test_among_many_agents_steps_on_private_data_have_few_rows_without_a_sample():
    agents = classifiers(batch=64)  # of 50, 130, 2, 64 and 131 samples
    wide, narrow = batch_plan.Lesson(), batch_plan.Lesson(narrow=True)
    assert [wide.width(agent) for agent in agents] == [64] * 5
    assert [narrow.width(agent) for agent in agents] == [56, 48, 8, 64, 48]


def test_large_rows_are_copied_one_by_one_with_the_same_result(shared, monkeypatch):
    """Shared data alone, private rows with other labels, and both private and shared data."""
    ends = []
    for large in (1000, 1):
        monkeypatch.setattr(batch_plan, "LARGE_ROW", large)
        agents = classifiers()
        train_all_on_shared(agents, shared, soft_labels(len(shared)), 2)
        train_all_on_own(agents, {agent.name: soft_labels(agent.samples)[agent.name] for agent in agents}, 0.7)
        train(agents, shared, range(2, 4))
        train_all_alone(agents, corrections(agents))
        ends.append([agent.state() for agent in agents])
    for one, two in zip(*ends, strict=True):
        assert all(np.array_equal(value, two[key]) for key, value in one.items())
