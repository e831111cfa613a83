"""Attacks: each against its formula with plain loops, or against what it is meant to do."""

import numpy as np
import pytest

from consilience.base.errors import ConsilienceError
from consilience.core.attacks import (
    ATTACKS,
    AttackContext,
    AttackStratum,
    Echo,
    EchoEach,
    Sleeper,
    Targeted,
    attack_name,
    attack_named,
    per_victim,
)
from consilience.core.stratified import capped, informativeness, reference, strata
from consilience.core.trust import uniform_trust
from consilience.tasks import task_named
from consilience.tasks.protocol import checked_predictions

AGENTS, SAMPLES, CLASSES = 5, 40, 10
NAMES = [name for name in ATTACKS.names() if name != "none"]


def words(seed: int = 0, agents: int = AGENTS, samples: int = SAMPLES, classes: int = CLASSES) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return draw.dirichlet(np.full(classes, 0.5), (agents, samples)).astype(np.float32)


HONEST, OWN = words(), words(1)[0]
MEAN = HONEST.mean(axis=0)


def said(
    name: str, moment: AttackContext | None = None, honest: np.ndarray = HONEST, own: np.ndarray = OWN
) -> np.ndarray:
    return attack_named(name)(honest, own, moment or AttackContext())


def one_hot(label: int, classes: int = CLASSES) -> list[float]:
    return [float(k == label) for k in range(classes)]


def least_sure(f: np.ndarray, share: float = 0.4) -> set[int]:
    """The share of samples with the smallest largest probability, by sorting pairs."""
    return {s for _, s in sorted((max(row), s) for s, row in enumerate(f.tolist()))[: round(share * len(f))]}


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("name", NAMES)
def test_every_attack_sends_probabilities_and_leaves_its_arguments(name, classes):
    honest, own = words(2, classes=classes), words(3, classes=classes)[0]
    before = honest.copy(), own.copy()
    for victim in (None, 1):
        f = said(name, AttackContext(4, 1, 7, victim), honest, own)
        np.testing.assert_array_equal(f, checked_predictions("liar", f, SAMPLES, classes, task_named("classification")))
        assert f.dtype == np.float32
    np.testing.assert_array_equal(honest, before[0])
    np.testing.assert_array_equal(own, before[1])


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_depends_on_the_arguments_alone(name):
    np.testing.assert_array_equal(said(name, AttackContext(2, 1, 5, 0)), said(name, AttackContext(2, 1, 5, 0)))


def test_fourteen_attacks_are_known_and_a_wrong_name_is_an_error():
    assert len(NAMES) == 14
    with pytest.raises(ConsilienceError, match=r"unknown attack 'flop'\. Did you mean 'flip'"):
        attack_named("flop")


def test_flip_calls_every_class_by_the_next_ones_name():
    f = said("flip")
    for s in range(SAMPLES):
        for k in range(CLASSES):
            assert f[s, (k + 1) % CLASSES] == OWN[s, k]


def test_random_differs_between_liars_rounds_and_seeds():
    drawn = [
        said("random", moment)
        for moment in (AttackContext(), AttackContext(round=1), AttackContext(place=1), AttackContext(seed=1))
    ]
    for i in range(4):
        for j in range(i):
            assert np.abs(drawn[i] - drawn[j]).max() > 0.1


def test_constant_is_the_class_that_the_honest_say_most_often():
    counts = [0] * CLASSES
    for row in MEAN:
        counts[int(np.argmax(row))] += 1
    assert said("constant").tolist() == [one_hot(counts.index(max(counts)))] * SAMPLES


def test_least_likely_and_runner_up_are_sure_of_the_last_and_the_second_class():
    for s in range(SAMPLES):
        order = sorted(range(CLASSES), key=lambda k: (-MEAN[s, k], k))
        assert said("runner-up")[s].tolist() == one_hot(order[1])
        assert said("least-likely")[s].tolist() == one_hot(order[-1])


def test_colluders_agree_on_one_wrong_class_per_sample_in_all_rounds():
    f = said("collusion")
    assert (f.argmax(axis=1) != MEAN.argmax(axis=1)).all() and (f.max(axis=1) == 1).all()
    assert len(set(f.argmax(axis=1))) > 3, "not one class for all samples"
    np.testing.assert_array_equal(f, said("collusion", AttackContext(round=3, place=2), own=words(9)[0]))
    assert (f != said("collusion", AttackContext(seed=1))).any()


def test_stale_repeats_its_first_words():
    moment = AttackContext(memory={})
    np.testing.assert_array_equal(said("stale", moment), OWN)
    np.testing.assert_array_equal(said("stale", moment, own=words(5)[0]), OWN)


def test_worst_honest_repeats_whoever_is_furthest_from_the_rest():
    distance = [
        sum(abs(HONEST[j, s, k] - MEAN[s, k]) for s in range(SAMPLES) for k in range(CLASSES)) for j in range(5)
    ]
    np.testing.assert_array_equal(said("worst-honest"), HONEST[distance.index(max(distance))])


def test_copies_are_of_one_peer_each():
    for place in range(7):
        np.testing.assert_array_equal(said("copy", AttackContext(place=place)), HONEST[place % AGENTS])


def test_echo_lies_where_the_honest_are_unsure_and_nowhere_else():
    f, lies = said("echo"), least_sure(MEAN)
    assert len(lies) == 16
    for s in range(SAMPLES):
        if s in lies:
            assert f[s].tolist() == said("runner-up")[s].tolist()
        else:
            np.testing.assert_array_equal(f[s], MEAN[s])
    assert (Echo(share=0.1)(HONEST, OWN, AttackContext()) != MEAN).any(axis=1).sum() == 4


def test_echo_each_speaks_to_every_victim_in_its_own_words():
    assert per_victim(EchoEach()) and not per_victim(Echo())
    np.testing.assert_array_equal(said("echo-each"), said("echo"))
    for victim in range(AGENTS):
        f, lies = said("echo-each", AttackContext(victim=victim)), least_sure(HONEST[victim])
        for s in range(SAMPLES):
            expected = said("runner-up")[s] if s in lies else HONEST[victim, s]
            np.testing.assert_array_equal(f[s], expected)


def test_targeted_lies_about_one_class_alone():
    narrow, sure, wide = said("targeted"), said("targeted(sure=true)"), said("targeted(wide=true)")
    lies = [0, 0]
    for s in range(SAMPLES):
        believed = int(MEAN[s].argmax())
        assert narrow[s].tolist() == (one_hot(8) if believed == 3 else MEAN[s].tolist())
        assert sure[s].tolist() == one_hot(8 if believed == 3 else believed)
        some = any(int(HONEST[j, s].argmax()) == 3 for j in range(AGENTS)) or believed == 3
        assert wide[s].tolist() == (one_hot(8) if some else MEAN[s].tolist())
        lies = [lies[0] + (believed == 3), lies[1] + some]
    assert 0 < lies[0] < lies[1] < SAMPLES
    assert Targeted().pair(8) == (0, 1) and Targeted().pair(9) == (3, 8) and Targeted(1, 0).pair(2) == (1, 0)
    with pytest.raises(ConsilienceError, match="both class 2"):
        Targeted(2, 2)


def test_a_sleeper_is_honest_for_some_rounds():
    for number in range(4):
        expected = OWN if number < 3 else said("collusion")
        np.testing.assert_array_equal(said("sleeper", AttackContext(round=number)), expected)
    np.testing.assert_array_equal(Sleeper(rounds=0)(HONEST, OWN, AttackContext()), said("collusion"))


def test_stratum_lies_in_the_same_share_of_every_stratum():
    honest, own = words(4, samples=400, classes=3), words(5, samples=400, classes=3)[0]
    mean = honest.mean(axis=0)
    f = AttackStratum(share=0.25)(honest, own, AttackContext())
    found = strata(*reference(uniform_trust(AGENTS), honest), 3)
    lies = f.argmax(axis=1) != mean.argmax(axis=1)
    assert (f.max(axis=1) == 1).all()
    for number in np.unique(found.numbers):
        members = found.numbers == number
        assert lies[members].sum() == round(0.25 * members.sum())
        limit = max(mean[members & lies].max(axis=1))
        assert (mean[members & ~lies].max(axis=1) >= limit).all()


def test_where_all_are_unsure_stratum_is_taken_for_better_informed_than_echo():
    draw = np.random.default_rng(0)
    truth, sure = draw.integers(0, 3, 400), draw.uniform(0, 4, 400)
    strength = 1 + sure[:, None] * np.eye(3)[truth]
    honest = np.stack([[draw.dirichlet(row) for row in strength] for _ in range(7)]).astype(np.float32)

    def scores(attack) -> np.ndarray:
        everyone = np.concatenate([honest, attack(honest, honest[0], AttackContext())[None]])
        found = strata(*reference(capped(uniform_trust(8)), everyone), 3)
        s = informativeness(everyone, found, 5.0)[:, 1::2]
        return s[7] / s.max(axis=0)

    assert scores(AttackStratum()).mean() > scores(Echo()).mean()


def test_options_in_brackets_and_back():
    attack = attack_named("targeted(source=1, target=7)")
    assert attack == Targeted(1, 7)
    assert attack_name(attack) == "targeted(source=1, target=7)" and attack_name(Targeted()) == "targeted"
    assert attack_name(attack_named("flip")) == "flip"
    with pytest.raises(ConsilienceError, match="unknown setting 'p'"):
        attack_named("echo(p=1)")
    with pytest.raises(ConsilienceError, match=r"unknown setting 'p'\. There are none"):
        attack_named("flip(p=1)")


@pytest.mark.parametrize("name", ["echo", "echo-each"])
def test_liars_that_blur_their_words_are_less_alike(name):
    honest = np.random.default_rng(0).dirichlet(np.ones(4), (5, 30)).astype(np.float32)
    own = honest[0]
    plain = attack_named(name)(honest, own, AttackContext(place=0))
    first, second_ = (attack_named(f"{name}(noise=0.3)")(honest, own, AttackContext(place=place)) for place in (0, 1))
    assert (attack_named(name)(honest, own, AttackContext(place=1)) == plain).all()
    np.testing.assert_allclose(first.sum(axis=1), 1, atol=1e-5)
    assert np.abs(first - second_).max() > 0.1
    drawn = attack_named("random")(honest, own, AttackContext(place=1))
    np.testing.assert_allclose(second_, 0.7 * plain + 0.3 * drawn, atol=1e-6)
