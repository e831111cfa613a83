"""Agents that insist: the gate shuts out those whose logits stay far from the median of all."""

import math
from statistics import median

import numpy as np
import pytest

from consilience import Gate
from consilience.core.attacks import AttackContext, Echo
from consilience.core.duals import centred_logs
from consilience.core.trust_memory import deviation, insists
from consilience.experiments.run import run_experiment
from consilience.extend import Context
from consilience.settings.presets import read_settings
from consilience.tasks import task_named

NAMES = tuple("abcdef")
HEADS = {
    "models": ["linear"],
    "solver": "exact",
    "epochs": 1,
    "low_quality": [],
    "references": [],
    "rounds": 12,
    "evaluate_every": 12,
    "method": "consensus(warmup=0, lam=0.25, mean='geometric', most_samples=3.0, duals=1.0, trust='gate')",
}


def context(scale="classes", names=NAMES, memory=None):
    return Context(task_named("classification"), names, np.arange(len(names)), np.ones(6), 1, memory or {}, scale=scale)


def honest(seed=0, agents=6):
    """Agents that agree on most of 60 samples, surely on half of them."""
    draw = np.random.default_rng(seed)
    sure = np.where(np.arange(60) < 30, 3.0, 0.4)[:, None]
    z = sure * np.eye(3)[draw.integers(3, size=60)] + draw.normal(0, 0.2, (agents, 60, 3))
    return (np.exp(z) / np.exp(z).sum(axis=2, keepdims=True)).astype(np.float32)


def with_echo(f):
    """The last agent echoes the others where they are sure, and lies surely elsewhere."""
    lie = Echo()(f[:-1], f[-1], AttackContext())
    return np.concatenate([f[:-1], lie[None]])


def test_the_deviation_and_who_insists_with_plain_loops():
    z = np.random.default_rng(0).normal(size=(5, 7, 3)) * np.array([1, 1, 1, 1, 9])[:, None, None]
    middle = [[median(z[j][x][c] for j in range(5)) for c in range(3)] for x in range(7)]
    e = [math.sqrt(sum((z[j][x][c] - middle[x][c]) ** 2 for x in range(7) for c in range(3)) / 21) for j in range(5)]
    np.testing.assert_allclose(deviation(z), e)
    size = math.sqrt(sum(value**2 for row in middle for value in row) / 21)
    for most in (0.5, 3.0):
        assert insists(z, most).tolist() == [own > most * median(e) and own > max(size / 2, 0.1) for own in e]


def test_who_is_sure_before_others_insists_and_who_differs_a_little_does_not():
    z = np.zeros((5, 4, 3))
    assert not insists(z, 3.0).any()
    z[4, 0, 1] = 7
    assert insists(z, 3.0).tolist() == [False, False, False, False, True]
    same = np.tile(centred_logs(honest()[:1]), (5, 1, 1))
    same[4] += 0.05  # the others are all at the median
    assert not insists(same, 3.0).any()


@pytest.mark.parametrize(
    ("scale", "rule", "out"), [("classes", Gate(), True), ("", Gate(), False), ("classes", Gate(furthest=0), False)]
)
def test_who_echoes_the_sure_and_lies_elsewhere_is_shut_out_of_a_mean_of_logits(scale, rule, out):
    w = rule(with_echo(honest()), context(scale)).trust
    assert (w[:5, 5] == 0).all() == out
    np.testing.assert_allclose(rule(honest(), context(scale)).trust, 1 / 6)


def test_one_that_comes_later_is_judged_from_its_second_round():
    f, rule = honest(), Gate()
    known = rule(f[:5], context(names=NAMES[:5])).memory
    f[5] = 1 / 3  # it has learned nothing yet
    first = rule(f, context(memory=known))
    np.testing.assert_allclose(first.trust[:5], [[0.2] * 5 + [0]] * 5)
    again = rule(f, context(memory=first.memory))
    assert (again.trust[:5, 5] == 0).all()


def away_for(rule, rounds, memory):
    """Rounds in which the last agent is not heard."""
    for _ in range(rounds):
        memory = rule(honest()[:5], context(names=NAMES[:5], memory=memory)).memory
    return memory


def test_one_that_returns_is_shut_out_for_a_round_and_for_good_the_second_time():
    rule, usual, far = Gate(), honest(), honest()
    far[5] = np.roll(far[5], 1, axis=1)
    memory = away_for(rule, 3, rule(usual, context()).memory)
    returned = rule(far, context(memory=memory))
    assert (returned.trust[:5, 5] == 0).all() and (returned.trust[:5, :5] == 0.2).all()
    near = rule(usual, context(memory=returned.memory))
    np.testing.assert_allclose(near.trust, 1 / 6)
    again = rule(far, context(memory=away_for(rule, 3, near.memory)))
    assert (rule(usual, context(memory=again.memory)).trust[:5, 5] == 0).all(), "the second time"
    soon = rule(far, context(memory=away_for(rule, 2, rule(usual, context()).memory)))
    assert (rule(usual, context(memory=soon.memory)).trust[:5, 5] == 0).all(), "it was away for two rounds"


def test_one_that_is_heard_alone_is_not_judged():
    result = Gate()(honest()[:1], context(names=NAMES[:1]))
    assert result.trust.tolist() == [[1]]


def test_with_dual_variables_an_echo_does_little_harm(tmp_path):
    scores = {}
    for name, changes in {
        "honest": {},
        "echo": {"attackers": [2, 9], "attack": "echo"},
        "agreement alone": {"attackers": [2, 9], "attack": "echo", "method.trust.furthest": 0.0},
    }.items():
        run = run_experiment(read_settings("digits", HEADS | changes), tmp_path / name, workers=1)
        good = [agent.name for agent in run.summary.agents if agent.good]
        last = run.metrics[(run.metrics["round"] == 12) & run.metrics["agent"].isin(good)]
        scores[name] = last["accuracy_target"].mean()
    assert scores["echo"] > scores["honest"] - 0.04
    assert scores["agreement alone"] < scores["echo"] - 0.1
