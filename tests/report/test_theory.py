"""The sentences on theory say what holds, and say so when it does not."""

from dataclasses import replace

import numpy as np
import pytest

from consilience.core.consensus import influence
from consilience.report.theory import findings
from consilience.runtime.run import Run
from tests.report.test_page import make_run, make_trust

DISTRUSTS_B = np.array([[0.5, 0.1, 0.4], [0.3, 0.4, 0.3], [0.4, 0.1, 0.5]])
"""Agent 1 is trusted least by both others and has the lowest column sum."""
TRUSTS_B = np.array([[0.5, 0.4, 0.1], [0.2, 0.6, 0.2], [0.2, 0.3, 0.5]])


def with_trust(*ws: np.ndarray, low: tuple[int, ...] = ()) -> Run:
    agents = ws[0].shape[1]
    run = make_run([str(number) for number in range(agents)], rounds=len(ws), warmup=0)
    people = [replace(agent, low_quality=number in low) for number, agent in enumerate(run.summary.agents)]
    return replace(run, trust=np.stack(ws), summary=replace(run.summary, agents=people))


def test_assumption_holds() -> None:
    assert findings(with_trust(*make_trust(5, 3)))[0].startswith("All 5 trust matrices are positive")


def test_a_peer_not_heard_breaks_the_assumption() -> None:
    silent = np.array([[0.6, 0, 0.4], [0, 1, 0], [0.4, 0, 0.6]])
    first = findings(with_trust(DISTRUSTS_B, silent))[0]
    assert "holds in 1 of 2 rounds" in first
    assert "not heard" in first


def test_rows_that_do_not_sum_to_one_are_told_apart_from_a_missing_peer() -> None:
    first = findings(with_trust(DISTRUSTS_B * 0.9, DISTRUSTS_B))[0]
    assert "holds in 1 of 2 rounds: some rows do not sum to 1" in first


def test_falling_self_confidence_is_claim_two() -> None:
    ws = make_trust(5, 3)
    sentence = findings(with_trust(*ws))[1]
    assert f"fell in every round, from {np.trace(ws[0]):.3f} to {np.trace(ws[-1]):.3f}: the claim holds" in sentence


def test_rising_self_confidence_is_said() -> None:
    sentence = findings(with_trust(*make_trust(5, 3)[::-1]))[1]
    assert "rose in 4 of 4 steps" in sentence
    assert "does not hold" in sentence


def test_kept_trust_neither_falls_nor_rises() -> None:
    assert "stayed at 1.400" in findings(with_trust(DISTRUSTS_B, DISTRUSTS_B))[1]


def test_product_is_compared_with_the_lemma() -> None:
    delta, allowed = 0.3, 0.3
    sentence = findings(with_trust(DISTRUSTS_B))[2]
    assert f"differ by at most {delta}" in sentence
    assert f"allows {allowed}" in sentence
    assert "holds in every round" in sentence


def test_one_low_quality_agent_that_all_distrust() -> None:
    told = findings(with_trust(DISTRUSTS_B, DISTRUSTS_B, low=(1,)))
    assert "Agent 1 (labels shifted): least trusted by all others in 2 of 2 rounds" in told[3]
    assert "lowest column sum in 2 of 2 rounds" in told[3]
    assert "the proposition applies" in told[3]
    share = influence(np.stack([DISTRUSTS_B, DISTRUSTS_B]))[1]
    assert f"agent 1 {share:.3f} (below)" in told[4]
    assert told[4].endswith("every good agent holds.")


def test_one_low_quality_agent_that_some_trust() -> None:
    told = findings(with_trust(TRUSTS_B, TRUSTS_B, DISTRUSTS_B, low=(1,)))
    assert "least trusted by all others in 1 of 3 rounds" in told[3]
    assert "lowest column sum in 1 of 3 rounds" in told[3]
    assert "does not apply" in told[3]
    assert "(not below)" in told[4]
    assert told[4].endswith("does not hold.")


def test_several_low_quality_agents() -> None:
    good, low = [0.35, 0.35, 0.15, 0.15], [0.25, 0.25, 0.3, 0.2]
    w = np.array([good, good, low, [0.2, 0.2, 0.1, 0.5]])
    other = np.array([good, [0.3, 0.2, 0.25, 0.25], low, [0.2, 0.2, 0.1, 0.5]])
    told = findings(with_trust(w, other, low=(2, 3)))
    assert told[3].startswith("Agents 2 and 3 (labels shifted): their column sums are below")
    assert "agent in 2 of 2 rounds; its" not in told[4]
    assert "Agent 2: every good agent trusts it less than any good agent in 1 of 2 rounds" in told[4]
    assert told[4].endswith("its column sum is below that of every good agent in 2 of 2.")
    assert "Agent 3: every good agent trusts it less than any good agent in 1 of 2 rounds" in told[5]
    assert "column sum is below that of every good agent in 1 of 2." in told[5]


def test_one_site_cannot_check_claims_on_all_agents() -> None:
    told = findings(with_trust(DISTRUSTS_B[:1], DISTRUSTS_B[:1], low=(1,)))
    assert len(told) == 2
    assert "trust of 1 of 3 agents" in told[1]


@pytest.mark.parametrize("agents", [2, 5])
def test_without_trust_there_is_nothing_to_say(agents: int) -> None:
    told = findings(make_run([str(number) for number in range(agents)], collaborates=False))
    assert len(told) == 1
    assert "no trust matrices" in told[0]


def test_all_agents_of_low_quality_leave_nothing_to_compare() -> None:
    told = findings(with_trust(DISTRUSTS_B, low=(0, 1, 2)))
    assert "All agents have shifted labels" in told[3]
