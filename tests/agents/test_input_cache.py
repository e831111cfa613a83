"""Rows are read once for all agents that read them alike."""

import numpy as np

from consilience.agents import networks
from consilience.agents.input_cache import cached_rows, read_once
from consilience.agents.torch_agent import TorchAgent
from tests.agents.test_batched_prediction import ROWS, agents


def test_rows_that_are_kept_are_read_once_for_all_agents() -> None:
    one, two = agents(2)
    with cached_rows([ROWS]):
        first = one.inputs(ROWS)
        assert two.inputs(ROWS) is first
        assert read_once(ROWS, "mine", lambda: 1) == 1
        assert read_once(ROWS, "mine", lambda: 2) == 1
        other = ROWS.copy()
        assert one.inputs(other) is not one.inputs(other)
    assert one.inputs(ROWS) is not first
    assert read_once(ROWS, "mine", lambda: 3) == 3


def test_a_transform_is_applied_once_for_agents_that_share_it() -> None:
    calls = []

    def flipped(rows: np.ndarray) -> np.ndarray:
        calls.append(1)
        return rows[:, :, ::-1]

    x, y = ROWS[:8], np.arange(8) % 4
    one, two = (TorchAgent(networks.mlp((3, 8, 8), 4), x, y, name, transform=flipped) for name in "ab")
    calls.clear()
    with cached_rows([ROWS]):
        assert two.inputs(ROWS) is one.inputs(ROWS)
        assert len(calls) == 1
