"""Anyone's trust rule: what it is given, what it may return, and what is refused."""

from functools import partial

import numpy as np
import pytest

from consilience import Consensus, ConsilienceError
from consilience.extend import Context, TrustResult
from tests.methods.parrot import (
    NAMES,
    NOISE,
    OUTPUTS,
    SAMPLES,
    Elsewhere,
    Lossy,
    Parrot,
    first_words,
    parrots,
    rounds_of,
)


def mostly_self(f: np.ndarray, strength: float = 0.5) -> np.ndarray:
    """Half for oneself, the rest for all."""
    return strength * np.eye(len(f)) + np.full((len(f), len(f)), (1 - strength) / len(f))


class MostlySelf:
    def __call__(self, f, context):
        return mostly_self(f)


class Reserved:
    """As functions written in C: how many arguments it takes cannot be told."""

    __signature__ = "unknown"

    def __call__(self, f, *rest):
        return mostly_self(f, *rest)


def first_of(matrix, f, context):
    return matrix(f)


@pytest.mark.parametrize(
    "rule",
    [
        mostly_self,
        lambda f, context: mostly_self(f),
        lambda *predictions: mostly_self(*predictions),
        lambda f: mostly_self(f).tolist(),
        lambda f: TrustResult(mostly_self(f)),
        lambda f: TrustResult(mostly_self(f).tolist()),
        lambda f, *options: mostly_self(f, *options),
        MostlySelf(),
        Reserved(),
        partial(first_of, mostly_self),
    ],
    ids=["one", "two", "many", "list", "opinion", "opinion-list", "rest", "object", "reserved", "partial"],
)
def test_any_callable_is_a_rule(rule):
    [one] = rounds_of(Consensus(trust=rule, warmup=0), 1)
    np.testing.assert_allclose(one.record.trust, mostly_self(NAMES))
    expected = 0.5 * first_words() + 0.5 * first_words().mean(axis=0)
    for said, name in zip(expected, NAMES, strict=True):
        np.testing.assert_allclose(one.record.predictions[name], said, atol=1e-6)


def test_with_a_peer_missing_a_rule_sees_those_that_were_heard():
    [one] = rounds_of(Consensus(trust=mostly_self, warmup=0), 1, Lossy({1: {"b"}}))
    third = 0.5 / 3
    np.testing.assert_allclose(one.record.trust[0], [0.5 + third, 0, third, third])
    np.testing.assert_array_equal(one.record.trust[1], [0, 1, 0, 0])


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_what_a_rule_is_told(task):
    told: list[tuple[np.ndarray, Context]] = []

    def listen(f, context):
        told.append((f.copy(), context))
        return mostly_self(f)

    rounds_of(Consensus(trust=listen, warmup=1), 3, Lossy({3: {"b"}}), parrots(task))
    (f, first), (_, second) = told
    np.testing.assert_array_equal(f, first_words(task))
    assert (first.task.name, first.names, first.round, first.memory) == (task, NAMES, 2, {})
    assert first.rows.tolist() == [0, 1, 2, 3]
    assert first.noise.tolist() == [NOISE[name] for name in NAMES]
    assert (second.names, second.round, second.rows.tolist()) == (("a", "c", "d"), 3, [0, 1, 2])
    assert second.noise.tolist() == [NOISE[name] for name in ("a", "c", "d")]


def test_a_rule_at_a_site_knows_which_rows_are_its_own_and_no_one_elses_noise():
    told: list[Context] = []

    def listen(f, context):
        told.append(context)
        matrix = np.full((4, 4), np.nan)
        matrix[context.rows] = 0.25
        return matrix

    [one] = rounds_of(Consensus(trust=listen, warmup=0), 1, Elsewhere(), [Parrot("c"), Parrot("b")])
    assert told[0].rows.tolist() == [1, 2]
    np.testing.assert_array_equal(told[0].noise, [np.nan, NOISE["b"], NOISE["c"], np.nan])
    np.testing.assert_array_equal(one.record.trust, np.full((2, 4), 0.25))


def asks_for_sum(total: float):
    def rule(f):
        return np.full((len(f), len(f)), total / len(f))

    return rule


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            lambda f: np.eye(3),
            r"returned an array of shape \(3, 3\) for 4 agents. Return a matrix \(4, 4\) whose rows sum to one.",
        ),
        (lambda f: np.ones(4) / 4, r"returned an array of shape \(4,\) for 4 agents"),
        (
            asks_for_sum(1.5),
            r"returned rows that are not weights \(a row sums to 1.5\). Rows must be at least 0 and sum",
        ),
        (asks_for_sum(1 + 2e-5), "returned rows that are not weights"),
        (asks_for_sum(0.0), r"returned .*a row sums to 0\)"),
        (lambda f: np.eye(4) * 2 - np.full((4, 4), 0.25), "returned rows that are not weights"),
        (lambda f: np.full((4, 4), np.nan), r"returned .*a row sums to nan\)"),
        (lambda f: np.diag([1, 1, np.inf, 1]), r"returned .*a row sums to inf\)"),
        (lambda f: "trust me", "returned 'trust me'. Return a matrix whose rows sum to one."),
        (lambda f: None, r"returned .* Return a matrix|returned an array of shape \(\)"),
        (lambda f: [[1, 0], [1]], "returned .* Return a matrix whose rows sum to one."),
    ],
)
def test_what_is_no_trust_is_refused_in_a_sentence(rule, message):
    with pytest.raises(ConsilienceError, match=f"^the trust rule (<lambda>|rule) ({message})"):
        rounds_of(Consensus(trust=rule, warmup=0), 1)


@pytest.mark.parametrize(("sums", "worst"), [([1, 0.25, 1.5, 1], 0.25), ([1, 0.5, 1.75, 1], 1.75)])
def test_the_worst_row_is_named_by_its_sum_and_the_rule_by_its_name(sums, worst):
    def skewed(f):
        return np.diag(sums)

    with pytest.raises(ConsilienceError, match=rf"the trust rule skewed returned .*a row sums to {worst}\)"):
        rounds_of(Consensus(trust=skewed, warmup=0), 1)

    class Skewed:
        def __call__(self, f):
            return skewed(f)

    with pytest.raises(ConsilienceError, match="the trust rule Skewed returned"):
        rounds_of(Consensus(trust=Skewed(), warmup=0), 1)


def test_rows_of_agents_elsewhere_are_not_looked_at_and_rounding_is_forgiven():
    def careless(f):
        matrix = np.full((4, 4), -1.0)
        matrix[2] = [0.25, 0.25, 0.25, 0.25 + 5e-6]
        return matrix

    [one] = rounds_of(Consensus(trust=careless, warmup=0), 1, Elsewhere(), [Parrot("c")])
    np.testing.assert_allclose(one.record.trust, np.full((1, 4), 0.25), rtol=1e-4)


def surest(f: np.ndarray, context: Context) -> TrustResult:
    """Believes, sample by sample, who is surest of it (each agent itself only by a tenth)."""
    weights = np.zeros((len(f), len(f), f.shape[1]))
    for sample in range(f.shape[1]):
        weights[:, f[:, sample].max(axis=1).argmax(), sample] = 0.9
    weights += 0.1 * np.eye(len(f))[:, :, None]
    labels = np.einsum("ijs,jsc->isc", weights, f)
    return TrustResult(weights.mean(axis=2), labels[context.rows])


def by_hand(f: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """`surest` with plain loops: the mean matrix, and the labels."""
    w = np.zeros((len(f), len(f)))
    labels = [np.zeros_like(one) for one in f]
    for sample in range(SAMPLES):
        best = max(range(len(f)), key=lambda j, sample=sample: f[j][sample].max())
        for i in range(len(f)):
            w[i, best] += 0.9 / SAMPLES
            w[i, i] += 0.1 / SAMPLES
            labels[i][sample] = 0.9 * f[best][sample] + 0.1 * f[i][sample]
    return w, labels


@pytest.mark.parametrize("missing", [set(), {"a"}, {"c"}])
def test_a_rule_for_every_sample_labels_by_sample_and_records_its_mean(missing):
    names = [name for name in NAMES if name not in missing]
    places = [NAMES.index(name) for name in names]
    agents = parrots()
    [one] = rounds_of(Consensus(trust=surest, warmup=0, lam=0.3), 1, Lossy({1: missing}), agents)
    w, labels = by_hand([first_words()[place] for place in places])
    np.testing.assert_allclose(one.record.trust[np.ix_(places, places)], w, atol=1e-6)
    for name, expected in zip(names, labels, strict=True):
        np.testing.assert_allclose(one.record.predictions[name], expected, atol=1e-6)
        assert agents[NAMES.index(name)].says.dtype == np.float32, "as other pseudo-labels"
    for agent in agents:
        assert agent.trained == [(0.0, False) if agent.name in missing else (0.3, True)]


def test_at_a_site_such_a_rule_gives_the_labels_of_its_own_agent():
    w, labels = by_hand(list(first_words()))
    for place, name in enumerate(NAMES):
        [one] = rounds_of(Consensus(trust=surest, warmup=0), 1, Elsewhere(), [Parrot(name)])
        np.testing.assert_allclose(one.record.trust, w[place : place + 1], atol=1e-6)
        np.testing.assert_allclose(one.record.predictions[name], labels[place], atol=1e-6)


@pytest.mark.parametrize("schedule", ["static", "every-2"])
def test_such_a_rule_cannot_be_kept_from_round_to_round(schedule):
    with pytest.raises(ConsilienceError) as error:
        rounds_of(Consensus(trust=surest, schedule=schedule, warmup=0), 2)
    assert str(error.value) == (
        "this trust rule makes pseudo-labels of its own in every round, so that trust cannot be kept. "
        f"Use the schedule dynamic instead of {schedule}, or a rule that makes one matrix, such as paper."
    )
    assert len(rounds_of(Consensus(trust=surest, schedule="every-1", warmup=0), 2)) == 2


@pytest.mark.parametrize(
    "labels", [np.zeros((3, SAMPLES, OUTPUTS)), np.zeros((4, OUTPUTS)), np.full((4, SAMPLES, OUTPUTS), np.nan)]
)
def test_labels_of_a_wrong_shape_are_refused(labels):
    def rule(f):
        return TrustResult(np.eye(4), labels)

    with pytest.raises(ConsilienceError, match=r"the trust rule rule returned pseudo-labels .*Return \(4, 12, 3\)"):
        rounds_of(Consensus(trust=rule, warmup=0), 1)
