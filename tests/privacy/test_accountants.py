"""The accountant of record agrees with that of another project; the chosen noise spends the budget, not more."""

import warnings
from math import exp, inf, sqrt

import numpy as np
import pytest
from opacus.accountants import PRVAccountant
from scipy.stats import norm

from consilience.privacy.accountants import (
    LedgerEntry,
    advantage,
    epsilon_of_record,
    from_array,
    noise_for,
    to_array,
    used,
)

GRID = [(1.0, 0.1, 100), (2.0, 0.5, 75), (6.0, 0.25, 400), (20.0, 1.0, 75), (9.0, 0.5, 20)]
"""(noise, rate, steps)"""


def by_opacus(steps, delta):
    """Epsilon by opacus' PRV accountant, an upper bound with an error of at most a hundredth of a unit."""
    prv = PRVAccountant()
    prv.history = list(steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return prv.get_epsilon(delta, eps_error=0.005)


@pytest.mark.parametrize("delta", [1e-5, 1e-3])
@pytest.mark.parametrize("step", GRID, ids=str)
def test_the_accountants_agree_within_two_per_cent(step, delta):
    assert by_opacus([step], delta) == pytest.approx(epsilon_of_record((step,), delta), rel=0.02)


def test_they_agree_on_steps_of_several_kinds():
    plan = ((1.5, 0.1, 60), (3.0, 0.3, 40))
    assert by_opacus(plan, 1e-5) == pytest.approx(epsilon_of_record(plan, 1e-5), rel=0.02)


@pytest.mark.parametrize("noise", [0.7, 2.0])
def test_one_step_on_all_rows_is_the_gaussian_mechanism(noise):
    """delta = Phi(-eps noise + 1 / (2 noise)) - e^eps Phi(-eps noise - 1 / (2 noise)) (Balle and Wang, 2018)."""
    delta = 1e-5
    low, high = 0.0, 200.0
    for _ in range(80):
        eps = (low + high) / 2
        exact = norm.cdf(-eps * noise + 0.5 / noise) - exp(eps + norm.logcdf(-eps * noise - 0.5 / noise))
        low, high = (eps, high) if exact > delta else (low, eps)
    assert epsilon_of_record(((noise, 1.0, 1),), delta) == pytest.approx(high, rel=2e-3)


def test_composing_gaussians_is_one_gaussian():
    many, one = epsilon_of_record(((4.0, 1.0, 16),), 1e-5), epsilon_of_record(((1.0, 1.0, 1),), 1e-5)
    assert many == pytest.approx(one, rel=2e-3) and sqrt(16) == 4


def test_more_steps_cost_more_and_no_noise_costs_everything():
    costs = [epsilon_of_record(((2.0, 0.1, steps),), 1e-5) for steps in (1, 10, 100)]
    assert 0 < costs[0] < costs[1] < costs[2]
    assert epsilon_of_record((), 1e-5) == 0
    assert epsilon_of_record(((0.0, 0.1, 1),), 1e-5) == inf


@pytest.mark.parametrize("epsilon", [0.3, 8.0])
@pytest.mark.parametrize(("rate", "steps"), [(1.0, 30), (0.05, 200)])
def test_the_noise_spends_the_budget_and_not_more(epsilon, rate, steps):
    noise = noise_for(epsilon, 1e-5, rate, steps)
    spent = epsilon_of_record(((noise, rate, steps),), 1e-5)
    assert 0.99 * epsilon <= spent <= epsilon


def test_what_was_spent_before_is_counted():
    before = ((2.0, 0.5, 40),)
    already = epsilon_of_record(before, 1e-5)
    noise = noise_for(2 * already, 1e-5, 0.5, 40, before)
    assert epsilon_of_record((*before, (noise, 0.5, 40)), 1e-5) == pytest.approx(2 * already, rel=0.01)
    assert noise_for(already, 1e-5, 0.5, 40, before) == inf


def test_entries_add_up_and_come_back_from_arrays():
    entries = [LedgerEntry(1, 0.25, 3.0, 8), LedgerEntry(2, 0.25, 3.0, 8), LedgerEntry(4, 0.5, 1 / 3, 2)]
    assert used(entries) == ((1 / 3, 0.5, 2), (3.0, 0.25, 16))
    assert from_array(to_array(entries)) == entries and from_array(to_array([])) == []


def test_what_anyone_can_tell_is_bounded():
    """Randomised response with bias e^eps / (1 + e^eps) reaches the bound for delta 0."""
    for epsilon in (0.5, 1.0, 3.0):
        p = exp(epsilon) / (1 + exp(epsilon))
        points = np.array([(0, 0), (1 - p, p), (1, 1)])
        assert advantage(epsilon, 0.0) == pytest.approx(np.trapezoid(points[:, 1], points[:, 0]), abs=1e-4)
