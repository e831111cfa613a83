"""Algorithm 1 against plain loops, its schedules of trust, and peers that are missing."""

from itertools import pairwise

import numpy as np
import pytest

from consilience import Consensus, ConsilienceError, Uniform, Wire
from consilience.core.labels import pseudo_labels
from consilience.core.trust import entropy_trust
from consilience.extend import InMemory, Memory, Received, Start
from consilience.methods.learning.joint import Joint
from consilience.methods.listening.everyone import Everyone
from consilience.methods.trust.labels import Vote
from consilience.methods.trust.simple import Default, Paper
from tests.methods.parrot import (
    NAMES,
    NOISE,
    OUTPUTS,
    SAMPLES,
    SHARED,
    Elsewhere,
    Lossy,
    Parrot,
    first_words,
    parrots,
    rounds_of,
)

TASKS = ("classification", "multilabel", "regression")


def agreement(task: str, mine: np.ndarray, other: np.ndarray, noise: float) -> float:
    """What one sample adds to the trust of one agent in another, by the default rule of the task."""
    if task == "regression":
        return np.exp(-sum((m - o) ** 2 for m, o in zip(mine, other, strict=True)) / len(mine) / (2 * noise**2))
    pairs = [(mine, other)]
    if task == "multilabel":
        pairs = [(np.array([1 - m, m]), np.array([1 - o, o])) for m, o in zip(mine, other, strict=True)]
    total = 0.0
    for m, o in pairs:
        entropy = -sum(p * np.log(p) for p in m)
        total += m @ o / np.linalg.norm(m) / np.linalg.norm(o) / (entropy + 1)
    return total


@pytest.mark.parametrize("task", TASKS)
def test_algorithm_1_written_with_plain_loops(task):
    """Two rounds of warm-up, then psi_i = sum_j w_ij f_j with w from the task's rule, round by round."""
    rounds = rounds_of(Consensus(warmup=2, lam=0.5, trust=Paper()), 5, agents=parrots(task))
    f = list(first_words(task).astype(float))
    assert [done.number for done in rounds] == [1, 2, 3, 4, 5]
    for done in rounds:
        if done.number > 2:
            for name, said in zip(NAMES, f, strict=True):
                np.testing.assert_allclose(done.record.received[name], said, atol=1e-5)
            w = np.zeros((4, 4))
            for i in range(4):
                for j in range(4):
                    for s in range(SAMPLES):
                        w[i, j] += agreement(task, f[i][s], f[j][s], NOISE[NAMES[i]])
                w[i] /= w[i].sum()
            f = [sum(w[i, j] * f[j] for j in range(4)) for i in range(4)]
            np.testing.assert_allclose(done.record.trust, w, rtol=1e-4, atol=1e-7)
        else:
            assert done.record.trust is None
            assert done.record.received == {}
        for name, expected in zip(NAMES, f, strict=True):
            np.testing.assert_allclose(done.record.predictions[name], expected, atol=1e-5)


def test_the_defaults_are_those_of_the_documentation():
    given = Consensus(
        warmup=5,
        lam=0.5,
        trust=Default(),
        schedule="dynamic",
        wire=Wire("float32", 3),
        listening=Everyone(),
        learning=Joint(warmup_shared=False),
    )
    assert Consensus() == given
    assert given.uses_shared


def test_warm_up_exchanges_nothing_and_trains_with_lambda_zero():
    agents = parrots()
    rounds = rounds_of(Consensus(warmup=2, lam=0.7), 3, agents=agents)
    assert agents[0].trained == [(0.0, False), (0.0, False), (0.7, True)]
    per_round = SAMPLES * OUTPUTS * 4 * 3
    assert [done.record.sent for done in rounds] == [dict.fromkeys(NAMES, sent) for sent in (0, 0, per_round)]
    assert [done.record.heard for done in rounds] == [(), (), NAMES]


def test_the_losses_of_every_agent_are_recorded():
    for done in rounds_of(Consensus(warmup=1, lam=0.7), 3):
        for place, name in enumerate(NAMES):
            losses = done.record.losses[name]
            assert losses.local == pytest.approx(done.number + place / 10)
            assert losses.disagreement == (0.7 if done.number > 1 else 0.0)


def test_without_weight_on_the_disagreement_nothing_is_ever_exchanged():
    agents = parrots()
    rounds = rounds_of(Consensus(warmup=0, lam=0.0), 2, agents=agents)
    assert all(done.record.trust is None and done.record.heard == () for done in rounds)
    assert agents[0].trained == [(0.0, False)] * 2


def matrices(method: Consensus, rounds: int, exchange=None) -> list[np.ndarray]:
    """The trust matrices of the rounds of collaboration."""
    return [done.record.trust for done in rounds_of(method, rounds, exchange) if done.record.trust is not None]


def test_schedules_of_trust():
    first = entropy_trust(first_words())
    for w in matrices(Consensus(schedule="static", warmup=1), 7):
        np.testing.assert_allclose(w, first, rtol=1e-6)
    dynamic = matrices(Consensus(warmup=1, trust=Paper()), 7)
    assert len(dynamic) == 6
    assert all(not np.array_equal(a, b) for a, b in pairwise(dynamic[:4]))
    for w in matrices(Consensus(trust=Uniform(), warmup=1), 7):
        np.testing.assert_array_equal(w, np.full((4, 4), 0.25))


@pytest.mark.parametrize("warmup", [0, 1, 2])
def test_every_k_counts_from_the_first_exchange(warmup):
    every = matrices(Consensus(schedule="every-3", warmup=warmup), 7 + warmup)
    assert [np.array_equal(a, b) for a, b in pairwise(every)] == [True, True, False, True, True, False]
    np.testing.assert_allclose(every[0], entropy_trust(first_words()), rtol=1e-6)


def test_majority_voting_gives_everyone_the_same_hard_labels():
    [one] = rounds_of(Consensus(trust=Vote(), warmup=0), 1)
    votes = first_words().argmax(axis=2)
    expected = [np.bincount(column, minlength=OUTPUTS).argmax() for column in votes.T]
    for said in one.record.predictions.values():
        np.testing.assert_array_equal(said, np.eye(OUTPUTS)[expected])
    np.testing.assert_array_equal(one.record.trust, np.full((4, 4), 0.25))


@pytest.mark.parametrize("method", [Consensus(), Consensus(schedule="static"), Consensus(trust=Uniform())])
def test_a_missing_peer_is_normal(method):
    """Round 7 misses c: the others trust whoever was heard, c believes only itself; round 8 has everyone again."""
    agents = parrots()
    rounds = rounds_of(method, 8, Lossy({7: {"c"}}), agents)
    w = rounds[6].record.trust
    assert rounds[6].record.heard == ("a", "b", "d")
    np.testing.assert_allclose(w.sum(axis=1), 1)
    assert (w[[0, 1, 3], 2] == 0).all()
    np.testing.assert_array_equal(w[2], [0, 0, 1, 0])
    assert agents[2].trained[6] == (0.0, False)
    assert (rounds[7].record.trust > 0).all()


@pytest.mark.parametrize("schedule", ["dynamic", "static"])
def test_trust_and_labels_are_those_of_the_agents_heard(schedule):
    """With b missing: dynamic trust is made among the others, static trust in them is renormalised."""
    rounds = rounds_of(Consensus(schedule=schedule, warmup=0, trust=Paper()), 2, Lossy({2: {"b"}}))
    before, here = rounds[0].record.trust, [0, 2, 3]
    f = np.stack([rounds[1].record.received[NAMES[i]] for i in here])
    expected = entropy_trust(f)
    if schedule == "static":
        expected = before[np.ix_(here, here)] / before[np.ix_(here, here)].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(rounds[1].record.trust[np.ix_(here, here)], expected, rtol=1e-6)
    for i, row in zip(here, expected, strict=True):
        psi = sum(weight * said.astype(float) for weight, said in zip(row, f, strict=True))
        np.testing.assert_allclose(rounds[1].record.predictions[NAMES[i]], psi, atol=1e-6)


def test_static_trust_is_made_anew_when_someone_new_is_heard():
    rounds = rounds_of(Consensus(schedule="static", warmup=0), 3, Lossy({1: {"d"}}))
    assert (rounds[0].record.trust[:3, 3] == 0).all()
    assert (rounds[1].record.trust > 0).all()
    np.testing.assert_allclose(rounds[2].record.trust, rounds[1].record.trust, rtol=1e-6)


def test_static_trust_is_kept_while_the_same_peer_stays_away():
    rounds = rounds_of(Consensus(schedule="static", warmup=0), 3, Lossy({1: {"d"}, 2: {"d"}, 3: {"d"}}))
    for done in rounds[1:]:
        np.testing.assert_allclose(done.record.trust, rounds[0].record.trust, rtol=1e-6)


def test_trust_that_was_made_without_a_peer_is_made_anew_when_it_is_back():
    """Every second round, and c is missing when it is due: in the round after, nothing older is used."""
    rounds = rounds_of(Consensus(schedule="every-2", warmup=0), 5, Lossy({3: {"c"}}))
    f = np.stack([rounds[3].record.received[name] for name in NAMES])
    np.testing.assert_allclose(rounds[3].record.trust, entropy_trust(f), rtol=1e-6)
    assert not np.array_equal(rounds[4].record.trust, rounds[3].record.trust), "it is due in round 5"


@pytest.mark.parametrize("task", TASKS)
def test_each_process_may_hold_some_agents_and_gets_the_same_rows(task):
    """With all predictions heard, an agent on its own computes the row it has in the whole simulation, to the bit."""
    method = Consensus(warmup=0)
    [whole] = rounds_of(method, 1, agents=parrots(task))
    for i, name in enumerate(NAMES):
        [alone] = rounds_of(method, 1, Elsewhere(task), [Parrot(name, task)])
        np.testing.assert_array_equal(alone.record.trust, whole.record.trust[i : i + 1])
        np.testing.assert_array_equal(alone.record.predictions[name], whole.record.predictions[name])
        assert alone.record.heard == NAMES and alone.record.sent == {name: 7}


def test_a_process_that_holds_one_agent_keeps_its_static_trust():
    first, second, third = rounds_of(Consensus(schedule="static", warmup=0), 3, Elsewhere(), [Parrot("c")])
    np.testing.assert_array_equal(first.record.trust, second.record.trust)
    np.testing.assert_array_equal(first.record.trust, third.record.trust)
    np.testing.assert_allclose(first.record.trust[0], entropy_trust(first_words())[2], rtol=1e-6)
    np.testing.assert_allclose(first.memory.own["c"]["trust"], first.record.trust[0], rtol=1e-6)


def test_an_agent_that_nobody_hears_goes_on_alone():
    class Silent(Elsewhere):
        def gather(self, number, own_predictions):
            return Received({name: self._said[name] for name in ("a", "b")}, {"c": 0})

    agent = Parrot("c")
    for done in rounds_of(Consensus(schedule="static", warmup=0), 2, Silent(), [agent]):
        np.testing.assert_array_equal(done.record.trust, [[0, 0, 1, 0]])
        assert done.record.heard == ("a", "b")
    assert agent.trained == [(0.0, False)] * 2


def test_the_order_of_agents_changes_no_number():
    forward = rounds_of(Consensus(warmup=1), 4)
    backward = rounds_of(Consensus(warmup=1), 4, agents=parrots()[::-1])
    for a, b in zip(forward[1:], backward[1:], strict=True):
        np.testing.assert_array_equal(a.record.trust, b.record.trust)
        for name in NAMES:
            np.testing.assert_array_equal(a.record.predictions[name], b.record.predictions[name])


@pytest.mark.parametrize("schedule", ["dynamic", "static", "every-2"])
def test_the_loop_takes_up_where_it_is_told(schedule):
    method = Consensus(schedule=schedule, warmup=1)
    whole = rounds_of(method, 6)
    agents = parrots()
    for agent in agents:
        agent.says = whole[2].record.predictions[agent.name]
    rest = rounds_of(method, 6, agents=agents, start=Start(6, 3, whole[2].memory))
    assert [done.number for done in rest] == [4, 5, 6]
    for one, other in zip(whole[3:], rest, strict=True):
        np.testing.assert_array_equal(one.record.trust, other.record.trust)
        np.testing.assert_array_equal(one.record.predictions["a"], other.record.predictions["a"])


def test_a_site_that_was_away_takes_up_the_round_of_the_others():
    """The exchange of its second round was the others' fourth."""

    class Behind(Elsewhere):
        def gather(self, number, own_predictions):
            answer = super().gather(number, own_predictions)
            return Received(answer.predictions, answer.sent, 4 if number == 2 else 0)

    agent = Parrot("a")
    rounds = rounds_of(Consensus(warmup=0, schedule="every-3"), 6, Behind(), [agent])
    assert [done.number for done in rounds] == [1, 4, 5, 6]
    assert len(agent.trained) == 4
    w = [done.record.trust for done in rounds]
    assert not np.array_equal(w[0], w[1]), "trust is due in round 4"
    np.testing.assert_array_equal(w[1], w[2])


@pytest.mark.parametrize(("form", "per_sample"), [("float32", 12), ("float16", 6), ("top-k", 6)])
def test_everyone_uses_what_was_published_and_its_bytes_are_counted(form, per_sample):
    wire = Wire(form, top=2)
    agents = parrots()
    published = np.stack([wire.rounded(agent.says) for agent in agents])
    [one] = rounds_of(Consensus(warmup=0, wire=wire, trust=Paper()), 1, InMemory(NAMES, wire), agents)
    np.testing.assert_allclose(one.record.trust, entropy_trust(published), rtol=1e-12)
    for agent, psi in zip(agents, pseudo_labels(one.record.trust, published), strict=True):
        np.testing.assert_array_equal(agent.says, psi)
        np.testing.assert_array_equal(one.record.predictions[agent.name], wire.rounded(psi))
        assert one.record.sent[agent.name] == SAMPLES * per_sample * 3


def test_shared_data_pass_through_the_models_in_the_warm_up_only_if_asked():
    """An agent that is given labels with lambda 0 shows its model the shared data without learning from them."""
    for asked in (False, True):
        agents = parrots()
        rounds_of(Consensus(warmup=2, lam=0.5, learning=Joint(asked)), 3, agents=agents)
        assert agents[0].trained == [(0.0, asked), (0.0, asked), (0.5, True)]
        said = Parrot("b").says
        np.testing.assert_array_equal(rounds_of(Consensus(learning=Joint(asked)), 1)[0].record.predictions["b"], said)


def test_what_was_heard_is_not_changed_by_the_labels_made_from_it():
    [one] = rounds_of(Consensus(warmup=0), 1)
    for name, said in zip(NAMES, first_words(), strict=True):
        np.testing.assert_array_equal(one.record.received[name], said)
    assert len(SHARED) == SAMPLES


def test_a_memory_of_another_method_is_refused():
    other = Memory(own={name: {"weight": np.zeros(3)} for name in NAMES})
    with pytest.raises(ConsilienceError) as error:
        rounds_of(Consensus(warmup=0), 5, start=Start(5, 3, other))
    assert str(error.value) == (
        "the checkpoint of round 3 does not hold what consensus keeps for these agents. "
        "Was it made by another method? Resume with the same one, or start again in another folder."
    )
