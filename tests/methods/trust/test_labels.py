"""Rules to compare trust with: the same pseudo-labels for all, whatever agents and classes are called."""

import numpy as np
import pytest

from consilience import Consensus
from consilience.extend import Context
from consilience.methods.trust import trust_named
from consilience.methods.trust.labels import Trimmed
from consilience.methods.trust.protocol import apply_rule
from consilience.tasks import task_named
from tests.methods.parrot import NAMES, first_words, rounds_of

RULES = ["median", "geometric", "trimmed", "expguard"]


def believed(rule, f: np.ndarray, task: str = "classification", rows=(0, 1, 2, 3), memory=None):
    """Trust and pseudo-labels."""
    context = Context(task_named(task), NAMES, np.array(rows), np.full(4, 0.5), 1, memory or {})
    said = apply_rule(rule, f, context)
    labels = said.labels if said.labels is not None else np.einsum("ij,jsc->isc", said.trust[list(rows)], f)
    return said.trust, labels


@pytest.mark.parametrize("task", ["classification", "multilabel", "regression"])
@pytest.mark.parametrize("name", RULES)
def test_rules_are_row_stochastic_positive_and_the_same_for_all(name, task):
    f = first_words(task)
    w, psi = believed(trust_named(name), f, task)
    assert (w > 0).all() and np.allclose(w.sum(axis=1), 1)
    for labels in psi:
        np.testing.assert_allclose(labels, psi[0], atol=1e-6)
    if task == "classification":
        np.testing.assert_allclose(psi.sum(axis=2), 1, atol=1e-6)
    assert (psi[0] >= f.min(axis=0) - 1e-6).all() or task == "classification"


@pytest.mark.parametrize("name", [*RULES, "paper", "entropy", "cosine", "centred", "uniform", "stratified"])
def test_renaming_agents_or_classes_renames_and_changes_nothing_else(name):
    f, rule = first_words(), trust_named(name)
    w, psi = believed(rule, f)
    agents, classes = [2, 0, 3, 1], [1, 2, 0]
    w_other, psi_other = believed(rule, f[agents])
    np.testing.assert_allclose(w_other, w[np.ix_(agents, agents)], rtol=1e-5)
    np.testing.assert_allclose(psi_other, psi[agents], atol=1e-6)
    w_other, psi_other = believed(rule, f[..., classes])
    np.testing.assert_allclose(w_other, w, rtol=1e-5)
    np.testing.assert_allclose(psi_other, psi[..., classes], atol=1e-6)


@pytest.mark.parametrize("name", RULES)
def test_rows_do_not_depend_on_which_agents_live_here(name):
    f, rule = first_words(), trust_named(name)
    np.testing.assert_array_equal(believed(rule, f)[1][[1, 3]], believed(rule, f, rows=(1, 3))[1])


@pytest.mark.parametrize("name", RULES)
def test_a_run_with_the_rule_records_a_matrix_and_goes_on_from_a_checkpoint(name):
    rounds = rounds_of(Consensus(trust=trust_named(name), warmup=0), 3)
    for done in rounds:
        np.testing.assert_allclose(done.record.trust.sum(axis=1), 1)
    if name != "expguard":
        np.testing.assert_array_equal(rounds[0].record.trust, np.full((4, 4), 0.25))


def test_trimming_nobody_is_the_mean():
    f = first_words()
    np.testing.assert_allclose(believed(Trimmed(share=0.0), f)[1][0], f.mean(axis=0), atol=1e-6)
