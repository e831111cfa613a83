"""Signs that an agent does not say what its own model predicts."""

import numpy as np
import pytest

from consilience.core.suspicion import Suspicion, centred, correlation, is_same, suspicions


def rounds(agents: int = 4, seed: int = 0) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Two rounds of honest agents that come a little closer to each other."""
    draw = np.random.default_rng(seed)
    truth = np.eye(3)[draw.integers(0, 3, 60)]
    said = {name: draw.dirichlet(np.ones(3), 60) for name in "abcdefg"[:agents]}
    now = {name: (0.4 * truth + 0.6 * f).astype(np.float32) for name, f in said.items()}
    before = {name: (0.35 * truth + 0.65 * f).astype(np.float32) for name, f in said.items()}
    return now, before


@pytest.mark.parametrize("seed", range(10))
def test_honest_agents_are_not_suspicious(seed):
    assert suspicions("a", *rounds(seed=seed)) == []


def test_a_stale_peer_is_named():
    now, before = rounds()
    now["c"] = before["c"] + np.float32(1e-6)
    assert suspicions("a", now, before) == [Suspicion("c", "stale")]


@pytest.mark.parametrize("late", [False, True])
def test_an_echo_of_ourselves_is_named(late):
    now, before = rounds()
    now["b"] = (before if late else now)["a"].copy()
    assert suspicions("a", now, before) == [Suspicion("b", "echo", "a")]


def test_a_copy_of_another_peer_is_named_and_of_last_round_only_the_copier():
    now, before = rounds()
    now["d"] = now["b"]
    assert {one.agent for one in suspicions("a", now, before)} == {"b", "d"}
    now, before = rounds()
    now["d"] = before["b"]
    assert suspicions("a", now, before) == [Suspicion("d", "copy", "b")]


def test_a_peer_that_suddenly_agrees_with_us_is_named_unless_all_do():
    now, before = rounds()
    draw = np.random.default_rng(1)
    before["d"] = draw.dirichlet(np.ones(3), 60).astype(np.float32)
    now["d"] = (0.9 * now["a"] + 0.1 * before["d"]).astype(np.float32)
    assert suspicions("a", now, before) == [Suspicion("d", "jump", "a")]
    for name in "bc":
        before[name] = draw.dirichlet(np.ones(3), 60).astype(np.float32)
        now[name] = (0.9 * now["a"] + 0.1 * before[name]).astype(np.float32)
    assert suspicions("a", now, before) == []


@pytest.mark.parametrize(
    ("share", "others", "named"), [(0.9, "bc", True), (0.9, "b", True), (0.9, "", False), (0.1, "bc", False)]
)
def test_a_jump_is_large_and_larger_than_that_of_others(share, others, named):
    """`d` comes to say so much of what we say; the others say nearly what they said before."""
    draw = np.random.default_rng(0)
    before = {name: draw.dirichlet(np.ones(3), 200) for name in "a" + others + "d"}
    for name in others:
        before[name] = 0.05 * before["a"] + 0.95 * before[name]
    now = before | {"d": share * before["a"] + (1 - share) * before["d"]}
    now |= {name: 0.999 * now[name] + 0.001 * draw.dirichlet(np.ones(3), 200) for name in "a" + others}
    assert correlation(now["a"], now["d"]) == max(correlation(now["a"], now[name]) for name in others + "d")
    assert bool([one for one in suspicions("a", now, before) if one.sign == "jump"]) == named


def test_an_agent_that_was_unlike_all_and_first_learns_from_them_is_not_named():
    """It comes closer to everyone, but to nobody closest."""
    now, before = rounds()
    draw = np.random.default_rng(1)
    for name in "abc":
        before[name] = (0.95 * now[name] + 0.05 * draw.dirichlet(np.ones(3), 60)).astype(np.float32)
    before["d"] = draw.dirichlet(np.ones(3), 60).astype(np.float32)
    now["d"] = (0.6 * before["d"] + 0.4 * np.mean([now["b"], now["c"]], axis=0)).astype(np.float32)
    rises = [correlation(now["a"], now[one]) - correlation(before["a"], before[one]) for one in "bcd"]
    assert rises[2] > 0.2 > 4 * max(rises[:2])
    assert suspicions("a", now, before) == []


def test_a_liar_that_is_named_does_not_make_honest_peers_look_sudden():
    now, before = rounds()
    draw = np.random.default_rng(1)
    now["a"] = draw.dirichlet(np.ones(3), 60).astype(np.float32)  # we have learned a lot
    for name in "bc":
        before[name] = draw.dirichlet(np.ones(3), 60).astype(np.float32)
        now[name] = (0.8 * now["a"] + 0.2 * before[name]).astype(np.float32)
    now["d"] = before["d"] = before["a"].copy()  # an echo that repeats itself agrees with us far less than before
    assert suspicions("a", now, before) == [Suspicion("d", "stale")]


@pytest.mark.parametrize(("alike", "named"), [(300, ["b", "c"]), (64, []), (0, [])])
def test_all_samples_count_and_not_only_the_first(alike, named):
    """`c` says the same as `b`, up to a little noise, of so many samples."""
    draw = np.random.default_rng(0)
    now = {name: draw.dirichlet(np.ones(3), 300).astype(np.float32) for name in "abc"}
    now["c"][:alike] = now["b"][:alike] + draw.uniform(-5e-5, 5e-5, (alike, 3)).astype(np.float32)
    assert [one.agent for one in suspicions("a", now, {})] == named


def test_the_first_round_has_nothing_to_compare_with():
    now, _ = rounds()
    assert suspicions("a", now, {}) == []


def test_correlation_with_plain_loops():
    now, _ = rounds()
    one, other = now["a"].astype(float), now["b"].astype(float)
    u = [[one[x, c] - one[:, c].mean() for c in range(3)] for x in range(60)]
    v = [[other[x, c] - other[:, c].mean() for c in range(3)] for x in range(60)]
    dot = sum(u[x][c] * v[x][c] for x in range(60) for c in range(3))
    sizes = [np.sqrt(sum(value**2 for row in part for value in row)) for part in (u, v)]
    assert correlation(one, other) == pytest.approx(dot / sizes[0] / sizes[1])
    assert correlation(one, np.tile([0.2, 0.3, 0.5], (60, 1))) == pytest.approx(0, abs=1e-9)


def test_predictions_of_another_shape_are_not_the_same():
    assert not is_same(np.zeros((3, 2)), np.zeros((2, 2)))


def test_who_always_says_the_same_agrees_with_nobody_in_single_precision_either():
    same = np.tile(np.array([0.1, 0.2, 0.7], np.float32), (10_001, 1))
    assert not centred(same).any()
    assert correlation(same, same) == 0
