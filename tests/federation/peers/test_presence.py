"""The file that says who is there is written when that helps those who watch, and not for each answer of a round."""

from types import SimpleNamespace

from consilience.federation.peers import presence
from consilience.federation.peers.presence import LEAST, PAUSE, PRESENCE, Presence
from consilience.runtime.progress_file import read_quickly


def test_a_quick_round_of_many_peers_costs_no_writing_and_a_slow_one_is_seen(tmp_path, monkeypatch):
    clock, written = [100.0], []
    monkeypatch.setattr(presence, "time", SimpleNamespace(monotonic=lambda: clock[0], time=lambda: clock[0]))
    monkeypatch.setattr(presence, "write_quickly", lambda path, content: written.append(content["waiting"]))
    peers = {f"peer-{number}" for number in range(9)}
    told = Presence(tmp_path)
    told.tell(peers, set(), 0)
    for number in range(1, 10):
        clock[0] += 0.01
        told.tell(peers, {f"peer-{late}" for late in range(number, 9)}, 4)
    assert written == [[]], "the first, and no answer of a peer since"
    clock[0] += LEAST
    told.tell(peers, {"peer-3"}, 4)
    told.tell(peers, {"peer-3"}, 4)
    assert written == [[], ["peer-3"]]
    told.tell(peers, set(), 0)
    assert written == [[], ["peer-3"], []], "the end of waiting is told at once"
    clock[0] += PAUSE
    told.tell(peers, set(), 0)
    assert written == [[], ["peer-3"], [], []], "and again after a while: the site lives"


def test_the_file_can_be_read_at_once(tmp_path):
    Presence(tmp_path).tell({"a", "b"}, {"b"}, 90)
    assert read_quickly(tmp_path / PRESENCE)["waiting"] == ["b"]
