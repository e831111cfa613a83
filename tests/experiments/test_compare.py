"""Comparisons: intervals are right, and finished runs are not run again."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from consilience import ConsilienceError, load_run
from consilience.experiments.axes import parse_seeds
from consilience.experiments.compare import Comparison, compare, estimate, summarise
from consilience.experiments.run import run_experiment
from consilience.runtime.callbacks import Finished
from consilience.settings.presets import read_settings
from consilience.settings.settings import changed
from consilience.tasks import task_named
from tests.conftest import Hears

SMALL = {"rounds": 3, "warmup": 1, "models": ["logistic"], "agents.count": 3, "low_quality": []}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("4-0", "seeds 4-0: the range 4-0 is empty. Write 0-4."),
        ("1,9-7", "seeds 1,9-7: the range 9-7 is empty. Write 7-9."),
        ("0-99999999999", "seeds 0-99999999999: the range has more than 10000 numbers. Write a shorter one."),
    ],
)
def test_a_range_that_cannot_be_meant_is_refused_with_a_sentence(text, sentence):
    with pytest.raises(ConsilienceError) as error:
        parse_seeds(text)
    assert str(error.value) == sentence


def test_the_interval_is_that_of_a_paired_t_test():
    a, b = np.random.default_rng(0).normal(0.8, 0.1, 6), np.random.default_rng(1).normal(0.7, 0.1, 6)
    interval = stats.ttest_rel(a, b).confidence_interval(0.95)
    found = estimate(a - b)
    assert (found.mean - found.half_width, found.mean + found.half_width) == pytest.approx(tuple(interval))


def test_one_seed_has_no_interval():
    assert np.isnan(estimate([0.5]).half_width)


def comparison(
    scores: dict[str, list[list[float]]], column: str = "accuracy_target", task: str = "classification"
) -> Comparison:
    rows = [
        {"method": method, "seed": seed, "agent": str(i), column: value, "low_quality": i == 2, "attacker": False}
        for method, seeds in scores.items()
        for seed, agents in enumerate(seeds)
        for i, value in enumerate(agents)
    ]
    return Comparison(pd.DataFrame(rows), task_named(task).scores, {name: name.upper() for name in scores})


def test_summary_leaves_out_low_quality_agents_and_pairs_by_seed():
    lines = summarise(
        comparison({"paper": [[0.9, 0.7, 0.0], [0.8, 0.6, 0.0]], "alone": [[0.6, 0.4, 0], [0.7, 0.5, 0]]})
    )
    assert [(line.method, line.title) for line in lines] == [("paper", "PAPER"), ("alone", "ALONE")]
    assert lines[0].score.mean == pytest.approx(0.75)
    assert lines[0].worst == pytest.approx(0.65)
    assert lines[0].gain.mean == pytest.approx(0.2)
    assert lines[1].lead.mean == pytest.approx(-0.2)
    assert np.isnan(lines[1].gain.mean)


def test_for_errors_less_is_better():
    lines = summarise(comparison({"paper": [[1.0, 2.0, 9]], "alone": [[3.0, 4.0, 9]]}, "rmse_target", "regression"))
    assert lines[0].gain.mean == pytest.approx(2.0)
    assert lines[0].worst == pytest.approx(2.0)


def test_methods_run_on_identical_splits_and_only_once(tmp_path):
    settings = read_settings("digits", SMALL)
    noted: list[tuple[str, int, int]] = []
    methods = ["naive", "alone"]

    def note(run, event):
        if isinstance(event, Finished):
            noted.append((run.name, run.settings["run.seed"], event.number))

    first = compare(settings, methods, [0, 1], tmp_path, 1, [Hears(note)])
    assert noted == [(f"{m}, seed {s}", s, t) for s in (0, 1) for m in methods for t in (1, 2, 3)]
    again = compare(settings, methods, [0, 1], tmp_path, 2, [Hears(lambda *_: pytest.fail("ran again"))])
    pd.testing.assert_frame_equal(first.table, again.table)
    more = compare(settings, [*methods, "static"], [0, 1], tmp_path)
    assert set(more.table["method"]) == {"naive", "alone", "static"}


def test_both_domains_are_those_of_the_same_run_by_itself(tmp_path):
    shifted = {"concept_shift": [0, 1], "rounds": 2, "warmup": 1, "agents.count": 3, "limit": 40}
    settings = read_settings("digits-mlp", shifted | {"references": ["alone"]})
    compared = compare(settings, ["consensus", "alone"], [0], tmp_path / "compare", 1)
    run = run_experiment(settings, tmp_path / "run", 1)
    line, alone = summarise(compared)
    last, other = run.last_round(), run.references["alone"].last_round()
    assert (line.elsewhere, alone.elsewhere) == (last["accuracy_own"].mean(), other["accuracy_own"].mean())
    assert line.home == run.home.metrics["accuracy_own"].mean() and np.isnan(alone.home)
    assert summarise(compared, "accuracy_own")[0].elsewhere == last["accuracy_target"].mean()
    straight = compare(changed(settings, {"concept_shift": []}), ["consensus", "alone"], [0], tmp_path / "straight", 1)
    assert summarise(straight)[1].elsewhere != alone.elsewhere, "agents with concept shift have another truth"


def test_other_settings_in_the_same_folder_are_refused(tmp_path):
    compare(read_settings("digits", SMALL), ["alone"], [0], tmp_path)
    other = read_settings("digits", SMALL | {"lr": 0.9})
    (tmp_path / "seed-0" / "alone" / "summary.json").unlink()
    with pytest.raises(ConsilienceError, match=r"other settings: training.lr was 0.005, now 0.9"):
        compare(other, ["alone"], [0], tmp_path)


def test_unknown_score_names_the_known():
    with pytest.raises(ConsilienceError, match="Known here: accuracy_shared, accuracy_target, accuracy_own, balanced"):
        summarise(comparison({"paper": [[1, 1, 1]]}), "f1")


@pytest.mark.parametrize("text", ["", "a", "3-", "-3"])
def test_wrong_seeds_are_refused(text):
    with pytest.raises(ConsilienceError, match="seeds"):
        parse_seeds(text)


def test_at_equal_compute_cheaper_methods_go_on_for_as_many_rounds_as_fit(tmp_path):
    settings = read_settings(
        "digits-mlp", {"agents.count": 3, "limit": 40, "shared_per_agent": 10, "rounds": 4, "warmup": 1, "epochs": 2}
    )
    methods = ["naive", "alone", "fedavg(warmup=1)"]
    found = compare(settings, methods, [0, 1], tmp_path, 1, equal_compute=True)
    spent = found.table.groupby(["seed", "method"])["samples_trained_in_all"].sum()
    rounds = found.table.groupby(["seed", "method"])["round"].max()
    for seed in (0, 1):
        budget, one = spent[seed, "naive"], spent[seed, "alone"] / rounds[seed, "alone"]
        assert rounds[seed, "naive"] == 4
        for method in methods[1:]:
            assert rounds[seed, method] > 4
            assert budget - one < spent[seed, method] <= budget
    again = compare(settings, methods, [0, 1], tmp_path, 1, [Hears(lambda *_: pytest.fail("ran"))], equal_compute=True)
    pd.testing.assert_frame_equal(found.table, again.table)
    longer = load_run(tmp_path / "seed-1" / "alone").metrics
    at_once = compare(changed(settings, {"rounds": int(rounds[1, "alone"])}), ["alone"], [1], tmp_path / "at-once", 1)
    last = longer[longer["round"] == rounds[1, "alone"]]
    np.testing.assert_array_equal(last["accuracy_target"], at_once.table["accuracy_target"])
    lines = {line.method: line for line in summarise(found)}
    assert lines["naive"].trained == pytest.approx(np.mean([spent[s, "naive"] for s in (0, 1)]))
    assert lines["naive"].forward > 0 and lines["alone"].forward == 0


def test_methods_with_the_same_title_are_called_as_they_were_asked_for(tmp_path):
    settings = read_settings("digits-mlp", {"agents.count": 2, "limit": 30, "shared_per_agent": 10, "rounds": 1})
    methods = ["fedavg", "fedavg(warmup=1)", "alone"]
    titles = compare(settings, methods, [0], tmp_path, 1).titles
    assert titles == {"fedavg": "fedavg", "fedavg(warmup=1)": "fedavg(warmup=1)", "alone": "alone"}
