"""Which samples every agent of a batch takes in every step."""

import numpy as np
import pytest

from consilience.agents import batch_plan
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
