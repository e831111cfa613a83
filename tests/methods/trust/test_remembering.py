"""Rules that remember the lowest trust: who was once far off stays out."""

import numpy as np
import pytest

from consilience import Consensus, ConsilienceError, Gate, Sparse
from consilience.core.stratified import centred_trust
from consilience.extend import Context, InMemory, Start
from consilience.methods.trust.remembering import Lowest
from consilience.methods.trust.simple import Centred
from consilience.tasks import task_named
from tests.methods.parrot import NAMES, Lossy, parrots, rounds_of

MANY = tuple("abcdef")


def context(memory=None, names=MANY, rows=None, single=False, task="classification"):
    rows = np.arange(len(names)) if rows is None else np.array(rows)
    return Context(task_named(task), names, rows, np.ones(len(names)), 1, memory or {}, single)


def predictions(seed=0, wrong=()):
    """Six agents that agree but for noise; those that are `wrong` name the next class."""
    draw = np.random.default_rng(seed)
    f = 0.7 * np.eye(3)[draw.integers(3, size=40)] + 0.3 * draw.dirichlet(np.ones(3), (6, 40))
    for agent in wrong:
        f[agent] = np.roll(f[agent], 1, axis=1)
    return f.astype(np.float32)


def test_a_peer_that_was_once_far_off_counts_nothing_from_then_on():
    first = Gate()(predictions(0), context())
    np.testing.assert_allclose(first.trust, 1 / 6)
    second = Gate()(predictions(1, wrong=(4,)), context(first.memory))
    third = Gate()(predictions(2), context(second.memory))
    for later in (second, third):
        np.testing.assert_allclose(later.trust[[0, 1, 2, 3, 5], 4], 0)
        np.testing.assert_allclose(later.trust[[0, 1, 2, 3, 5]][:, [0, 1, 2, 3, 5]], 0.2)
        assert later.trust[4, 4] > 0, "an agent always counts itself"


def test_several_rounds_of_evidence_can_be_asked_for():
    memory = {}
    for number in (1, 2, 3):
        result = Gate(rounds=3)(predictions(number, wrong=(4,)), context(memory))
        memory = result.memory
        assert (result.trust[0, 4] == 0) == (number == 3)


def test_agents_that_know_different_classes_are_not_shut_out():
    draw = np.random.default_rng(0)
    y = draw.integers(6, size=300)
    f = np.full((6, 300, 6), 0.02)
    for agent in range(6):  # agents know two classes each, and no other two know the same
        for known in (agent, (agent + 1) % 6):
            f[agent, y == known, known] = 0.9
        f[agent] += 0.1 * draw.dirichlet(np.ones(6), 300)
    f /= f.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(Gate()(f.astype(np.float32), context()).trust, 1 / 6)
    f[3] = np.roll(f[3], 3, axis=1)
    assert (Gate()(f.astype(np.float32), context()).trust[:3, 3] == 0).all()


@pytest.mark.parametrize("wrong", [(1,), (1, 3)])
def test_of_four_agents_at_most_one_is_shut_out(wrong):
    memory = {}
    for number in (0, 1):
        result = Gate()(predictions(number, wrong)[:4], context(memory, MANY[:4]))
        memory = result.memory
        others = result.trust - np.diag(np.diag(result.trust))
        assert (others.max(axis=0) == 0).sum() == (1 if wrong == (1,) else 0)
    assert (others[:, 1] == 0).all() == (wrong == (1,))


def test_an_agent_with_wrong_labels_takes_nobody_along(monkeypatch):
    """Correlations as of four domains: the labels of the second are wrong, the last knows another world."""
    rho = np.array([[1, -0.05, 0.19, 0.02], [-0.05, 1, 0.02, -0.03], [0.19, 0.02, 1, 0.01], [0.02, -0.03, 0.01, 1]])
    monkeypatch.setattr("consilience.methods.trust.remembering.correlations", lambda *_: rho)
    trust = Gate()(predictions()[:4], context(names=MANY[:4])).trust
    np.testing.assert_allclose(trust[[0, 2, 3]], np.tile([1 / 3, 0, 1 / 3, 1 / 3], (3, 1)))


@pytest.mark.parametrize("agents", [2, 3])
def test_among_few_agents_nobody_is_shut_out(agents):
    f = predictions(0, wrong=(0,))[:agents]
    np.testing.assert_allclose(Gate()(f, context(names=MANY[:agents])).trust, 1 / agents)


def test_the_lowest_trust_counts_with_plain_loops():
    rounds = [predictions(0), predictions(1, wrong=(2,)), predictions(2)]
    memory, rule = {}, Lowest(base=Centred())
    for f in rounds:
        result = rule(f, context(memory))
        memory = result.memory
    matrices = [centred_trust(f) for f in rounds]
    for i in range(6):
        lowest = [min(w[i][j] for w in matrices) for j in range(6)]
        np.testing.assert_allclose(result.trust[i], np.array(lowest) / sum(lowest), rtol=1e-6)


@pytest.mark.parametrize("rule", [Gate(), Lowest(), Lowest(base=Centred())])
def test_who_joins_later_or_is_away_is_remembered_by_name(rule):
    f = predictions(0, wrong=(1,))
    some = [5, 1, 0, 2, 3]
    names = tuple(MANY[index] for index in some)
    first = rule(f[some], context(names=names))
    both = rule(predictions(1), context(first.memory))
    assert both.trust[0, 1] / both.trust[0, 3] < 0.1, "b was far off before e was known"
    again = rule(predictions(2)[:4], context(both.memory, MANY[:4]))
    assert again.trust[0, 1] / again.trust[0, 3] < 0.1


@pytest.mark.parametrize("rule", [Gate(), Lowest()])
def test_in_sparse_exchange_an_agent_remembers_its_own_row(rule):
    whole, single = {}, {}
    for number in (1, 2, 3):
        f = predictions(number, wrong=(2,) if number == 2 else ())
        expected, result = rule(f, context(whole)), rule(f, context(single, rows=[1], single=True))
        whole, single = expected.memory, result.memory
        np.testing.assert_allclose(result.trust[1], expected.trust[1], rtol=1e-5)
    assert rule == Gate() or single["pairs"].shape == (1, 6)


@pytest.mark.parametrize("rule", [Gate(fewest=3), Lowest()])
@pytest.mark.parametrize("listening", [{}, {"listening": Sparse(2, 1)}])
def test_what_is_remembered_goes_on_from_a_checkpoint(rule, listening):
    method = Consensus(trust=rule, warmup=0, duals=1.0, mean="geometric", most_samples=3.0, **listening)

    def exchange():
        if listening:
            return InMemory(NAMES, samples=dict(zip(NAMES, (5, 10, 5, 40), strict=True)))
        return Lossy({2: {"b"}, 4: {"a"}})

    whole, stopped = parrots(), parrots()
    expected = rounds_of(method, 5, exchange(), whole)
    first = rounds_of(method, 2, exchange(), stopped)
    rest = rounds_of(method, 5, exchange(), stopped, Start(5, done=2, memory=first[-1].memory))
    for one, other in zip(expected[2:], rest, strict=True):
        np.testing.assert_array_equal(one.record.trust, other.record.trust)
        for name in NAMES:
            np.testing.assert_array_equal(one.record.predictions[name], other.record.predictions[name])


@pytest.mark.parametrize("rule", [Gate(), Lowest()])
def test_values_have_no_gate(rule):
    with pytest.raises(ConsilienceError, match="compares probabilities, and regression has none"):
        rule(predictions(), context(task="regression"))
