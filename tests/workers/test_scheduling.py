"""Work is spread evenly, and only where that pays off."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consilience.agents.models import cost_of
from consilience.settings.presets import read_settings
from consilience.settings.settings import Settings, changed
from consilience.workers.scheduling import PAYS_OFF, balance, expected_costs, team_sizes

LONG = changed(Settings(), {"dataset": "cifar10", "models": ["resnet20"]})
SMALL = read_settings("digits", {})


@given(costs=st.lists(st.floats(0.01, 100), min_size=1, max_size=12), workers=st.integers(1, 6))
def test_everyone_has_one_worker_and_none_has_more_than_its_share_and_one_agent(costs, workers):
    """Longest first: the fullest worker exceeds the mean by less than its cheapest agent."""
    names = [str(number) for number in range(len(costs))]
    by_name = dict(zip(names, costs, strict=True))
    held = balance(by_name, workers)
    assert sorted(chain(*held)) == sorted(names)
    assert len(held) == min(workers, len(names)) and all(held)
    assert held[0][0] == "0"
    assert all(part == sorted(part, key=names.index) for part in held)
    loads = [sum(by_name[name] for name in part) for part in held]
    fullest = held[int(np.argmax(loads))]
    assert max(loads) <= np.mean(loads) + min(by_name[name] for name in fullest) + 1e-9


def test_agents_of_no_cost_are_spread_too():
    assert balance(dict.fromkeys("abcd", 0.0), 2) == [["a", "c"], ["b", "d"]]


def test_costs_are_passes_times_samples_times_the_cost_of_the_model():
    """A network passes private and shared batches `epochs` times; an estimator is refitted once on all samples."""
    settings = changed(
        Settings(),
        {"agents.count": 3, "models": ["mlp", "forest"], "epochs": 4, "batch": 10, "shared_batch": 30}
        | {"shared_per_agent": 7},
    )
    costs = expected_costs(settings, {"a": 100, "b": 100, "c": 200}, 64)
    mlp, forest = cost_of("mlp"), cost_of("forest")
    each = (mlp.each + 64 * mlp.per_value) * 1e-6
    assert costs["a"] == pytest.approx(each * 100 * 4 * (1 + 30 / 10))
    assert costs["c"] == pytest.approx(2 * costs["a"])
    assert forest.refits and not mlp.refits
    assert costs["b"] == pytest.approx((forest.each + 64 * forest.per_value) * 1e-6 * (100 + 3 * 7))


def test_large_models_cost_more():
    settings = changed(Settings(), {"agents.count": 2, "models": ["resnet20", "linear"]})
    costs = expected_costs(settings, {"a": 100, "b": 100}, 3072)
    assert costs["a"] > 100 * costs["b"]


def test_small_work_stays_in_one_process_and_long_work_is_spread():
    assert team_sizes([SMALL], 8, asked=False) == [1]
    assert team_sizes([LONG], 8, asked=False) == [8]
    assert team_sizes([LONG], 64, asked=False) == [10], "not more workers than agents"
    assert PAYS_OFF >= 10


def test_training_alone_is_shorter_work_than_training_together():
    """Without the shared pass every worker gets less to do, so that fewer pay off."""
    middle = changed(LONG, {"data.limit": 1000, "rounds": 6, "warmup": 1, "epochs": 1})
    sizes = [team_sizes([middle.with_method(name)], 64, asked=False) for name in ("paper", "alone", "fedavg")]
    assert sizes[0] > sizes[1] == sizes[2]
    warm = changed(middle, {"warmup": 6})
    assert team_sizes([warm], 64, asked=False) == sizes[1]


def test_who_asks_for_workers_gets_them():
    assert team_sizes([SMALL], 4, asked=True) == [4]
    assert team_sizes([SMALL, SMALL.with_method("alone")], 5, asked=True) == [3, 2]
    assert team_sizes([SMALL, SMALL], 2, asked=True) == [1, 1]
    assert team_sizes([SMALL] * 3, 2, asked=True) == [1, 1, 1], "a remainder is spread only where that pays off"


def test_many_runs_go_side_by_side_and_the_remainder_is_spread():
    assert team_sizes([LONG] * 6, 3, asked=True) == [1] * 6
    assert team_sizes([LONG] * 8, 3, asked=False) == [2, 1, 1, 1, 1, 1, 1, 1]
    assert team_sizes([], 3, asked=False) == []
