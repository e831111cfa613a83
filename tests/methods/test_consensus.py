"""Algorithm 1 against plain loops, its schedules of trust, and peers that are missing."""

import itertools

import numpy as np
import pytest
from consilience.runtime.rounds import Method, Round, Start, consensus
from consilience.runtime.wire import Wire

from consilience import ConsilienceError, Heard, InMemory, Losses
from consilience.core.labels import pseudo_labels
from consilience.core.trust import cosine_trust, entropy_trust

SAMPLES, CLASSES = 12, 3
NAMES = ("a", "b", "c", "d")
SHARED = np.zeros((SAMPLES, 2), np.float32)


class Parrot:
    """Says after each round exactly what its pseudo-labels were: the ideal dynamics of the theory."""

    task, outputs, samples, class_counts = "classification", CLASSES, 5, [5]
    kind, parameters, noise = "parrot", None, 1.0

    def __init__(self, name: str) -> None:
        self.name = name
        seed = NAMES.index(name)
        self.says = np.random.default_rng(seed).dirichlet(np.ones(CLASSES), SAMPLES).astype(np.float32)
        self.trained: list[tuple[float, bool]] = []

    def predict(self, x):
        return self.says

    def train(self, shared, labels, lam):
        self.trained.append((lam, labels is not None))
        if labels is not None:
            self.says = labels
        return Losses(0.0)

    def state(self):
        return {"says": self.says}

    def restore(self, state, shared):
        self.says = state["says"]


class Lossy:
    """An exchange in which the named agents are not heard in the named rounds."""

    def __init__(self, missing: dict[int, set[str]]) -> None:
        self.roster, self._missing = NAMES, missing

    def gather(self, number, spoken):
        gone = self._missing.get(number, set())
        return Heard({n: f for n, f in spoken.items() if n not in gone}, dict.fromkeys(spoken, 0))


def run(method: Method, exchange=None, agents=None, start=None) -> list[Round]:
    rounds: list[Round] = []
    agents = [Parrot(name) for name in NAMES] if agents is None else agents
    consensus(agents, SHARED, exchange or InMemory(NAMES), method, rounds.append, start)
    return rounds


def test_algorithm_1_written_with_plain_loops():
    """Two rounds of warm-up, then psi_i = sum_j w_ij f_j with w from the entropy-weighted cosine, round by round."""
    rounds = run(Method(rounds=5, warmup=2, lam=0.5))
    f = [Parrot(name).says.astype(float) for name in NAMES]
    for done in rounds:
        if done.number > 2:
            w = np.zeros((4, 4))
            for i in range(4):
                for j in range(4):
                    for s in range(SAMPLES):
                        entropy = -sum(p * np.log(p) for p in f[i][s])
                        cosine = f[i][s] @ f[j][s] / np.linalg.norm(f[i][s]) / np.linalg.norm(f[j][s])
                        w[i, j] += cosine / (entropy + 1) / SAMPLES
                w[i] /= w[i].sum()
            f = [sum(w[i, j] * f[j] for j in range(4)) for i in range(4)]
            np.testing.assert_allclose(done.trust, w, rtol=1e-5)
        else:
            assert done.trust is None
        for name, expected in zip(NAMES, f, strict=True):
            np.testing.assert_allclose(done.predictions[name], expected, atol=1e-5)


def test_warm_up_exchanges_nothing_and_trains_with_lambda_zero():
    agents = [Parrot(name) for name in NAMES]
    rounds = run(Method(rounds=3, warmup=2, lam=0.7), agents=agents)
    assert agents[0].trained == [(0.0, False), (0.0, False), (0.7, True)]
    per_round = SAMPLES * CLASSES * 4 * 3
    assert [done.sent["a"] for done in rounds] == [0, 0, per_round]
    assert [done.heard for done in rounds] == [(), (), NAMES]


def test_schedules_of_trust():
    def matrices(trust: str) -> list[np.ndarray]:
        return [done.trust for done in run(Method(trust=trust, rounds=7, warmup=1))]

    first = entropy_trust(np.stack([Parrot(name).says for name in NAMES]))
    for w in matrices("static")[1:]:
        np.testing.assert_allclose(w, first, rtol=1e-6)
    dynamic = matrices("dynamic")[1:4]
    assert all(not np.array_equal(a, b) for a, b in itertools.pairwise(dynamic))
    every = matrices("every-3")[1:]
    assert [np.array_equal(a, b) for a, b in itertools.pairwise(every)] == [True, True, False, True, True]
    for w in matrices("naive")[1:]:
        np.testing.assert_array_equal(w, np.full((4, 4), 0.25))


def test_plain_cosine_and_entropy_offset_are_used():
    f = np.stack([Parrot(name).says for name in NAMES])
    [one] = run(Method(similarity="cosine", rounds=1, warmup=0))
    np.testing.assert_allclose(one.trust, cosine_trust(f), rtol=1e-6)
    [one] = run(Method(entropy_offset=0.0, entropy_floor=0.5, rounds=1, warmup=0))
    np.testing.assert_allclose(one.trust, entropy_trust(f, 0.0, 0.5), rtol=1e-6)


def test_majority_voting_gives_everyone_the_same_hard_labels():
    [one] = run(Method(labels="majority", rounds=1, warmup=0))
    votes = np.stack([Parrot(name).says for name in NAMES]).argmax(axis=2)
    expected = [np.bincount(column, minlength=CLASSES).argmax() for column in votes.T]
    for said in one.predictions.values():
        np.testing.assert_array_equal(said, np.eye(CLASSES)[expected])


@pytest.mark.parametrize("trust", ["dynamic", "static", "naive"])
def test_a_missing_peer_is_normal(trust):
    """Round 2 misses c: the others trust whoever was heard, c believes only itself; round 3 has everyone again."""
    agents = [Parrot(name) for name in NAMES]
    rounds = run(Method(trust=trust, rounds=3, warmup=0), Lossy({2: {"c"}}), agents)
    w = rounds[1].trust
    assert rounds[1].heard == ("a", "b", "d")
    np.testing.assert_allclose(w.sum(axis=1), 1)
    assert (w[[0, 1, 3], 2] == 0).all()
    np.testing.assert_array_equal(w[2], [0, 0, 1, 0])
    assert agents[2].trained[1] == (0.0, False)
    assert (rounds[2].trust > 0).all()


def test_static_trust_renews_when_someone_new_is_heard():
    rounds = run(Method(trust="static", rounds=3, warmup=0), Lossy({1: {"d"}}))
    assert (rounds[0].trust[:3, 3] == 0).all()
    assert (rounds[1].trust > 0).all()
    np.testing.assert_allclose(rounds[2].trust, rounds[1].trust, rtol=1e-6)


def test_each_process_may_hold_some_agents_and_gets_the_same_rows():
    """With all predictions heard, an agent on its own computes the row it has in the whole simulation, to the bit."""
    everyone = {name: Parrot(name).says for name in NAMES}
    [whole] = run(Method(rounds=1, warmup=0))

    class Elsewhere:
        roster = NAMES

        def gather(self, number, spoken):
            return Heard(everyone, dict.fromkeys(spoken, 0))

    for i, name in enumerate(NAMES):
        [alone] = run(Method(rounds=1, warmup=0), Elsewhere(), [Parrot(name)])
        np.testing.assert_array_equal(alone.trust, whole.trust[i : i + 1])
        np.testing.assert_array_equal(alone.predictions[name], whole.predictions[name])


def test_the_order_of_agents_changes_no_number():
    forward = run(Method(rounds=4, warmup=1))
    agents = [Parrot(name) for name in reversed(NAMES)]
    backward: list[Round] = []
    consensus(agents, SHARED, InMemory(NAMES), Method(rounds=4, warmup=1), backward.append)
    for a, b in zip(forward[1:], backward[1:], strict=True):
        np.testing.assert_array_equal(a.trust, b.trust[::-1])
        for name in NAMES:
            np.testing.assert_array_equal(a.predictions[name], b.predictions[name])


def test_the_loop_takes_up_where_it_is_told(method=Method(trust="static", rounds=5, warmup=1)):  # noqa: B008
    whole = run(method)
    agents = [Parrot(name) for name in NAMES]
    for agent in agents:
        agent.says = whole[2].predictions[agent.name]
    rest = run(method, agents=agents, start=Start(3, whole[2].kept))
    assert [done.number for done in rest] == [4, 5]
    np.testing.assert_array_equal(rest[-1].predictions["a"], whole[-1].predictions["a"])


@pytest.mark.parametrize(("form", "per_sample"), [("float32", 12), ("float16", 6), ("top-k", 6)])
def test_everyone_uses_what_was_published_and_its_bytes_are_counted(form, per_sample):
    wire = Wire(form, top=2)
    agents = [Parrot(name) for name in NAMES]
    published = np.stack([wire.rounded(agent.says, "classification") for agent in agents])
    [one] = run(Method(rounds=1, warmup=0, wire=wire), InMemory(NAMES, wire), agents)
    np.testing.assert_allclose(one.trust, entropy_trust(published), rtol=1e-12)
    for agent, psi in zip(agents, pseudo_labels(one.trust, published), strict=True):
        np.testing.assert_array_equal(agent.says, psi)
        np.testing.assert_array_equal(one.predictions[agent.name], wire.rounded(psi, "classification"))
        assert one.sent[agent.name] == SAMPLES * per_sample * 3


def test_shared_data_pass_through_the_models_in_the_warm_up_only_if_asked():
    """An agent that is given labels with lambda 0 shows its model the shared data without learning from them."""
    for asked in (False, True):
        agents = [Parrot(name) for name in NAMES]
        run(Method(rounds=3, warmup=2, lam=0.5, warmup_shared=asked), agents=agents)
        assert agents[0].trained == [(0.0, asked), (0.0, asked), (0.5, True)]


@pytest.mark.parametrize(
    ("says", "message"),
    [
        (np.random.default_rng(0).normal(0, 3, (SAMPLES, CLASSES)), "12 of 12 rows are not probabilities"),
        (np.full((SAMPLES, CLASSES), np.nan), "not finite"),
        (np.full((SAMPLES, 2), 0.5), "2 columns, the others have 3 classes"),
        (np.full((5, CLASSES), 1 / 3), "the shared data have 12 samples"),
    ],
)
def test_wrong_predictions_are_refused_with_advice(says, message):
    agents = [Parrot(name) for name in NAMES]
    agents[1].says = says
    with pytest.raises(ConsilienceError, match=f"agent 'b': .*{message}"):
        run(Method(rounds=1, warmup=0), agents=agents)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lam": -0.1}, "lam is -0.1"),
        ({"rounds": 0}, "rounds is 0"),
        ({"trust": "blind"}, "unknown trust 'blind'"),
        ({"trust": "every-0"}, "unknown trust 'every-0'"),
        ({"similarity": "dot"}, "unknown similarity 'dot'"),
        ({"labels": "firm"}, "unknown labels 'firm'"),
        ({"entropy_floor": 0.0}, "entropy_floor above 0"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ConsilienceError, match=message):
        Method(**settings)
