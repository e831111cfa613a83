"""What every task says, and what an agent may publish."""

import numpy as np
import pytest

from consilience import ConsilienceError
from consilience.tasks import TASKS, task_named
from consilience.tasks.protocol import Score, Task, checked_predictions

BUILT_IN = ("classification", "multilabel", "regression")


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_task_is_found_by_its_name_and_has_all_that_the_protocol_asks_for(name):
    task = task_named(name)
    assert task.name == name
    assert task_named(task) is task
    wanted = [*Task.__annotations__, *(n for n in vars(Task) if not n.startswith("_"))]
    assert [n for n in wanted if not hasattr(task, n)] == []


@pytest.mark.parametrize("name", BUILT_IN)
def test_score_names_are_unique_and_titles_are_told(name):
    scores = TASKS.find(name).scores
    assert len({score.name for score in scores}) == len(scores) > 0
    assert all(isinstance(score, Score) and score.title for score in scores)


def test_an_unknown_task_names_the_known_ones():
    with pytest.raises(ConsilienceError, match=r"unknown task 'multilable'. Did you mean 'multilabel'\? Known: class"):
        task_named("multilable")


def check(f, task="classification", samples=3, outputs=2):
    return checked_predictions("b", f, samples, outputs, TASKS.find(task))


def test_good_predictions_come_back_in_single_precision():
    f = np.array([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]])
    got = check(f)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, f.astype(np.float32))
    assert check(got) is got
    assert check(f.tolist()).tolist() == f.tolist()


@pytest.mark.parametrize(
    ("f", "task", "says"),
    [
        (np.ones(3), "classification", r"agent 'b': predictions have shape \(3,\), but there are 3 samples"),
        (np.ones((2, 2)), "classification", r"shape \(2, 2\), but there are 3 samples. Predict every sample once"),
        (np.ones((3, 4)), "classification", "have 4 columns, the others have 2 classes. All agents must predict the"),
        (np.ones((3, 4)), "multilabel", "have 4 columns, the others have 2 labels"),
        (np.ones((3, 4)), "regression", "have 4 columns, the others have 2 outputs"),
        ([[0.5, 0.5], [np.nan, 1], [np.inf, 0]], "classification", r"2 of 3 rows are not finite \(first: row 1\)"),
        ([[1, 2], [3, 4], [np.nan, 1]], "regression", r"1 of 3 rows are not finite \(first: row 2\). Did its training"),
        ([[1, 2], [-np.inf, 4], [3, 1]], "regression", r"1 of 3 rows are not finite \(first: row 1\)"),
        ([[1, 2], [np.inf, 4], [3, 1]], "regression", r"1 of 3 rows are not finite \(first: row 1\)"),
        ([[np.inf, 2], [3, -np.inf], [3, 1]], "regression", r"2 of 3 rows are not finite \(first: row 0\)"),
        (
            [[0.5, 0.5], [3, 0.1], [2, 2]],
            "classification",
            r"agent 'b': 2 of 3 rows are not probabilities \(first: row 1",
        ),
        ([[0.5, 0.9], [3, 0.1], [1, 1]], "multilabel", r"agent 'b': 1 of 3 rows are not probabilities \(first: row 1"),
    ],
)
def test_what_an_agent_may_not_publish_is_described(f, task, says):
    with pytest.raises(ConsilienceError, match=says):
        check(np.asarray(f), task)


@pytest.mark.parametrize(
    ("name", "classes", "named", "count", "of_each"),
    [("classification", True, True, 1, 5), ("multilabel", False, True, 5, 2), ("regression", False, False, 1, 0)],
)
def test_what_methods_and_files_ask_of_a_task(name, classes, named, count, of_each):
    task = task_named(name)
    assert (task.has_classes, task.named_outputs) == (classes, named)
    assert (task.question_count(5), task.question_classes(5)) == (count, of_each)
