"""The theorems of the paper as properties of the code. Each test names its theorem by the LaTeX label."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from consilience.core.consensus import (
    contraction_bound,
    influence,
    is_stochastic,
    lower_importance,
    lowest_importance,
    products,
    row_difference,
    scrambling,
    self_confidence,
    stationary,
)
from consilience.core.labels import pseudo_labels
from consilience.core.metrics import disagreement
from consilience.core.trust import cosine_trust, entropy_trust, ideal_trust, metropolis, uniform_trust

ROUNDING = 1e-12
OFFSETS = st.sampled_from([0.0, 1.0])
SEEDS = st.integers(0, 2**32 - 1)

examples = settings(max_examples=60, deadline=None)


@st.composite
def predictions(draw, max_agents=10, max_samples=20, max_classes=10, concentrations=(0.05, 0.3, 1.0, 10.0)):
    """Dirichlet predictions, mixed with a little of the even one so that every probability is positive."""
    agents, samples = draw(st.integers(2, max_agents)), draw(st.integers(1, max_samples))
    classes, concentration = draw(st.integers(2, max_classes)), draw(st.sampled_from(concentrations))
    rng = np.random.default_rng(draw(SEEDS))
    f = rng.dirichlet(np.full(classes, concentration), size=(agents, samples))
    return 0.99 * f + 0.01 / classes


@st.composite
def trust_matrices(draw, rounds=6, max_agents=7):
    """Positive row-stochastic matrices, one per round."""
    agents, concentration = draw(st.integers(2, max_agents)), draw(st.sampled_from([0.1, 1.0, 10.0]))
    rng = np.random.default_rng(draw(SEEDS))
    ws = rng.dirichlet(np.full(agents, concentration), size=(rounds, agents))
    return 0.9 * ws + 0.1 / agents


@st.composite
def distrusting_matrices(draw, rounds=5, max_agents=7, max_low=3):
    """Trust matrices that meet the conditions of `prop-many-low-quality-nodes`, and the low-quality agents.

    In each row the largest weights go to the regular agents, except that an agent of low quality believes in
    itself at will; its row is then drawn towards an even one until the conditions hold.
    """
    low_count = draw(st.integers(1, max_low))
    agents = draw(st.integers(low_count + 1, max_agents))
    rng = np.random.default_rng(draw(SEEDS))
    low = rng.permutation(agents)[:low_count]
    regular = np.setdiff1d(np.arange(agents), low)
    ws = 0.9 * rng.dirichlet(np.ones(agents), size=(rounds, agents)) + 0.1 / agents
    for w in ws:
        for i, row in enumerate(w):
            peers_low = low[low != i]
            peers = np.concatenate([regular, peers_low])
            largest_first = np.sort(row[peers])[::-1]
            row[regular] = rng.permutation(largest_first[: len(regular)])
            row[peers_low] = rng.permutation(largest_first[len(regular) :])
        for _ in range(100):
            if lower_importance(w[None], low.tolist()).holds[0]:
                break
            w[low] = 0.7 * w[low] + 0.3 / agents
    return ws, low.tolist()


def ideal_dynamics(f, offset=1.0, rounds=30):
    """Psi(t) = W(t) Psi(t-1), with W(t) from the predictions of round t - 1 (label `eq-MK-update`)."""
    ws, disagreements = [], [disagreement(f)]
    for _ in range(rounds):
        ws.append(entropy_trust(f, offset=offset))
        f = pseudo_labels(ws[-1], f)
        disagreements.append(disagreement(f))
    return np.array(ws), np.array(disagreements)


@examples
@given(predictions(), OFFSETS)
def test_trust_from_predictions_is_row_stochastic_and_positive(f, offset):
    """`assump-positivity of W` holds by construction (label `w-calculation-1`)."""
    assert is_stochastic(entropy_trust(f, offset=offset))
    assert is_stochastic(cosine_trust(f))


@examples
@given(trust_matrices())
def test_products_of_trust_matrices_are_row_stochastic_and_positive(ws):
    """Claim `claim-irr-aper`."""
    assert all(is_stochastic(w) for w in products(ws))


@examples
@given(trust_matrices(rounds=200))
def test_long_products_have_identical_rows(ws):
    """Theorem `thm-rank 1`."""
    assert row_difference(products(ws)[-1]) < 1e-8


@examples
@given(trust_matrices(rounds=1), SEEDS)
def test_positive_trust_contracts_disagreement_by_lambda(ws, seed):
    """Definition `def-scrambling-matrix`: disagreement(W f) <= lambda(W) disagreement(f); lambda(W) < 1 if W > 0."""
    f = np.random.default_rng(seed).normal(size=(ws.shape[1], 5, 3))
    assert scrambling(ws[0]) < 1
    assert disagreement(pseudo_labels(ws[0], f)) <= scrambling(ws[0]) * disagreement(f) + ROUNDING


@examples
@given(trust_matrices())
def test_row_differences_of_products_stay_below_the_contraction_bound(ws):
    """Lemma `lemma-product-pf-scramling-matrices`."""
    differences = np.array([row_difference(w) for w in products(ws)])
    assert (differences <= contraction_bound(ws) + ROUNDING).all()


@examples
@given(predictions(), OFFSETS)
def test_agents_reach_consensus_under_the_ideal_dynamics(f, offset):
    """Theorem `Theorem-consensus-on-preds`, and the speed that the lemma promises."""
    ws, disagreements = ideal_dynamics(f, offset, rounds=100)
    assert disagreements[-1] < 1e-8
    assert (disagreements[1:] <= disagreements[0] * contraction_bound(ws) + ROUNDING).all()


@examples
@given(predictions(), OFFSETS)
def test_trust_becomes_uniform_under_the_ideal_dynamics(f, offset):
    """Claim `behavior-of-W`, second half."""
    ws, _ = ideal_dynamics(f, offset, rounds=100)
    np.testing.assert_allclose(ws[-1], uniform_trust(len(f)), atol=1e-8)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(predictions(max_samples=50), OFFSETS)
def test_self_confidence_never_rises_from_random_predictions(f, offset):
    """Claim `behavior-of-W`, first half: it holds from random starts; where it breaks is shown below."""
    ws, _ = ideal_dynamics(f, offset)
    assert (np.diff(self_confidence(ws)) <= ROUNDING).all()


def prediction(classes, probabilities):
    """The given probabilities of some classes; the others share the rest evenly."""
    rest = (1 - sum(probabilities.values())) / (classes - len(probabilities))
    return [probabilities.get(c, rest) for c in range(classes)]


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_self_confidence_can_rise_when_there_are_many_classes(offset):
    """Claim `behavior-of-W`, first half, breaks, whatever beta is: with one sample beta cancels.

    Eight agents are sure of class 0, one is sure of class 1, and one is unsure but leans to both. The unsure
    one goes over to the eight, and the one loses its only ally. Trust still becomes uniform in the end.
    """
    eight, one, unsure = {0: 1 - 1e-6}, {1: 1 - 1e-6}, {0: 0.029, 1: 0.022}
    f = np.array([[prediction(2000, p)] for p in [eight] * 8 + [one, unsure]])
    ws, _ = ideal_dynamics(f, offset)
    before, after = self_confidence(ws)[:2]
    assert after > before + 0.05
    np.testing.assert_allclose(ws[-1], uniform_trust(10), atol=1e-8)


def test_self_confidence_can_rise_with_three_classes_when_beta_is_one_over_entropy():
    """Claim `behavior-of-W`, first half, breaks for the printed beta = 1 / H; with 1 / (H + 1) it holds here.

    On the first sample one agent and its ally face eight others; on the second the ally is surest and sides
    with the eight, so it goes over to them on both.
    """
    sure = 1 - 1e-5
    eight = [{1: sure}, {1: 0.9}]
    one = [{0: sure}, {1: 0.02}]
    ally = [{0: 0.999}, {1: sure}]
    f = np.array([[prediction(3, p) for p in agent] for agent in [eight] * 8 + [one, ally]])
    before, after = self_confidence(ideal_dynamics(f, offset=0.0)[0])[:2]
    assert after > before + 0.1
    assert (np.diff(self_confidence(ideal_dynamics(f, offset=1.0)[0])) <= ROUNDING).all()


@examples
@given(distrusting_matrices(max_low=1))
def test_an_agent_of_low_quality_keeps_the_lowest_importance(drawn):
    """Propositions `claim-arbitrary low importance on b` and `time-homogenous-MC-lowest-importance`."""
    ws, (b,) = drawn
    assert lowest_importance(ws, b).holds.all()
    assert lowest_importance(products(ws), b).holds.all()
    others = np.arange(ws.shape[1]) != b
    assert influence(ws)[b] < influence(ws)[others].min()
    assert stationary(ws[0])[b] < stationary(ws[0])[others].min()


@examples
@given(distrusting_matrices())
def test_agents_of_low_quality_keep_lower_importance_than_regular_ones(drawn):
    """Proposition `prop-many-low-quality-nodes`."""
    ws, low = drawn
    assert lower_importance(ws, low).holds.all()
    assert lower_importance(products(ws), low).holds.all()
    regular = np.setdiff1d(np.arange(ws.shape[1]), low)
    consensus = influence(np.concatenate([ws, uniform_trust(ws.shape[1])[None]]))
    assert consensus[low].max() < consensus[regular].min()


@examples
@given(predictions(), OFFSETS)
def test_every_agent_trusts_itself_most(f, offset):
    """Section `trust-update-self-confi`: pairwise cosine similarity is self-confident, weighted or not."""
    for w in (cosine_trust(f), entropy_trust(f, offset=offset)):
        assert (w.diagonal() >= w.max(axis=1) - ROUNDING).all()


@st.composite
def consensus_distributions(draw, max_agents=7):
    """A positive consensus distribution pi, and a generator for more."""
    agents = draw(st.integers(2, max_agents))
    rng = np.random.default_rng(draw(SEEDS))
    return 0.95 * rng.dirichlet(np.ones(agents)) + 0.05 / agents, rng


@examples
@given(consensus_distributions())
def test_any_consensus_can_be_reached_with_self_confident_trust(drawn):
    """Proposition `claim-spiky-diagonal`, by Metropolis on a self-confident doubly stochastic Phi."""
    pi, rng = drawn
    agents = len(pi)
    shuffles = np.mean([np.eye(agents)[rng.permutation(agents)] for _ in range(3)], axis=0)
    phi = 0.5 * np.eye(agents) + 0.4 * shuffles + 0.1 / agents
    w = metropolis(phi, pi)
    assert is_stochastic(w)
    assert (w.diagonal() >= phi.diagonal() - ROUNDING).all()
    assert (w.diagonal() >= w.max(axis=1)).all()
    np.testing.assert_allclose(pi @ w, pi, atol=ROUNDING)
    np.testing.assert_allclose(stationary(w), pi, atol=1e-9)


@examples
@given(consensus_distributions())
def test_metropolis_balances_the_flow_between_any_two_agents(drawn):
    """Example `example-metropolis chain` when Phi is not symmetric: pi_x w_xy = pi_y w_yx."""
    pi, rng = drawn
    phi = rng.dirichlet(np.ones(len(pi)), size=len(pi))
    flow = pi[:, None] * metropolis(phi, pi)
    np.testing.assert_allclose(flow, flow.T, atol=ROUNDING)
    np.testing.assert_allclose(flow.sum(axis=1), pi, atol=ROUNDING)


@examples
@given(predictions(), SEEDS)
def test_ideal_trust_reaches_the_given_consensus_and_raises_no_trust_in_peers(f, seed):
    """Equation `eq:w-ideal`: w_jb <= phi_jb for j != b, and pi is where it leads."""
    pi = 0.95 * np.random.default_rng(seed).dirichlet(np.ones(len(f))) + 0.05 / len(f)
    w, phi = ideal_trust(f, pi), cosine_trust(f)
    peers = ~np.eye(len(f), dtype=bool)
    assert (w[peers] <= phi[peers] + ROUNDING).all()
    np.testing.assert_allclose(stationary(w), pi, atol=1e-8)


@examples
@given(predictions(), SEEDS, OFFSETS)
def test_confidence_weighting_lowers_trust_in_those_who_agree_less_when_sure(f, seed, offset):
    """Appendix `appendix-proof-entropy-weighting`: under its assumptions a and b, w_ib < phi_ib."""
    rng = np.random.default_rng(seed)
    sure, unsure = f.copy(), rng.permutation(f, axis=2)
    for part, p in [(sure, 0.9), (unsure, 0.6)]:
        same_entropy = np.tile(prediction(f.shape[2], {0: p}), (f.shape[1], 1))
        part[0] = rng.permuted(same_entropy, axis=1)
    b = cosine_trust(sure)[0] < cosine_trust(unsure)[0] - 1e-9
    assume(b.any())
    both = np.concatenate([sure, unsure], axis=1)
    assert (entropy_trust(both, offset=offset)[0, b] < cosine_trust(both)[0, b]).all()
