"""Comparisons of methods x settings x seeds."""

import itertools

import numpy as np
import pandas as pd
import pytest

from consilience import ConsilienceError
from consilience.experiments.axes import Axis, given, parse_axis, plan
from consilience.experiments.compare import Comparison, compare, summarise
from consilience.report.sweep import drawings, grid, write_sweep
from consilience.settings.presets import read_settings
from consilience.tasks import task_named
from tests.conftest import Hears

SMALL = {"agents.count": 2, "models": ["logistic"], "rounds": 2, "warmup": 1, "low_quality": [], "limit": 20}
SMALL |= {"shared_per_agent": 5}
LAM, ALPHA = Axis("lam", (0.1, 1)), Axis("alpha", (0.5, 5))


def made(values: dict[tuple[float, float], list[float]], seeds: int = 4) -> Comparison:
    """A sweep of one method over lam and alpha whose scores are given by seed; agent b always has wrong labels."""
    rows = [
        {"method": "paper", "lam": lam, "alpha": alpha, "seed": seed, "agent": agent, "accuracy_target": value}
        | {"low_quality": agent == "b", "attacker": False}
        for (lam, alpha), scores in values.items()
        for seed, score in enumerate(scores[:seeds])
        for agent, value in {"a": score, "b": 0.0, "c": score - 0.1}.items()
    ]
    axes = [Axis("lam", (0.1, 1)), Axis("alpha", (0.5, 5))]
    scores = task_named("classification").scores
    return Comparison(pd.DataFrame(rows), scores, {"paper": "paper"}, (), axes, frozenset({"alpha"}))


VALUES = {
    (0.1, 0.5): [0.9, 0.8, 0.5, 0.5],
    (0.1, 5): [0.6, 0.6, 0.6, 0.6],
    (1, 0.5): [0.8, 0.8, 0.9, 0.9],
    (1, 5): [0.7, 0.7, 0.8, 0.8],
}


def test_lines_are_means_over_good_agents_and_seeds_in_the_order_of_the_grid():
    lines = summarise(made(VALUES))
    assert [(line.setting["lam"], line.setting["alpha"]) for line in lines] == list(VALUES)
    for line, scores in zip(lines, VALUES.values(), strict=True):
        assert line.score.mean == pytest.approx(np.mean(scores) - 0.05)
        assert line.worst == pytest.approx(np.mean(scores) - 0.1)


def test_a_sweep_runs_all_combinations_once_and_what_does_not_apply_only_once(tmp_path):
    settings = read_settings("digits", SMALL)
    methods, seeds = ["paper", "alone"], [0, 1]
    found = compare(settings, methods, seeds, tmp_path, 1, axes=[LAM, ALPHA])
    runs = found.table[["method", "lam", "alpha", "seed"]].drop_duplicates()
    expected = set(itertools.product(["paper"], LAM.values, ALPHA.values, seeds))
    assert {tuple(row) for row in runs[runs["method"] == "paper"].to_numpy().tolist()} == expected
    alone = runs[runs["method"] == "alone"]
    assert alone["lam"].isna().all(), "agents alone have no lam"
    assert len(alone) == len(ALPHA.values) * len(seeds)
    never = Hears(lambda *_: pytest.fail("ran again"))
    again = compare(settings, methods, seeds, tmp_path, 1, [never], axes=[LAM, ALPHA])
    pd.testing.assert_frame_equal(found.table, again.table)
    same = compare(read_settings("digits", SMALL | {"lam": 0.1, "alpha": 5}), ["paper"], [1], tmp_path / "compare")
    mine = found.table.query("method == 'paper' and lam == 0.1 and alpha == 5 and seed == 1")
    assert mine["accuracy_target"].tolist() == same.table["accuracy_target"].tolist()
    written = write_sweep(found, tmp_path, "digits")
    tidy = pd.read_csv(tmp_path / "sweep.csv")
    assert len(tidy) == len(found.table) == 2 * (4 + 2) * 2
    assert list(tidy.columns[:5]) == ["method", "lam", "alpha", "seed", "agent"]
    assert {path.name for path in written} == {f"sweep.{ending}" for ending in ("csv", "md", "tex", "html", "svg")}
    assert len(grid(found).rows) == 6


def test_gains_are_over_agents_alone_with_the_same_setting_seed_by_seed(tmp_path):
    found = compare(read_settings("digits", SMALL), ["paper", "alone"], [0, 1], tmp_path, 1, axes=[LAM, ALPHA])
    score = found.table.groupby(["method", "alpha", "seed"])["accuracy_target"].mean()
    for line in summarise(found):
        if line.method == "alone":
            assert np.isnan(line.gain.mean)
            continue
        mine = found.table.query(f"method == 'paper' and lam == {line.setting['lam']}")
        own = mine.groupby(["alpha", "seed"])["accuracy_target"].mean()
        by_seed = [own[line.setting["alpha"], seed] - score["alone", line.setting["alpha"], seed] for seed in (0, 1)]
        assert line.gain.mean == pytest.approx(np.mean(by_seed))
    assert grid(found).headings[-1] == "gain over alone" and grid(found).rows[-1][-1] == ""
    assert next(iter(drawings(found))) == "Score against alpha, each with its best lam"


def test_a_privacy_budget_is_an_axis_of_every_method_and_never_chosen():
    axes = [Axis("agents.epsilon", (0, 4)), Axis("rounds", (2, 3))]
    planned = plan(read_settings("digits", SMALL), ["paper", "alone"], [0], axes)
    assert [one.job.settings.agents.privacy.epsilon for one in planned] == [0, 0, 4, 4] * 2
    assert [one.job.settings.run.rounds for one in planned] == [2, 3] * 4
    assert given(read_settings("digits", SMALL), [*axes, LAM, ALPHA]) == {"agents.epsilon", "alpha"}


@pytest.mark.parametrize("text", ["lam", "lam=", "=1", "lam=1,,2", "lam=1,1"])
def test_a_wrong_axis_is_refused(text):
    with pytest.raises(ConsilienceError, match="--grid"):
        parse_axis(text)


def test_an_unknown_setting_is_refused_before_anything_runs():
    with pytest.raises(ConsilienceError, match=r"unknown setting 'lamb'"):
        plan(read_settings("digits", SMALL), ["paper"], [0], [Axis("lamb", (1,))])
