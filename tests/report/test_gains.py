"""Gains against equal training alone, their intervals, and what the first lines of a report say."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import consilience as cs
from consilience.cli.runs import _print_run
from consilience.core.bootstrap import interval
from consilience.report.gains import gain_table, gains, mean_gain, measures, verdicts
from consilience.report.page import page_data
from consilience.report.tables import run_grid, scores_grid, site_grid
from consilience.runtime.history import BEHIND
from consilience.runtime.run import Run
from tests.report.test_page import make_run, one_site

SAMPLES, DRAWS = 100, 400


def scored(run: Run, right: dict[str, float]) -> Run:
    """The run with these scores at its end, and draws that vary as those of so many samples would."""
    metrics, draw = run.metrics.copy(), np.random.default_rng(int(100 * sum(right.values())))
    common = np.random.default_rng(0).normal(0, 0.04, DRAWS)
    for name, value in right.items():
        metrics.loc[(metrics["agent"] == name) & (metrics["round"] == 7), "accuracy_target"] = value
    draws = np.stack([value + common + draw.normal(0, 0.01, DRAWS) for value in right.values()])
    return replace(run, metrics=metrics, draws={"accuracy_target": draws.astype(np.float32)})


ALONE = {"a": 0.5, "b": 0.5, "c": 0.5, "d": 0.5}
TOGETHER = {"a": 0.7, "b": 0.6, "c": 0.5011, "d": 0.4}
TARGET = next(one for one in measures(make_run()) if one.column == "accuracy_target")


@pytest.fixture
def run() -> Run:
    alone = scored(make_run(collaborates=False), ALONE)
    return replace(scored(make_run(), TOGETHER), references={"alone": alone})


def test_the_interval_is_that_of_paired_differences(run):
    found = gains(run, TARGET)
    assert found["a"].gain == pytest.approx(0.2)
    assert found["a"].high - found["a"].low < 0.07, "what both runs share falls out: unpaired it would be 0.2"
    assert [gain.verdict for gain in found.values()] == ["better", "better", "unclear", "worse"]
    mean = mean_gain(run, TARGET)
    assert mean.gain == pytest.approx((0.2 + 0.0011 - 0.1) / 3), "agent b has shifted labels"
    assert mean.low < mean.gain < mean.high


def counted(run: Run, name: str, behind: float) -> Run:
    """The run, with so many test samples behind one agent's score."""
    column = np.full((4, 1), np.nan, np.float32)
    column[list("abcd").index(name)] = behind
    alone = replace(run.references["alone"], draws=run.references["alone"].draws | {f"{BEHIND}accuracy_target": column})
    return replace(run, draws=run.draws | {f"{BEHIND}accuracy_target": column}, references={"alone": alone})


def test_an_interval_of_few_samples_is_wider_and_those_of_others_stay_to_the_bit(run):
    before, few = gains(run, TARGET), gains(counted(run, "c", 12), TARGET)
    assert {name: few[name] for name in "abd"} == {name: before[name] for name in "abd"}
    assert few["c"].gain == before["c"].gain
    assert few["c"].low < -0.15 < 0.15 < few["c"].high
    plain = run.draws["accuracy_target"][0].astype(float) - run.references["alone"].draws["accuracy_target"][0]
    assert (before["a"].low, before["a"].high) == interval(plain)
    assert mean_gain(counted(run, "c", 12), TARGET).low < mean_gain(run, TARGET).low


def test_a_sentence_says_whose_intervals_come_from_few_samples(run, capsys):
    sentence = "Some intervals come from fewer than 40 test samples and are rough: agent c (at least 12)."
    few = counted(run, "c", 12)
    assert sentence not in verdicts(run)
    assert verdicts(few) == page_data(few)["verdicts"] == [*verdicts(few)[:-1], sentence]
    _print_run(few)
    assert sentence in " ".join(capsys.readouterr().out.split())
    losses = {"log_loss_own": np.ones((4, 3), np.float32), f"{BEHIND}log_loss_own": np.full((4, 1), 39.0)}
    metrics = run.metrics.assign(log_loss_own=0.5)
    of_loss = replace(run, metrics=metrics, draws=run.draws | losses)
    assert verdicts(of_loss)[-1].endswith("Those of the log loss hold the truth in about 91 % of cases, not in 95 %.")


def test_agents_that_are_right_on_the_same_few_samples_are_not_known_to_be_equal():
    """Twelve test samples, all told by both: the interval used to be 0 to 0."""
    y = np.arange(60) % 3
    x = np.eye(3, dtype=np.float32)[y] + np.random.default_rng(0).normal(0, 0.1, (60, 3)).astype(np.float32)
    agents = [cs.SklearnAgent(LogisticRegression(), x[k::2], y[k::2], f"{k}") for k in range(2)]
    result = cs.collaborate(agents, x, method=cs.Consensus(warmup=1), rounds=2, target=(x[:12], y[:12]))
    table = result.gains.set_index(["agent", "score"])
    assert (table.loc[("0", "accuracy"), ["gain"]] == 0).all()
    assert table.loc[("0", "accuracy"), "low"] == pytest.approx(-0.2, abs=0.08)
    assert table.loc[("0", "accuracy"), "high"] == pytest.approx(0.2, abs=0.08)
    many = cs.collaborate(agents, x, method=cs.Consensus(warmup=1), rounds=2, target=(x, y)).gains
    assert (many[many["score"] == "accuracy"][["low", "high"]] == 0).all(axis=None)


def test_the_first_lines_name_those_whom_it_did_not_help(run):
    first, harm, unclear = verdicts(run)
    assert first.startswith("Collaborating helped 2 of 4 agents: against equal training alone")
    assert harm == "It did harm to agent d (-0.100)."
    assert unclear == "That it helps is not shown for agent c (+0.001)."
    assert page_data(run)["verdicts"] == [first, harm, unclear]


def test_where_nobody_is_helped_the_first_line_says_so(run):
    alone = run.references["alone"]
    nobody, gains_of = verdicts(replace(run, metrics=alone.metrics, draws=alone.draws))
    assert nobody.startswith("Collaborating is not shown to help any of 4 agents: against equal training alone, no")
    assert gains_of == "The gains: agents a (0.000), b (0.000), c (0.000) and d (0.000)."


def test_a_site_reads_of_itself_alone(run):
    alone = run.references["alone"]
    own = alone.metrics[alone.metrics["agent"] == "d"]
    alone = replace(alone, metrics=own, draws={"accuracy_target": alone.draws["accuracy_target"][3:]})
    site = one_site(run, "d")
    site = replace(site, draws={"accuracy_target": site.draws["accuracy_target"][3:]}, references={"alone": alone})
    target, *_ = verdicts(site)
    assert target.startswith("Collaborating did harm: accuracy on the target domain -0.100 (95 % interval -0.1")
    grid = site_grid({"d": site})
    assert [row[:2] for row in grid.rows] == [("d", "own"), ("", "target")]
    assert grid.rows[1][2:5] == ("0.500", "0.400", "-0.100")
    assert grid.title == "Accuracy after equal training alone, and together"
    values = replace(site, summary=replace(site.summary, task="regression"))
    assert site_grid({"d": values}).title.startswith("Error (RMSE) after equal training alone")
    assert "received" not in str(page_data(site)["title"])


def test_screen_and_page_show_the_same_digits(run):
    page = next(one for one in page_data(run)["measures"] if one["column"] == "accuracy_target")["texts"]
    rows = run_grid(run).rows
    assert [row[4:8] for row in rows] == list(
        zip(page["alone"], page["together"], page["gain"], page["interval"], strict=True)
    )
    assert scores_grid(run).rows[0][:4] == ("accuracy", "0.500", "0.534", "+0.034")


def test_no_gain_without_equal_training_alone(run):
    without = replace(run, references={})
    assert verdicts(without) == []
    assert "gain" not in run_grid(without).headings
    assert scores_grid(without) is None
    assert gain_table(without)["gain"].isna().all()


def test_the_table_of_gains_has_a_row_for_agent_score_and_place(run):
    table = gain_table(run).set_index(["agent", "score", "place"])
    assert len(table) == 4 * 2 * 3
    assert table.loc[("d", "accuracy", "target"), "gain"] == pytest.approx(-0.1)
    assert np.isnan(table.loc[("d", "accuracy", "own"), "low"]), "no draws, no interval"
