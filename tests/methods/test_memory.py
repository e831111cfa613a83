"""A trust rule that remembers: from round to round, and through a checkpoint."""

import numpy as np
import pandas as pd
import pytest

from consilience import Consensus
from consilience.extend import Context, InMemory, TrustResult
from consilience.runtime.driver import run_rounds
from consilience.runtime.run import Run
from consilience.runtime.summary import Summary
from tests.methods.parrot import NAMES, SHARED, Lossy, first_words, parrots, rounds_of


class Inertia:
    """The mean of all matrices of distances so far, as weights; keeps their sum by name of the agent, and how many."""

    def __init__(self) -> None:
        self.found: list[dict[str, np.ndarray]] = []

    def __call__(self, f: np.ndarray, context: Context) -> TrustResult:
        self.found.append(context.memory)
        index = [NAMES.index(name) for name in context.names]
        total = np.array(context.memory.get("total", np.zeros((4, 4))))
        total[np.ix_(index, index)] += np.exp(-np.abs(f[:, None] - f).sum(axis=(2, 3)))
        here = total[np.ix_(index, index)]
        count = context.memory.get("count", 0) + 1
        return TrustResult(here / here.sum(axis=1, keepdims=True), memory={"total": total, "count": count})


def test_a_rule_finds_what_it_kept():
    rule = Inertia()
    rounds = rounds_of(Consensus(trust=rule, warmup=1), 4)
    assert [int(memory.get("count", 0)) for memory in rule.found] == [0, 1, 2]
    assert rounds[0].memory.common == {}
    total, f = np.zeros((4, 4)), first_words()
    for done in rounds[1:]:
        for i in range(4):
            for j in range(4):
                total[i, j] += np.exp(-np.abs(f[i] - f[j]).sum())
        np.testing.assert_allclose(done.memory.common["total"], total, rtol=1e-5)
        np.testing.assert_allclose(done.record.trust, total / total.sum(axis=1, keepdims=True), rtol=1e-5)
        f = np.stack([done.record.predictions[name] for name in NAMES])


def test_with_peers_missing_and_where_trust_is_kept_the_memory_stays():
    rule = Inertia()
    rounds = rounds_of(Consensus(trust=rule, warmup=0, schedule="every-2"), 4, Lossy({1: {"d"}, 3: {"a"}}))
    assert [int(memory.get("count", 0)) for memory in rule.found] == [0, 1, 2, 3], "d, then a were new in rounds 2, 4"
    assert all(isinstance(memory["count"], np.ndarray) for memory in rule.found[1:])
    rule = Inertia()
    rounds = rounds_of(Consensus(trust=rule, warmup=0, schedule="every-2"), 4)
    assert [int(done.memory.common["count"]) for done in rounds] == [1, 1, 2, 2]
    np.testing.assert_array_equal(rounds[0].memory.common["total"], rounds[1].memory.common["total"])


def run_of(method: Consensus, rounds: int, folder=None, missing=None) -> Run:
    summary = Summary(method.label, method.title, "classification", rounds, method.warmup, len(SHARED))
    exchange = Lossy(missing) if missing else InMemory(NAMES)
    return run_rounds(parrots(), SHARED, exchange, method, summary, folder=folder)


@pytest.mark.parametrize("missing", [{}, {2: {"b"}, 4: {"a", "d"}}])
@pytest.mark.parametrize("schedule", ["dynamic", "every-2", "static"])
def test_what_a_rule_kept_goes_through_the_checkpoint(tmp_path, schedule, missing):
    whole, rule = Inertia(), Inertia()
    expected = run_of(Consensus(trust=whole, warmup=0, schedule=schedule), 6, missing=missing)
    run_of(Consensus(trust=Inertia(), warmup=0, schedule=schedule), 3, tmp_path, missing)
    resumed = run_of(Consensus(trust=rule, warmup=0, schedule=schedule), 6, tmp_path, missing)
    np.testing.assert_array_equal(resumed.trust, expected.trust)
    pd.testing.assert_frame_equal(resumed.metrics, expected.metrics, check_exact=True)
    if rule.found:
        later = whole.found[-len(rule.found) :]
        for one, other in zip(rule.found, later, strict=True):
            assert one.keys() == other.keys()
            for key in one:
                np.testing.assert_array_equal(one[key], other[key])
                assert one[key].dtype == other[key].dtype
