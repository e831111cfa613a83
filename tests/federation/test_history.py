"""The checker of histories sees each thing that must never happen."""

from copy import deepcopy
from typing import Any

import pytest

pytest.importorskip("zenoh", reason="needs consilience[peers]")

from tests.federation.history import history_problems
from tests.federation.peers.conftest import federation_of


def good() -> dict[str, list[dict[str, Any]]]:
    """Three honest sites of four; d is not honest."""
    return {
        name: [
            {"event": "start"},
            *(
                one
                for number in (2, 3)
                for one in (
                    {"event": "sent", "round": number, "hash": f"{name}{number}"},
                    {
                        "event": "round",
                        "round": number,
                        "heard": {peer: f"{peer}{number}" for peer in "abcd" if peer != name},
                    },
                )
            ),
        ]
        for name in "abc"
    }


def test_a_good_history_has_no_problems_also_after_a_restart() -> None:
    history = good()
    assert history_problems(history, federation_of()) == []
    history["a"] += [{"event": "start"}, *history["a"][-2:]]
    assert history_problems(history, federation_of()) == []


@pytest.mark.parametrize(
    ("spoil", "output"),
    [
        (lambda h: h["a"][2]["heard"].update(d="other"), "2 different frames of d were used for round 2"),
        (lambda h: h["a"][2]["heard"].update(b="other"), "a used something for round 2 that b did not send"),
        (lambda h: h["b"].append({"event": "sent", "round": 2, "hash": "x"}), "b signed round 2 twice"),
        (lambda h: [h["c"][4]["heard"].pop(peer) for peer in "ab"], "c closed round 3 with 2 agents; 3 are a quorum"),
        (lambda h: h["a"].append(h["a"][2]), "a closed round 2 after round 3"),
        (lambda h: h["a"].append(h["a"][4]), "a closed round 3 after round 3"),
        (lambda h: h["a"].append({"event": "sent", "round": 9, "hash": "x"}), "round 9 was begun, and nobody honest"),
        (lambda h: h["a"].append({"event": "excluded", "agent": "b"}), "b, which is honest, was excluded"),
    ],
)
def test_each_thing_that_must_never_happen_is_seen(spoil: Any, output: str) -> None:
    history = deepcopy(good())
    spoil(history)
    assert any(one.startswith(output) for one in history_problems(history, federation_of()))


def test_who_was_caught_telling_two_stories_is_no_problem() -> None:
    history = good()
    history["a"][2]["heard"]["d"] = "other"
    history["b"].append({"event": "excluded", "agent": "d"})
    assert history_problems(history, federation_of()) == []
