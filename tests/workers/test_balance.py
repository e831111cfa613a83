"""Work is spread evenly, and only where that pays off."""

from itertools import chain

import numpy as np
from consilience.experiments.settings import Settings, read_settings
from consilience.experiments.spread import expected_costs, spread, team_sizes
from hypothesis import given
from hypothesis import strategies as st

LONG = Settings(dataset="cifar10", models=("resnet20",))


@given(costs=st.lists(st.floats(0.01, 100), min_size=1, max_size=12), workers=st.integers(1, 6))
def test_everyone_has_one_worker_and_none_has_more_than_its_share_and_one_agent(costs, workers):
    """Longest first: the fullest worker exceeds the mean by less than its cheapest agent."""
    names = [str(number) for number in range(len(costs))]
    by_name = dict(zip(names, costs, strict=True))
    held = spread(by_name, workers)
    assert sorted(chain(*held)) == sorted(names)
    assert len(held) == min(workers, len(names)) and all(held)
    assert held[0][0] == "0"
    loads = [sum(by_name[name] for name in part) for part in held]
    fullest = held[int(np.argmax(loads))]
    assert max(loads) <= np.mean(loads) + min(by_name[name] for name in fullest) + 1e-9


def test_costs_follow_samples_and_models():
    settings = Settings(agents=4, models=("resnet20", "linear"))
    costs = expected_costs(settings, {"a": 100, "b": 100, "c": 200, "d": 100}, 3072)
    assert costs["c"] == 2 * costs["a"]
    assert costs["a"] > 100 * costs["b"]


def test_small_work_stays_in_one_process_and_long_work_is_spread():
    small = read_settings("digits", {})
    assert team_sizes([(small, "dynamic")], 8, asked=False) == [1]
    assert team_sizes([(LONG, "dynamic")], 8, asked=False) == [8]
    assert team_sizes([(LONG, "dynamic")], 64, asked=False) == [10], "not more workers than agents"


def test_who_asks_for_workers_gets_them():
    small = read_settings("digits", {})
    assert team_sizes([(small, "dynamic")], 4, asked=True) == [4]
    assert team_sizes([(small, "dynamic"), (small, "alone")], 5, asked=True) == [3, 2]


def test_many_runs_go_side_by_side_and_the_remainder_is_spread():
    assert team_sizes([(LONG, "dynamic")] * 6, 3, asked=True) == [1] * 6
    assert team_sizes([(LONG, "dynamic")] * 8, 3, asked=False) == [2, 1, 1, 1, 1, 1, 1, 1]
    assert team_sizes([], 3, asked=False) == []
