"""Private rows that a network is never trained on."""

import numpy as np
import pytest

from consilience.agents.kept_back import keep_back
from consilience.tasks import task_named
from consilience.tasks.protocol import labelled

TASK = task_named("classification")
DATA = labelled("a", TASK, np.arange(10.0)[:, None], np.arange(10) % 2)


def test_every_row_is_either_trained_on_or_kept_back():
    rest, (rows, y) = keep_back(DATA, TASK, 0.3, 0, "a")
    assert len(rows) == len(y) == 3
    assert sorted([*rest.x[:, 0], *rows[:, 0]]) == list(range(10))
    np.testing.assert_array_equal(y, rows[:, 0] % 2)
    assert rest.counts == [int((rest.y == c).sum()) for c in (0, 1)]


def test_which_rows_depends_on_the_agent_and_the_seed_alone():
    kept = [keep_back(DATA, TASK, 0.3, seed, name)[1][0].tolist() for seed, name in ((0, "a"), (0, "a"), (1, "a"))]
    assert kept[0] == kept[1] != kept[2]


@pytest.mark.parametrize(("share", "left"), [(0.0, 10), (0.04, 10), (0.99, 2)])
def test_two_rows_are_left_to_train_on(share, left):
    assert len(keep_back(DATA, TASK, share, 0, "a")[0].y) == left
