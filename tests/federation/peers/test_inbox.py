"""Peers' federation files are compared once, and refused with the reason."""

from dataclasses import replace
from pathlib import Path

import pytest

from consilience.federation.peers.audit import AuditLog, read_audit
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.frame import NONCE, VERSION
from consilience.federation.peers.inbox import Inbox
from consilience.federation.peers.mailbox import Event
from consilience.federation.peers.sealing import Kind, Message
from consilience.federation.peers.untrusted_input import InvalidInput, VersionError
from tests.federation.peers.conftest import SIGNING
from tests.federation.peers.test_site_exchange import FEDERATION, Scripted, status

pytest.importorskip("zenoh", reason="needs consilience[peers]")


def fields_of(of: Federation, data: bytes = b"") -> Message:
    """The fields of a peer's federation file."""
    return Message(Kind.FIELDS, "b", 0, of.identity(), data or of.packed_fields)


@pytest.mark.parametrize(
    "text",
    [
        "\xff",
        "name = [",
        "x = " + "[" * 5000,
        "deadline = " + "9" * 5000,
        'name = "trial"',
        FEDERATION.to_toml().replace('agent = "b"', "agent = 1"),
        FEDERATION.to_toml().replace("[settings.run]", "[settings.run]\n" + "a." * 3000 + "b = 1"),
        "CNSF" + "x" * 63,
        "CNSF" + "x" * 64 * 5001,
    ],
    ids=lambda text: text[:12],
)
def test_a_peer_whose_federation_file_cannot_be_read_is_refused_and_stops_nobody(tmp_path: Path, text: str) -> None:
    session = Scripted(
        Event("reply", "b", 0, ("federation", bytes(NONCE), fields_of(FEDERATION, text.encode("latin-1"))))
    )
    inbox = Inbox(FEDERATION, session, AuditLog(tmp_path / "audit.jsonl", SIGNING[0]), lambda text: None)
    event = inbox.next_event(0.2)
    assert event is not None and event.kind == "refused" and "no list of its fields" in event.content
    assert inbox.refused == {"b": event.content}


def test_a_federation_file_is_compared_once_for_each_identity_by_hashes(tmp_path: Path) -> None:
    other, third = replace(FEDERATION, deadline=5.0), replace(FEDERATION, deadline=6.0)

    def said(of: Federation) -> Event:
        return Event("reply", "b", 0, ("status", bytes(NONCE), status("b", of)))

    def fields(of: Federation) -> Event:
        return Event("reply", "b", 0, ("federation", bytes(NONCE), fields_of(of)))

    came_back = Event("here", "b", content=frozenset({"agent"}))
    session = Scripted(said(other), fields(other), came_back, said(other), came_back, said(third), fields(third))
    inbox = Inbox(FEDERATION, session, AuditLog(tmp_path / "audit.jsonl", SIGNING[0]), lambda text: None)
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
            of = replace(FEDERATION, deadline=deadline)
            events.append(Event("reply", "b", 0, ("status", bytes(NONCE), status("b", of))))
            events.append(Event("reply", "b", 0, ("federation", bytes(NONCE), fields_of(of))))
            events.append(Event("here", "b", content=frozenset({"agent"})))
    session = Scripted(*events)
    inbox = Inbox(FEDERATION, session, AuditLog(tmp_path / "audit.jsonl", SIGNING[0]), lambda text: None)
    for _ in events:
        inbox.next_event(0.2)
    assert len(session.asked) == 8
    assert sum(event["event"] == "refused" for event in read_audit(tmp_path / "audit.jsonl")) <= 12


def test_another_version_of_the_protocol_is_named_and_no_fault_of_the_file(tmp_path: Path) -> None:
    answer = VersionError("the protocol", 7, VERSION)
    session = Scripted(Event("reply", "b", 0, ("status", bytes(NONCE), answer)))
    inbox = Inbox(FEDERATION, session, AuditLog(tmp_path / "audit.jsonl", SIGNING[0]), lambda text: None)
    event = inbox.next_event(0.2)
    assert event is not None and event.kind == "version"
    wanted = f"version 7 of the protocol, this site version {VERSION}: this site must upgrade consilience"
    assert wanted in event.content and "file" not in event.content
    assert wanted in read_audit(tmp_path / "audit.jsonl")[-1]["reason"]


def test_ever_new_reasons_to_reject_fill_no_log(tmp_path: Path) -> None:
    """A middleman may answer as well, with whatever it likes."""
    events = [
        Event("reply", "b", 3, ("round/3", bytes(NONCE), InvalidInput(f"a message of {size} bytes")))
        for size in range(100)
    ]
    inbox = Inbox(FEDERATION, Scripted(*events), AuditLog(tmp_path / "audit.jsonl", SIGNING[0]), lambda text: None)
    assert {inbox.next_event(0.2).kind for _ in events} == {"rejected"}
    assert 1 < sum(event["event"] == "rejected" for event in read_audit(tmp_path / "audit.jsonl")) <= 12


def test_another_version_leaves_no_peer_out_for_nobody_signed_it(tmp_path: Path) -> None:
    """The version is not sealed: a relay can change it. A peer that spoke in this one has no other."""
    other = Event("reply", "b", 0, ("status", bytes(NONCE), VersionError("the protocol", 259, VERSION)))
    good = Event("reply", "b", 0, ("status", bytes(NONCE), status("b")))
    inbox = Inbox(
        FEDERATION, Scripted(other, good, other), AuditLog(tmp_path / "audit.jsonl", SIGNING[0]), lambda text: None
    )
    assert inbox.next_event(0.2).kind == "version"
    assert inbox.versions.keys() == {"b"} and not inbox.refused
    assert [inbox.next_event(0.2).kind for _ in range(2)] == ["status", "rejected"]
    assert not inbox.versions and not inbox.refused
