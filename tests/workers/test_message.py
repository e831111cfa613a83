"""One agent's part of a round, as it travels to the first worker."""

import numpy as np
import pytest

from consilience.extend import Losses, Memory, Record, Round
from consilience.workers.message import AgentMessage, messages_of, round_of

NAMES = ("a", "b")
SCORES = {"a": {"accuracy": 0.1, "auc": float("nan")}, "b": {"accuracy": 1 / 3, "auc": 0.5}}


def a_round(sparse: bool, by_class: bool) -> Round:
    draw = np.random.default_rng(0)
    record = Record(
        {name: draw.normal(size=(4, 3)).astype(np.float32) for name in NAMES},
        {"a": Losses(0.1, 0.2, 3, 4), "b": Losses(1 / 7, 0.0)},
        {"a": 7, "b": 2**40},
        NAMES,
        trust=draw.normal(size=(2, 2)),
        peers=np.array([[0, 1], [1, 0]]) if sparse else None,
        by_class={"trust": draw.normal(size=(2, 2, 3)), "samples": np.ones(3)} if by_class else {},
    )
    return Round(3, record, Memory({"c": np.ones(1)}, {"b": {"rule/x": np.arange(2)}}))


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("by_class", [True, False])
def test_a_round_comes_back_from_its_messages_to_the_bit(sparse, by_class):
    done = a_round(sparse, by_class)
    sent = messages_of(done, SCORES, NAMES)
    received = {name: AgentMessage.from_arrays(message.arrays()) for name, message in sent.items()}
    back, scores = round_of(done, received)
    np.testing.assert_equal(scores, SCORES)
    np.testing.assert_equal(vars(back.record), vars(done.record))
    np.testing.assert_equal(vars(back.memory), vars(done.memory))
    assert all(type(losses.trained) is int for losses in back.record.losses.values())
