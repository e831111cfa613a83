"""When a round closes, when it is left for a later one, and who is not heard any more; with scripted peers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("zenoh", reason="needs consilience[peers]")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.federation.peers import keys, session
from consilience.federation.peers import site_exchange as mesh
from consilience.federation.peers.audit import AuditLog, read_audit
from consilience.federation.peers.equivocation import equivocations
from consilience.federation.peers.federation import Federation, Member, fingerprint
from consilience.federation.peers.frame import NONCE, Format, Receipt
from consilience.federation.peers.inbox import Inbox
from consilience.federation.peers.mailbox import Event
from consilience.federation.peers.open_round import OpenRound
from consilience.federation.peers.untrusted_input import frame_from
from consilience.federation.peers.zenoh_config import Tls
from consilience.methods.protocol import Received

NAMES = "abcd"
SIGNING = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in range(4)]
UNSURE = np.full((6, 2), 0.5, np.float32)
SURE = np.eye(2, dtype=np.float32)[[0] * 6]


def federation() -> Federation:
    members = tuple(
        Member(name, f"localhost:{7000 + place}", name, keys.public_key(SIGNING[place]))
        for place, name in enumerate(NAMES)
    )
    settings = {"run": {"rounds": 9}}
    return Federation("trial", "1", ("no", "yes"), 6, fingerprint(UNSURE), 4.0, 3, settings, members)


FORMAT = Format(federation())


def frame(name: str, number: int, f: np.ndarray = UNSURE, receipts: dict[int, Receipt] | None = None) -> bytes:
    place = NAMES.index(name)
    return FORMAT.make(SIGNING[place], place, number, number, receipts or {}, f)[1]


def receipt(name: str, number: int, f: np.ndarray = UNSURE) -> Receipt:
    return frame_from(FORMAT, frame(name, number, f), NAMES.index(name)).receipt


def open_round(number: int = 4, behind: bool = False, **answered: int) -> OpenRound:
    """A round that needs two peers, with a frame (0) or a later round from those named."""
    found = OpenRound(number, needed=2, claims=2, deadline=10.0, behind=behind)
    for name, later in answered.items():
        if later:
            found.peer_is_ahead(name, later)
        else:
            found.frames[name] = frame_from(FORMAT, frame(name, number), NAMES.index(name))
    return found


def test_a_round_closes_with_all_who_are_present_and_at_the_deadline_with_a_quorum() -> None:
    before, after = 9.0, 11.0
    assert not open_round(b=0).can_close(set(), after), "below the quorum"
    assert open_round(b=0, c=0).waiting({"b", "c", "d"}) == {"d"}
    assert not open_round(b=0, c=0).can_close({"d"}, before), "somebody may still answer"
    assert open_round(b=0, c=0).can_close({"d"}, after)
    assert open_round(b=0, c=0).can_close(set(), before)


@pytest.mark.parametrize(
    ("answered", "waiting", "now", "behind", "later"),
    [
        ({}, set(), 11.0, True, 0),
        ({"b": 6}, set(), 9.0, False, 0),  # one alone leads nobody away before the deadline
        ({"b": 6}, {"c"}, 11.0, False, 0),  # nor while somebody may still answer
        ({"b": 6}, set(), 11.0, True, 0),  # nor afterwards: it may be a liar
        ({"b": 6, "c": 6}, set(), 11.0, False, 6),
        ({"b": 6, "c": 8}, {"d"}, 9.0, False, 6),  # a quorum has reached round 6
        ({"b": 6, "c": 8, "d": 8}, set(), 9.0, False, 8),
        ({"b": 3}, set(), 11.0, True, 0),  # who is behind leads nowhere
        ({"b": 0, "c": 6}, set(), 11.0, False, 0),
        ({"b": 5, "c": 9, "d": 9}, set(), 9.0, False, 9),
        ({"b": 5, "c": 9}, set(), 9.0, False, 5),  # as far as two are
    ],
)
def test_a_round_is_left_when_a_quorum_is_further_or_none_can_come(
    answered: dict[str, int], waiting: set[str], now: float, behind: bool, later: int
) -> None:
    assert open_round(behind=behind, **answered).later_round(waiting, now) == later


def test_a_silent_peer_holds_nobody_in_a_round_that_enough_have_left() -> None:
    found = OpenRound(4, needed=4, claims=2, deadline=10.0)
    found.frames["b"] = frame_from(FORMAT, frame("b", 4), NAMES.index("b"))
    found.peer_is_ahead("c", 7)
    found.peer_is_ahead("d", 9)
    assert found.later_round({"e"}, 9.0) == 0, "before the deadline it may still answer"
    assert found.later_round({"e"}, 11.0) == 7
    assert not found.can_close({"e"}, 11.0)


def test_receipts_from_two_peers_show_who_signed_twice_and_nobody_else() -> None:
    def frames(from_b: Receipt, from_c: Receipt) -> dict[str, tuple[Receipt, ...]]:
        given = {"b": {from_b.agent: from_b}, "c": {from_c.agent: from_c}}
        return {
            name: frame_from(FORMAT, frame(name, 5, UNSURE, one), NAMES.index(name)).others
            for name, one in given.items()
        }

    honest, other = receipt("d", 4), receipt("d", 4, SURE)
    forged = other._replace(signature=bytes(64))
    (found,) = equivocations(FORMAT, [], frames(honest, other), set())
    assert (found.agent, found.round, found.reporter) == ("d", 4, "c")
    assert (found.first, found.second) == (honest, other)
    (found,) = equivocations(FORMAT, [other], frames(honest, honest), set())
    assert (found.reporter, found.first) == ("b", other)
    assert not equivocations(FORMAT, [honest], frames(honest, honest), set())
    assert not equivocations(FORMAT, [honest], frames(honest, forged), set()), "nobody signed the forged one"
    assert not equivocations(FORMAT, [], frames(honest, receipt("d", 3, SURE)), set()), "two rounds"
    assert not equivocations(FORMAT, [], frames(honest, other), {"d"}), "already excluded"


class Scripted:
    """A session whose peers send what the script says, whatever is asked of them."""

    def __init__(self, *events: Event) -> None:
        self.alive: set[str] = set()
        self.dropped = dict.fromkeys(NAMES, 0)
        self._events = list(events)
        self.asked: list[tuple[str, str]] = []

    def ask(self, peer: str, topic: str, number: int) -> None:
        self.asked.append((peer, topic))

    def reconnect_if_isolated(self, enough: int) -> bool:
        return False

    def next_event(self, seconds: float) -> Event | None:
        event = self._events.pop(0)
        if event.kind == "here":
            self.alive.add(event.peer)
        return event


def present(*names: str) -> list[Event]:
    """Peers that are here, and in the same federation."""
    events = []
    for name in names:
        place = NAMES.index(name)
        status = FORMAT.pack_status(SIGNING[place], place, 5, 0.0, bytes(NONCE))
        events += [Event("here", name), Event("reply", name, 5, ("status", bytes(NONCE), status))]
    return events


def answer(name: str, number: int, f: np.ndarray = UNSURE) -> Event:
    """A peer's frame of a round."""
    return Event("reply", name, number, (f"round/{number}", bytes(NONCE), frame(name, number, f)))


@pytest.fixture
def gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """What agent a receives in round 5 from peers that send the events given, and its audit log."""

    def gather(*events: Event) -> tuple[Received, list[dict[str, Any]]]:
        monkeypatch.setattr(mesh, "Session", lambda *arguments: Scripted(*events))
        log, tls = AuditLog(tmp_path / "audit.jsonl", SIGNING[0]), Tls(tmp_path, tmp_path, tmp_path)
        site = mesh.SiteExchange(federation(), "a", SIGNING[0], tls, tmp_path, log, lambda text: None)
        return site.gather(5, {"a": UNSURE}), read_audit(tmp_path / "audit.jsonl")

    return gather


def test_predictions_of_an_earlier_round_are_logged_as_late_and_not_mixed_in(gathered) -> None:
    received, log = gathered(*present("b", "c"), answer("b", 4, SURE), answer("b", 5), answer("c", 5))
    assert list(received.predictions) == ["a", "b", "c"] and received.number == 5
    np.testing.assert_array_equal(received.predictions["b"], UNSURE)
    assert [(event["agent"], event["round"]) for event in log if event["event"] == "late"] == [("b", 4)]


def test_an_agent_that_signed_twice_is_not_heard_whatever_it_sends_later(gathered) -> None:
    caught = [answer("d", 5), answer("d", 5, SURE), answer("d", 5)]
    received, log = gathered(*present("b", "c", "d"), *caught, answer("b", 5), answer("c", 5))
    assert list(received.predictions) == ["a", "b", "c"]
    assert [event["agent"] for event in log if event["event"] == "excluded"] == ["d"]


def test_a_site_joins_anew_after_half_a_minute_alone_and_then_ever_more_rarely(monkeypatch) -> None:
    now, joined = [0.0], list[float]()
    monkeypatch.setattr(session.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(session.Session, "_reconnect", lambda self: joined.append(now[0]))
    alone = session.Session.__new__(session.Session)
    alone.roles, alone._alone = {"b": frozenset({"agent"})}, None
    for second in range(1, 1001):
        now[0] = float(second)
        assert alone.reconnect_if_isolated(2) == (joined[-1:] == [second])
    assert joined == [32, 93, 214, 455, 696, 937], "30, 60, 120 and then every 240 seconds after the last time"
    alone.roles["c"] = frozenset({"agent"})
    assert not alone.reconnect_if_isolated(2)
    del alone.roles["c"]
    for second in range(1001, 1040):
        now[0] = float(second)
        alone.reconnect_if_isolated(2)
    assert joined[6:] == [1032], "who had company begins anew"


@pytest.mark.parametrize(
    "text",
    [
        "\xff",
        "name = [",
        "x = " + "[" * 5000,
        "deadline = " + "9" * 5000,
        'name = "trial"',
        federation().to_toml().replace('agent = "b"', "agent = 1"),
        federation().to_toml().replace("[settings.run]", "[settings.run]\n" + "a." * 3000 + "b = 1"),
        "CNSF" + "x" * 63,
        "CNSF" + "x" * 64 * 5001,
    ],
    ids=lambda text: text[:12],
)
def test_a_peer_whose_federation_file_cannot_be_read_is_refused_and_stops_nobody(tmp_path: Path, text: str) -> None:
    session = Scripted(Event("reply", "b", 0, ("federation", bytes(NONCE), text.encode("latin-1"))))
    inbox = Inbox(federation(), session, AuditLog(tmp_path / "audit.jsonl", SIGNING[0]), lambda text: None)
    event = inbox.next_event(0.2)
    assert event is not None and event.kind == "refused" and "no list of its fields" in event.content
    assert inbox.refused == {"b": event.content}


def test_a_federation_file_is_compared_once_for_each_identity_by_hashes(tmp_path: Path) -> None:
    other, third = replace(federation(), deadline=5.0), replace(federation(), deadline=6.0)

    def status(of: Federation) -> Event:
        data = Format(of).pack_status(SIGNING[1], 1, 1, 0.0, bytes(NONCE))
        return Event("reply", "b", 0, ("status", bytes(NONCE), data))

    def fields(of: Federation) -> Event:
        return Event("reply", "b", 0, ("federation", bytes(NONCE), of.packed_fields))

    came_back = Event("here", "b", content=frozenset({"agent"}))
    session = Scripted(status(other), fields(other), came_back, status(other), came_back, status(third), fields(third))
    inbox = Inbox(federation(), session, AuditLog(tmp_path / "audit.jsonl", SIGNING[0]), lambda text: None)
    for _ in range(7):
        inbox.next_event(0.2)
    assert session.asked == [("b", "federation")] * 2
    reasons = [event["reason"] for event in read_audit(tmp_path / "audit.jsonl") if event["event"] == "refused"]
    start = "its federation file differs in deadline (ours 4.0, theirs"
    assert reasons == [f"{start} 5.0)", f"{start} 6.0)"]


def test_ever_new_federation_files_of_a_peer_cost_few_comparisons_and_lines(tmp_path: Path) -> None:
    events = []
    for number in range(60):  # each of them twice, the second time after another one
        for deadline in (5.0 + number, 4.5 + number):
            of = replace(federation(), deadline=deadline)
            data = Format(of).pack_status(SIGNING[1], 1, 1, 0.0, bytes(NONCE))
            events.append(Event("reply", "b", 0, ("status", bytes(NONCE), data)))
            events.append(Event("reply", "b", 0, ("federation", bytes(NONCE), of.packed_fields)))
            events.append(Event("here", "b", content=frozenset({"agent"})))
    session = Scripted(*events)
    inbox = Inbox(federation(), session, AuditLog(tmp_path / "audit.jsonl", SIGNING[0]), lambda text: None)
    for _ in events:
        inbox.next_event(0.2)
    assert len(session.asked) == 8
    assert sum(event["event"] == "refused" for event in read_audit(tmp_path / "audit.jsonl")) <= 12


def test_another_version_of_the_protocol_is_named_and_no_fault_of_the_file(tmp_path: Path) -> None:
    data = bytearray(FORMAT.pack_status(SIGNING[1], 1, 1, 0.0, bytes(NONCE)))
    data[4:6] = (7).to_bytes(2, "little")
    answers = [bytes(data), bytes(data[:50]), bytes(data) + b"more"]
    session = Scripted(*(Event("reply", "b", 0, ("status", bytes(NONCE), answer)) for answer in answers))
    inbox = Inbox(federation(), session, AuditLog(tmp_path / "audit.jsonl", SIGNING[0]), lambda text: None)
    for _ in answers:
        event = inbox.next_event(0.2)
        assert event is not None and event.kind == "refused"
        assert "version 7 of the protocol, this site version 2: install the same version" in event.content
        assert "file" not in event.content
