"""Every recorded number against plain loops: each column of metrics.parquet, and the trust matrices."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from consilience.core.bootstrap import DRAWS, interval
from consilience.extend import InMemory, Losses, Record, Round
from consilience.runtime.callbacks import Event, Finished
from consilience.runtime.driver import run_rounds
from consilience.runtime.history import BEHIND, PLACES, Evaluation, History
from consilience.tasks import task_named
from consilience.tasks.protocol import Score
from tests.runtime.known import (
    NAMES,
    OWN,
    ROUNDS,
    SHARED,
    TARGET,
    TASKS,
    Known,
    Script,
    bytes_of,
    disagreements_by_hand,
    evaluation_of,
    labels,
    losses_of,
    scores_by_hand,
    summary_of,
    trust_of,
)

REST = ["loss_local", "loss_disagreement", "disagreement", "disagreement_all", "bytes_sent"]
REST += ["samples_trained", "samples_forward"]


@pytest.fixture(params=TASKS)
def task(request):
    return request.param


def recorded(task: str, evaluation: Evaluation | None = None, told: list | None = None) -> pd.DataFrame:
    """The metrics of a scripted run."""

    def emit(event: Event) -> None:
        if told is not None and isinstance(event, Finished):
            told.append((event.number, event.means))

    agents = [Known(name, task) for name in reversed(NAMES)]
    return run_rounds(agents, SHARED, InMemory(NAMES), Script(), summary_of(task), evaluation, emit=emit).metrics


def test_every_score_at_every_place_of_every_agent_in_every_round(task):
    metrics, y = recorded(task, evaluation_of(task)), labels(task)
    assert len(metrics) == ROUNDS * len(NAMES)
    for row, (t, name) in enumerate((t, name) for t in range(1, ROUNDS + 1) for name in NAMES):
        table = Known(name, task).tables[t]
        for place, x in {"shared": SHARED, "target": TARGET, "own": OWN[name]}.items():
            expected = scores_by_hand(task, table[x[:, 0]], y[x[:, 0]])
            assert list(expected) == [score.name for score in task_named(task).scores]
            for score, value in expected.items():
                found = metrics[f"{score}_{place}"][row]
                assert found == pytest.approx(value, rel=1e-5, abs=1e-6, nan_ok=True), (t, name, score, place)


def test_rounds_agents_losses_and_bytes(task):
    metrics = recorded(task)
    for row, (t, name) in enumerate((t, name) for t in range(1, ROUNDS + 1) for name in NAMES):
        losses = losses_of(name, t)
        assert (metrics["round"][row], metrics["agent"][row]) == (t, name)
        assert metrics["loss_local"][row] == losses.local
        np.testing.assert_array_equal(metrics["loss_disagreement"][row], losses.disagreement)
        assert metrics["bytes_sent"][row] == bytes_of(name, t)


def test_disagreement_of_each_agent_and_of_all(task):
    metrics = recorded(task)
    for t in range(1, ROUNDS + 1):
        own, largest = disagreements_by_hand([Known(name, task).tables[t][SHARED[:, 0]] for name in NAMES])
        rows = metrics[metrics["round"] == t]
        np.testing.assert_allclose(rows["disagreement"], own, rtol=1e-5)
        np.testing.assert_allclose(rows["disagreement_all"], [largest] * 3, rtol=1e-5)


def test_columns_their_order_and_their_types(task):
    metrics = recorded(task, evaluation_of(task))
    scores = [f"{score.name}_{place}" for place in ("shared", "target", "own") for score in task_named(task).scores]
    assert PLACES == ("shared", "target", "own")
    assert list(metrics.columns) == ["round", "agent", *scores, *REST]
    assert {str(metrics[key].dtype) for key in ("round", *REST[-3:])} == {"int64"}
    assert all(isinstance(name, str) for name in metrics["agent"])
    floats = [key for key in metrics.columns if key not in ("round", "agent", *REST[-3:])]
    assert {str(metrics[key].dtype) for key in floats} == {"float64"}


def test_the_means_that_are_told_are_those_over_agents(task):
    told: list[tuple[int, dict[str, float]]] = []
    metrics = recorded(task, evaluation_of(task), told)
    assert [number for number, _ in told] == [1, 2, 3]
    for number, means in told:
        rows = metrics[metrics["round"] == number]
        assert means.keys() == set(metrics.columns)
        for key in means.keys() - {"agent"}:
            values = rows[key].tolist()
            np.testing.assert_allclose(means[key], sum(values) / len(values), rtol=1e-12)


@pytest.mark.parametrize("known", PLACES)
def test_where_no_labels_are_known_there_is_no_score(task, known):
    whole = evaluation_of(task)
    part = {
        "shared": Evaluation(shared_y=whole.shared_y),
        "target": Evaluation(target=whole.target),
        "own": Evaluation(own={"b": whole.own["b"], "c": (whole.own["c"][0][:0], whole.own["c"][1][:0])}),
    }[known]
    metrics, full = recorded(task, part), recorded(task, whole)
    for place in PLACES:
        for score in task_named(task).scores:
            column = f"{score.name}_{place}"
            expected = full[column].where((full["agent"] == "b") | (known != "own"))
            if place != known:
                expected[:] = np.nan
            np.testing.assert_array_equal(metrics[column], expected, err_msg=column)


def test_scores_are_of_published_predictions_on_shared_data_and_of_own_elsewhere():
    """A lying or a rounded agent is measured by what it said where that is what peers use."""
    agent, said = Known("a"), np.tile([0.0, 0.0, 1.0], (len(SHARED), 1))
    scores = evaluation_of("classification").scores(agent, said)
    y = labels("classification")
    assert scores["accuracy_shared"] == pytest.approx((y[SHARED[:, 0]] == 2).mean())
    expected = scores_by_hand("classification", agent.tables[0][TARGET[:, 0]], y[TARGET[:, 0]])
    assert scores["accuracy_target"] == pytest.approx(expected["accuracy"])


def test_trust_matrices_and_their_rounds():
    agents = [Known(name) for name in NAMES]
    run = run_rounds(agents, SHARED, InMemory(NAMES), Script(), summary_of("classification"))
    assert run.trust_rounds.tolist() == [2, 3]
    assert run.trust_rounds.dtype == np.int64
    np.testing.assert_array_equal(run.trust, np.stack([trust_of(2), trust_of(3)]))


def test_without_trust_there_are_no_matrices():
    history = History(NAMES)
    trust, rounds = history.trust()
    assert trust.shape == (0, 0, 0)
    assert (rounds.shape, rounds.dtype) == ((0,), np.int64)


def a_round(number: int, names=NAMES, received=None, trust=None) -> Round:
    predictions = {name: Known(name).tables[number][SHARED[:, 0]] for name in names}
    losses = {name: Losses(float(number), 0.5, 100 * number, 7) for name in names}
    return Round(number, Record(predictions, losses, dict.fromkeys(names, 4), (), received or {}, trust))


def no_scores(names=NAMES) -> dict[str, dict[str, float]]:
    return {name: {"precision_at_0.5_target": 0.5} for name in names}


def test_what_was_saved_is_taken_up_and_goes_on():
    whole, first, rest = History(NAMES), History(NAMES), History(NAMES)
    for number in (1, 2, 3):
        whole.add(a_round(number, trust=trust_of(number)), no_scores())
    for number in (1, 2):
        first.add(a_round(number, trust=trust_of(number)), no_scores())
    saved = first.arrays()
    assert all(isinstance(value, np.ndarray) for value in saved.values())
    rest.restore(saved)
    pd.testing.assert_frame_equal(rest.frame(), first.frame(), check_exact=True)
    means = rest.add(a_round(3, trust=trust_of(3)), no_scores())
    assert means["round"] == 3.0
    pd.testing.assert_frame_equal(rest.frame(), whole.frame(), check_exact=True)
    for one, other in zip(rest.trust(), whole.trust(), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def test_a_history_without_trust_is_taken_up_without_trust():
    first, rest = History(NAMES), History(NAMES)
    first.add(a_round(1), no_scores())
    rest.restore(first.arrays())
    assert rest.trust()[0].shape == (0, 0, 0)
    rest.add(a_round(2, trust=trust_of(2)), no_scores())
    np.testing.assert_array_equal(rest.trust()[0], [trust_of(2)])
    assert rest.trust()[1].tolist() == [2]


# At a site: what the others predict after a round is known from the exchange of the next one.


def heard(number: int, names: str) -> dict[str, np.ndarray]:
    """What these agents said at the start of round `number`, which is what they predicted after the one before."""
    return {name: Known(name).tables[number - 1][SHARED[:, 0]] for name in names}


def disagreement_at(number: int, names: str, of: str) -> tuple[float, float]:
    own, largest = disagreements_by_hand(list(heard(number, names).values()))
    return own[names.index(of)], largest


@pytest.mark.parametrize("names", ["bac", "abc", "cb"])
def test_at_a_site_the_disagreement_after_a_round_comes_with_the_next_exchange(names):
    """In whatever order the others were heard."""
    history = History(("b",), everyone=False)
    for number in (1, 2, 3):
        means = history.add(a_round(number, ("b",), heard(number, names)), no_scores(("b",)))
        assert np.isnan(means["disagreement"]) and np.isnan(means["disagreement_all"])
    frame = history.frame()
    for row, number in enumerate((2, 3)):
        own, largest = disagreement_at(number, names, "b")
        assert frame["disagreement"][row] == pytest.approx(own, rel=1e-5)
        assert frame["disagreement_all"][row] == pytest.approx(largest, rel=1e-5)
    assert np.isnan(frame["disagreement"][2]) and np.isnan(frame["disagreement_all"][2])


def test_nothing_is_filled_in_without_an_exchange_or_across_missed_rounds():
    history = History(("b",), everyone=False)
    history.add(a_round(1, ("b",)), no_scores(("b",)))
    history.add(a_round(2, ("b",)), no_scores(("b",)))
    history.add(a_round(3, ("b",), heard(3, "ac")), no_scores(("b",)))
    assert history.frame()["disagreement"].isna().all(), "nothing was heard, then the site itself was not"
    history = History(("b",), everyone=False)
    history.add(a_round(1, ("b",)), no_scores(("b",)))
    history.add(a_round(3, ("b",), heard(3, "abc")), no_scores(("b",)))
    assert history.frame()["disagreement_all"].isna().all(), "what was heard in round 3 is not from after round 1"


def test_a_process_with_some_of_the_agents_fills_in_those_that_were_heard():
    history = History(("a", "c"), everyone=False)
    history.add(a_round(1, ("a", "c")), no_scores(("a", "c")))
    history.add(a_round(2, ("a", "c"), heard(2, "cb")), no_scores(("a", "c")))
    history.add(a_round(3, ("a", "c"), heard(3, "bca")), no_scores(("a", "c")))
    frame = history.frame()
    expected = [np.nan, disagreement_at(2, "cb", "c")[0]]
    expected += [disagreement_at(3, "bca", "a")[0], disagreement_at(3, "bca", "c")[0], np.nan, np.nan]
    np.testing.assert_allclose(frame["disagreement"], expected, rtol=1e-5)
    largest = [np.nan, disagreement_at(2, "cb", "c")[1], *[disagreement_at(3, "bca", "a")[1]] * 2, np.nan, np.nan]
    np.testing.assert_allclose(frame["disagreement_all"], largest, rtol=1e-5)


def test_with_everyone_here_nothing_is_filled_in_afterwards():
    history = History(NAMES)
    history.add(a_round(1), no_scores())
    before = history.frame()
    history.add(a_round(2, received=heard(3, "abc")), no_scores())
    pd.testing.assert_frame_equal(history.frame().head(3), before, check_exact=True)


@pytest.mark.parametrize(("here", "known"), [("b", False), ("abc", True)])
def test_a_run_records_disagreement_at_once_only_where_everyone_is_recorded(here, known):
    agents = [Known(name) for name in here]
    run = run_rounds(agents, SHARED, InMemory(NAMES), Script(), summary_of("classification"))
    assert run.metrics["disagreement"].notna().all() == known
    assert set(run.metrics["agent"]) == set(here)


def test_resamples_of_the_same_samples_are_the_same_for_all(task):
    evaluation = evaluation_of(task)
    first, again, other = Known(NAMES[0], task), Known(NAMES[0], task), Known(NAMES[1], task)
    draws = [evaluation.draws(agent, agent.predict(SHARED)) for agent in (first, again, other)]
    scores = evaluation.scores(first, first.predict(SHARED))
    drawn = {column: values for column, values in draws[0].items() if not column.startswith(BEHIND)}
    assert drawn.keys() == {column for column, value in scores.items() if not np.isnan(value)}
    assert all(values.shape == (1,) for column, values in draws[0].items() if column not in drawn)
    for column, values in drawn.items():
        assert values.shape == (DRAWS,)
        np.testing.assert_array_equal(values, draws[1][column])
        low, high = interval(values)
        assert low <= scores[column] <= high or "calibration" in column, column
    assert not np.array_equal(draws[0][next(iter(draws[0]))], draws[2][next(iter(draws[0]))])


def test_a_score_that_is_no_function_of_sums_is_resampled_as_it_is(task):
    name = task_named(task).scores[0].name
    slow = Score("slow", "the first one again", task_named(task).scores[0].measure)
    evaluation = replace(evaluation_of(task), more=(slow,))
    found = evaluation.draws(Known(NAMES[0], task), None)
    np.testing.assert_allclose(found["slow_target"], found[f"{name}_target"], rtol=1e-6)


def test_samples_that_passed_through_the_models_are_counted_by_agent_and_round():
    history = History(NAMES)
    for number in (1, 2):
        history.add(a_round(number), no_scores())
    frame = history.frame()
    assert frame["samples_trained"].tolist() == [100] * 3 + [200] * 3
    assert set(frame["samples_forward"]) == {7}


def test_a_checkpoint_from_before_samples_were_counted_goes_on():
    before, after = History(NAMES), History(NAMES)
    before.add(a_round(1), no_scores())
    after.restore({key: value for key, value in before.arrays().items() if "samples_" not in key})
    after.add(a_round(2), no_scores())
    assert after.frame()["samples_trained"].tolist() == [0] * 3 + [200] * 3
