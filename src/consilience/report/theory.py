"""The claims of the paper checked on a finished run, in plain sentences that also say when a claim fails."""

import numpy as np

from consilience.core import consensus
from consilience.core.sparse import SparseTrust, connected_within
from consilience.report.numbers import listed
from consilience.runtime.run import Run
from consilience.tasks.protocol import Array

PROBES = 32
"""Random starts by which the contraction of sparse trust is measured."""
TOLERANCE = 1e-9
"""Differences below this are rounding of floating-point numbers."""


def findings(run: Run) -> list[str]:
    """One sentence or two per claim: what the claim says, whether it holds in this run, and the numbers."""
    ws = run.trust
    if run.sparse is not None:
        return _sparse(run.sparse)
    if not len(ws):
        return ["This run has no trust matrices, so the theory of consensus does not apply to it."]
    sentences = [_assumption(ws)]
    _, rows, agents = ws.shape
    if rows != agents:
        here = f"This run knows the trust of {rows} of {agents} agents"
        return [*sentences, f"{here}; the other claims are about all of them and cannot be checked here."]
    sentences += [_self_confidence(ws), _contraction(ws)]
    low = low_quality(run)
    if len(low) == 1:
        sentences.append(_one_low_quality(ws, low[0], run.names))
    elif low:
        sentences += _several_low_quality(ws, low, run.names)
    if low:
        sentences.append(_influence(ws, low, run.names))
    return sentences


def brief(run: Run) -> list[str]:
    """The claims in a line each, and whether they hold; `findings` has the numbers. Empty where those are few."""
    ws = run.trust
    if run.sparse is not None or not len(ws) or ws.shape[1] != ws.shape[2]:
        return []
    rose = int((np.diff(consensus.self_confidence(ws)) > TOLERANCE).sum())
    good = sum(consensus.is_stochastic(w) for w in ws)
    lines = [
        f"Trust is positive, and what an agent gives sums to 1: in {_of(good, len(ws))}.",
        "Agents trust themselves ever less: " + (f"no, more in {rose} of {len(ws) - 1} steps." if rose else "yes."),
    ]
    low = low_quality(run)
    if 0 < len(low) < len(run.names):
        shares = consensus.influence(ws)
        least = shares[low].max() < np.delete(shares, low).min() - TOLERANCE
        lines.append(f"Agents with wrong labels have the least influence: {'yes' if least else 'no'}.")
    return lines


def _sparse(trust: SparseTrust) -> list[str]:
    """Trust with zeros by design: instead of being positive, the matrices must stay connected."""
    rounds, agents, heard = trust.peers.shape
    own, window = trust.own(), connected_within(trust)
    positive = bool((own > 0).all())
    sentences = [
        f"Agents heard {heard - 1} of {agents - 1} peers in a round, so that trust in all others is zero and the "
        "theorems on positive matrices do not apply. Consensus is reached as well if every agent trusts itself and the "
        "graphs of who trusts whom are, over any B rounds in a row, together strongly connected "
        "(docs/reference/notation.md)."
    ]
    if window is None:
        sentences.append(f"This does NOT hold: even over all {rounds} rounds the graphs are not strongly connected.")
    elif positive:
        least = float(trust.weights[trust.weights > 0].min())
        sentences.append(
            f"It holds in this run with B = {window}; the smallest trust above zero is {_small(least)}, and the "
            f"smallest self-confidence {_small(float(own.min()))}."
        )
    else:
        sentences.append(f"The graphs are connected with B = {window}, but some agent does not trust itself.")
    start = np.random.default_rng(0).random((agents, PROBES))
    spread = np.ptp(trust.mixed(start), axis=0) / np.ptp(start, axis=0)
    sentences.append(
        f"Without training in between, {PROBES} random starts would differ between agents after the last round by at "
        f"most {_small(float(spread.max()))} of their first differences; at zero all pseudo-labels would be the same."
    )
    mean = own.mean(axis=1)
    course = f"went from {mean[0]:.3f} to {mean[-1]:.3f}"
    return [*sentences, f"Self-confidence, the mean trust of agents in themselves, {course}."]


def low_quality(run: Run) -> list[int]:
    """Numbers of the agents that are known to have shifted labels."""
    return [number for number, agent in enumerate(run.summary.agents) if agent.low_quality]


def _assumption(ws: Array) -> str:
    """Whether all matrices are row-stochastic and positive."""
    rounds = len(ws)
    good = sum(consensus.is_stochastic(w) for w in ws)
    if good == rounds:
        matrices = "The trust matrix is" if rounds == 1 else f"All {rounds} trust matrices are"
        return f"{matrices} positive and every row sums to 1, as every theorem assumes."
    zeros = int((ws <= 0).any(axis=(1, 2)).sum())
    why = (
        f"in {_of(zeros, rounds)} some trust is zero (a peer not heard, or not believed)"
        if zeros
        else "some rows do not sum to 1"
    )
    return (
        f"The theorems assume trust matrices that are positive with rows that sum to 1. "
        f"This holds in {_of(good, rounds)}: {why}, so the theorems do not cover the whole run."
    )


def _self_confidence(ws: Array) -> str:
    """Claim 2: the trace never rises and trust becomes uniform."""
    trace = consensus.self_confidence(ws)
    steps = np.diff(trace)
    away = np.abs(ws - 1 / ws.shape[1]).max(axis=(1, 2))
    if not len(steps):
        return f"Self-confidence (the trace of W) is {trace[0]:.3f}; with one round Claim 2 has nothing to compare."
    rose = int((steps > TOLERANCE).sum())
    if np.abs(steps).max() <= TOLERANCE:
        course = f"It stayed at {trace[0]:.3f} in all rounds, so the claim holds, trivially."
    elif rose == 0 and (steps < -TOLERANCE).all():
        course = f"It fell in every round, from {trace[0]:.3f} to {trace[-1]:.3f}: the claim holds."
    elif rose == 0:
        course = f"It never rose and went from {trace[0]:.3f} to {trace[-1]:.3f}: the claim holds."
    else:
        course = (
            f"It went from {trace[0]:.3f} to {trace[-1]:.3f} but rose in {rose} of {len(steps)} steps: "
            "the claim does not hold throughout."
        )
    return (
        f"Claim 2 says that self-confidence (the trace of W) never rises and that trust becomes equal. {course} "
        f"The largest distance of a trust value from the equal share {1 / ws.shape[1]:.3f} went from "
        f"{away[0]:.3f} to {away[-1]:.3f}."
    )


def _contraction(ws: Array) -> str:
    """The lemma: delta of the product is at most the product of the lambdas."""
    if ws.shape[1] > consensus.MANY:
        last = np.linalg.multi_dot(ws[::-1]) if len(ws) > 1 else ws[0]
        return (
            f"The rows of the product of all W differ by at most {_small(consensus.row_difference(last))} after the "
            f"last round. The bound of the lemma compares all pairs of agents, and is left out for more than "
            f"{consensus.MANY} agents."
        )
    delta = np.array([consensus.row_difference(product) for product in consensus.products(ws)])
    bound = consensus.contraction_bound(ws)
    broken = int((delta > bound + TOLERANCE).sum())
    verdict = "the bound holds in every round" if not broken else f"the bound is broken in {_of(broken, len(ws))}"
    return (
        f"The rows of the product of all W differ by at most {_small(delta[-1])} after the last round; "
        f"the lemma allows {_small(bound[-1])}: {verdict}. "
        "At zero every pseudo-label would be the same mixture of the agents' first predictions."
    )


def _one_low_quality(ws: Array, b: int, names: list[str]) -> str:
    """The proposition on one low-quality agent."""
    conditions = consensus.lowest_importance(ws, b)
    rounds, both = len(ws), int(conditions.holds.sum())
    return (
        f"Agent {names[b]} (labels shifted): least trusted by all others in "
        f"{_of(int(conditions.least_trusted.sum()), rounds)}; lowest column sum in "
        f"{_of(int(conditions.lowest_sum.sum()), rounds)}. {_proposition(both, rounds, 'both conditions')}"
    )


def _several_low_quality(ws: Array, low: list[int], names: list[str]) -> list[str]:
    """The proposition on several low-quality agents, then how far agents with good labels trust each of them."""
    rounds = len(ws)
    good = [number for number in range(ws.shape[1]) if number not in low]
    if not good:
        return ["All agents have shifted labels; the proposition needs some with good labels."]
    conditions = consensus.lower_importance(ws, low)
    sentences = [
        f"Agents {_listed(low, names)} (labels shifted): their column sums are below those of all good agents in "
        f"{_of(int(conditions.lower_sums.sum()), rounds)}; the trust gap is wide enough in "
        f"{_of(int(conditions.trust_gap.sum()), rounds)}; everyone else trusts them no more than any good agent in "
        f"{_of(int(conditions.less_trusted.sum()), rounds)}. "
        f"{_proposition(int(conditions.holds.sum()), rounds, 'all three conditions')}"
    ]
    least_in_good, least_sum = ws[:, good][:, :, good].min(axis=2), ws.sum(axis=1)[:, good].min(axis=1)
    for b in low:
        trusted_less = int((ws[:, good, b] < least_in_good).all(axis=1).sum())
        lower_sum = int((ws[:, :, b].sum(axis=1) < least_sum).sum())
        sentences.append(
            f"Agent {names[b]}: every good agent trusts it less than any good agent in "
            f"{_of(trusted_less, rounds)}; its column sum is below that of every good agent in {lower_sum} of {rounds}."
        )
    return sentences


def _influence(ws: Array, low: list[int], names: list[str]) -> str:
    """The influence of low-quality agents on the consensus, compared with an equal share."""
    shares = consensus.influence(ws)
    equal = 1 / ws.shape[1]
    parts = [
        f"agent {names[b]} {shares[b]:.3f} ({'below' if shares[b] < equal - TOLERANCE else 'not below'})" for b in low
    ]
    good = np.delete(shares, low)
    text = f"Influence on the consensus, beside an equal share of {equal:.3f}: {', '.join(parts)}."
    if not len(good):
        return text
    least = shares[low].max() < good.min() - TOLERANCE
    whose = "its" if len(low) == 1 else "their"
    return f"{text} That {whose} influence is below that of every good agent {'holds' if least else 'does not hold'}."


def _proposition(holding: int, rounds: int, conditions: str) -> str:
    """Whether a proposition that needs its conditions in every round applies."""
    if holding == rounds:
        return f"With {conditions} in every round, the proposition applies: the least influence is guaranteed."
    return (
        f"The proposition asks for {conditions} in every round, and they hold together in "
        f"{_of(holding, rounds)}: it does not apply to the whole run."
    )


def _of(count: int, rounds: int) -> str:
    return f"{count} of {rounds} round{'s' if rounds > 1 else ''}"


def _listed(numbers: list[int], names: list[str]) -> str:
    return listed([names[number] for number in numbers])


def _small(value: float) -> str:
    return "0" if value < 1e-15 else f"{value:.2g}"
