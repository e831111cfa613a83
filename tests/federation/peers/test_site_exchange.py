"""When a round closes, when it is left for a later one, and who is not heard any more; with scripted peers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("zenoh", reason="needs consilience[peers]")

from consilience.federation.peers import session
from consilience.federation.peers import site_exchange as mesh
from consilience.federation.peers.audit import AuditLog, read_audit
from consilience.federation.peers.change import Change
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.frame import NONCE, Format, Receipt
from consilience.federation.peers.mailbox import Event
from consilience.federation.peers.network import Network
from consilience.federation.peers.sealing import Kind, Message
from consilience.federation.peers.signed_changes import SignedChanges
from consilience.federation.peers.untrusted_input import InvalidInput
from consilience.methods.protocol import Received
from tests.federation.peers.conftest import NAMES, SIGNING, SITE_KEYS, federation_of

UNSURE = np.full((6, 2), 0.5, np.float32)
SURE = np.eye(2, dtype=np.float32)[[0] * 6]
FEDERATION = federation_of()
FORMAT = Format(FEDERATION)


def frame(name: str, number: int, f: np.ndarray = UNSURE, receipts: dict[int, Receipt] | None = None) -> bytes:
    place = NAMES.index(name)
    return FORMAT.make(SIGNING[place], place, number, number, receipts or {}, f)[1]


class Scripted:
    """A session whose peers send what the script says, whatever is asked of them."""

    def __init__(self, *events: Event) -> None:
        self.alive: set[str] = set()
        self.dropped = dict.fromkeys(NAMES, 0)
        self._events = list(events)
        self.asked: list[tuple[str, str]] = []

    def ask(self, peer: str, topic: str, number: int) -> None:
        self.asked.append((peer, topic))

    def publish(self, topic: str, number: int) -> None:
        pass

    def reconnect_if_isolated(self, enough: int) -> bool:
        return False

    def next_event(self, seconds: float) -> Event | None:
        event = self._events.pop(0)
        if event.kind == "here":
            self.alive.add(event.peer)
        return event


def status(name: str, of: Federation = FEDERATION) -> Message:
    """A peer's status."""
    return Message(Kind.STATUS, name, 5, of.identity(), Format(of).pack_status(0.0, bytes(NONCE)))


def present(*names: str) -> list[Event]:
    """Peers that are here, and in the same federation."""
    events = []
    for name in names:
        events += [Event("here", name), Event("reply", name, 5, ("status", bytes(NONCE), status(name)))]
    return events


def answer(name: str, number: int, f: np.ndarray = UNSURE) -> Event:
    """A peer's frame of a round."""
    sent = Message(Kind.FRAME, name, number, FORMAT.run, frame(name, number, f))
    return Event("reply", name, number, (f"round/{number}", bytes(NONCE), sent))


@pytest.fixture
def gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """What agent a receives in round 5 from peers that send the events given, and its audit log."""

    def gather(*events: Event) -> tuple[Received, list[dict[str, Any]]]:
        monkeypatch.setattr(mesh, "Session", lambda *arguments: Scripted(*events))
        log = AuditLog(tmp_path / "audit.jsonl", SIGNING[0])
        site = mesh.SiteExchange(FEDERATION, "a", SITE_KEYS[0], Network(), tmp_path, log, lambda text: None)
        return site.gather(5, {"a": UNSURE}), read_audit(tmp_path / "audit.jsonl")

    return gather


def test_predictions_of_an_earlier_round_are_logged_as_late_and_not_mixed_in(gathered) -> None:
    received, log = gathered(*present("b", "c"), answer("b", 4, SURE), answer("b", 5), answer("c", 5))
    assert list(received.predictions) == ["a", "b", "c"] and received.number == 5
    np.testing.assert_array_equal(received.predictions["b"], UNSURE)
    assert [(event["agent"], event["round"]) for event in log if event["event"] == "late"] == [("b", 4)]


def test_old_and_damaged_answers_do_not_end_the_wait_for_a_peer(gathered) -> None:
    """A relay may send them; after three of them the round may be closed without the peer, but it is asked on."""
    old = Message(Kind.FRAME, "b", 4, FORMAT.run, frame("b", 4))
    replayed = Event("reply", "b", 5, ("round/5", bytes(NONCE), old))
    damaged = Event("reply", "b", 5, ("round/5", bytes(NONCE), InvalidInput("not sealed for this site, or damaged")))
    received, log = gathered(*present("b", "c", "d"), replayed, damaged, answer("c", 5), answer("d", 5), answer("b", 5))
    assert list(received.predictions) == ["a", "b", "c", "d"]
    assert [event["agent"] for event in log if event["event"] == "rejected"] == ["b", "b"]


def test_a_round_below_the_quorum_hears_a_peer_after_any_number_of_false_answers(gathered) -> None:
    old = Message(Kind.FRAME, "b", 4, FORMAT.run, frame("b", 4))
    replayed = [Event("reply", "b", 5, ("round/5", bytes(NONCE), old))] * 20
    received, _ = gathered(*present("b", "c"), *replayed, answer("c", 5), answer("b", 5))
    assert list(received.predictions) == ["a", "b", "c"]


def test_a_round_is_closed_without_a_peer_whose_answers_are_all_false(gathered) -> None:
    old = Message(Kind.FRAME, "b", 4, FORMAT.run, frame("b", 4))
    replayed = [Event("reply", "b", 5, ("round/5", bytes(NONCE), old))] * 3
    received, _ = gathered(*present("b", "c", "d"), answer("c", 5), answer("d", 5), *replayed)
    assert list(received.predictions) == ["a", "c", "d"]


def test_an_agent_that_signed_twice_is_not_heard_whatever_it_sends_later(gathered) -> None:
    caught = [answer("d", 5), answer("d", 5, SURE), answer("d", 5)]
    received, log = gathered(*present("b", "c", "d"), *caught, answer("b", 5), answer("c", 5))
    assert list(received.predictions) == ["a", "b", "c"]
    assert [event["agent"] for event in log if event["event"] == "excluded"] == ["d"]


def test_of_a_revoked_member_that_signed_twice_the_proof_is_kept(tmp_path, monkeypatch) -> None:
    """Revoked between the rounds, before the peers have told each other what they heard of it."""
    twice = FORMAT.make(SIGNING[3], 3, 4, 4, {}, SURE)[0].receipt
    told = Message(Kind.FRAME, "b", 5, FORMAT.run, frame("b", 5, receipts={3: twice}))
    fourth = [*present("b", "c", "d"), answer("b", 4), answer("c", 4), answer("d", 4)]
    fifth = [Event("reply", "b", 5, ("round/5", bytes(NONCE), told)), answer("c", 5)]
    monkeypatch.setattr(mesh, "Session", lambda *arguments: Scripted(*fourth, *fifth))
    log, changes = AuditLog(tmp_path / "audit.jsonl", SIGNING[0]), SignedChanges(FEDERATION, None)
    arguments = (FEDERATION, "a", SITE_KEYS[0], Network(), tmp_path, log, lambda text: None)
    site = mesh.SiteExchange(*arguments, changes=changes)
    assert "d" in site.gather(4, {"a": UNSURE}).predictions
    revocation = Change(FEDERATION.identity().hex(), ("d",), (), {})
    for number, name in enumerate("abc"):
        revocation = revocation.with_signature(FEDERATION, name, SIGNING[number])
    changes.keep(revocation)
    assert list(site.gather(5, {"a": UNSURE}).predictions) == ["a", "b", "c"]
    events = [event["event"] for event in read_audit(tmp_path / "audit.jsonl") if event.get("agent") == "d"]
    assert events[-2:] == ["revoked", "excluded"]
    assert (tmp_path / "evidence" / "d.json").is_file()


def test_a_site_joins_anew_after_half_a_minute_alone_and_then_ever_more_rarely(monkeypatch) -> None:
    now, joined = [0.0], list[float]()
    monkeypatch.setattr(session.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(session.Session, "_reconnect", lambda self: joined.append(now[0]))
    alone = session.Session.__new__(session.Session)
    alone.ways, alone._alone = {"b": frozenset({(0, "agent")})}, None
    for second in range(1, 1001):
        now[0] = float(second)
        assert alone.reconnect_if_isolated(2) == (joined[-1:] == [second])
    assert joined == [32, 93, 214, 455, 696, 937], "30, 60, 120 and then every 240 seconds after the last time"
    alone.ways["c"] = frozenset({(0, "agent")})
    assert not alone.reconnect_if_isolated(2)
    del alone.ways["c"]
    for second in range(1001, 1040):
        now[0] = float(second)
        alone.reconnect_if_isolated(2)
    assert joined[6:] == [1032], "who had company begins anew"
