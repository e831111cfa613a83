"""A run in one process, and its exchange."""

import numpy as np
import pytest

from consilience import Wire
from consilience.extend import InMemory
from consilience.runtime.group import OneProcess

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "b": np.ones((2, 3))}


def test_a_single_process_knows_everything_and_changes_nothing():
    group = OneProcess()
    assert group.first
    assert group.to_first(ARRAYS) is ARRAYS
    assert group.from_first(ARRAYS) is ARRAYS
    done, scores = object(), {"a": {"accuracy_target": 0.5}}
    assert group.complete(done, scores) == (done, scores)


@pytest.mark.parametrize(("wire", "each"), [(None, 24), (Wire("float16"), 12), (Wire("top-k", 1), 6)])
def test_everyone_hears_everyone_and_bytes_are_counted_for_every_peer(wire, each):
    """Three agents, of which two live here: each sends to two peers."""
    answer = InMemory(("a", "b", "c"), wire).gather(1, ARRAYS)
    assert answer.predictions is not ARRAYS
    for name, f in ARRAYS.items():
        np.testing.assert_array_equal(answer.predictions[name], (wire or Wire()).rounded(f))
    assert answer.sent == {"a": 2 * each, "b": 2 * each}
    assert answer.number == 0


def test_arrays_are_shared_in_the_order_of_the_roster():
    exchange = InMemory(("c", "b", "a"))
    assert list(exchange.share({"a": {}, "b": {}})) == ["b", "a"]
    weights = {"w": np.ones(2)}
    assert exchange.share({"a": weights})["a"] is weights
