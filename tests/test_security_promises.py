"""docs/explanation/security.md against the code: the tests that it names are there, its numbers those in force."""

import ast
import contextlib
import re
import socket
import time
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

pytest.importorskip("zenoh", reason="needs consilience[peers]")

from consilience.base import toml
from consilience.base.errors import ConsilienceError
from consilience.federation.peers import connection_limiter as door
from consilience.federation.peers import inbox, mailbox, outbox, untrusted_input
from consilience.federation.peers import site_exchange as mesh
from consilience.federation.peers.federation import default_quorum
from consilience.federation.peers.frame import STATUS, Format
from consilience.federation.peers.ports import free_addresses
from consilience.report import live
from tests.federation.peers.conftest import SITE_KEYS, Query, federation_of

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "explanation" / "security.md").read_text()


def test_every_test_that_is_named_is_there():
    """By its file's path, or by its own name, which only one test has, and a case in brackets."""
    texts = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    named = re.findall(r"`([^`]*test_[^`]*)`", TEXT)
    assert len(named) > 50
    for name in named:
        if name.endswith(".py"):
            assert (ROOT / name).is_file(), name
            continue
        function, _, case = name.partition("[")
        before = [text.split(f"\ndef {function}(")[0] for text in texts if f"\ndef {function}(" in text]
        assert len(before) == 1, f"{function} is in {len(before)} files"
        if case:
            cases = before[0].rpartition("parametrize(")[2]
            assert re.search(rf"\b{re.escape(case.rstrip(']'))}\b", cases), f"{function} has no case {case}"


def test_the_table_of_quorums_is_what_is_in_force_and_no_file_can_ask_for_less():
    rows = {
        cells[0]: [int(cell) for cell in cells[1:]]
        for cells in ([cell.strip() for cell in line.strip(" |").split("|")] for line in TEXT.splitlines())
        if cells[0] in ("members", "may be hostile", "quorum")
    }
    assert len(rows["members"]) == 8
    for members, hostile, quorum in zip(rows["members"], rows["may be hostile"], rows["quorum"], strict=True):
        federation = federation_of(members, quorum)
        assert (federation.hostile, default_quorum(members)) == (hostile, quorum)
        assert federation.enough_claims == max(2, hostile + 1)
        with pytest.raises(ConsilienceError, match=f"it must be {quorum} to {members}"):
            federation_of(members, quorum - 1)


def test_two_quorums_share_an_honest_member_and_all_honest_members_are_one():
    for members in range(2, 500):
        hostile, quorum = (members - 1) // 3, default_quorum(members)
        assert 3 * hostile < members
        assert 2 * quorum - members > hostile
        assert members - hostile >= quorum


def test_the_limits_that_are_named_are_in_force():
    limits = f"{door.OPEN} connections, {door.RATE:.0f} new ones a second after the first {door.BURST}, "
    assert f"{limits}{door.HELLO:.0f} s for the first TLS message" in TEXT
    assert f"{mailbox.ANSWERS} answers, {outbox.HELD} held questions a peer" in TEXT
    assert mesh.MISSES == 3 and "costs three deadlines" in TEXT


def test_the_sizes_that_are_named_are_in_force():
    assert f"at most {toml.MOST_DOTS} dots in a key and 1 MB (a member file 64 kB)" in TEXT.replace("\n  ", " ")
    assert (untrusted_input.LARGEST_FILE, untrusted_input.LARGEST_MEMBER) == (10**6, 64_000)
    assert "at most 320 kB" in TEXT and round(untrusted_input.LARGEST_FIELDS, -3) == 320_000
    assert f"closed after ten seconds, at most {live.MOST_CONNECTIONS}" in TEXT and live.TIMEOUT == 10
    assert "eight identities and twelve lines of the log" in TEXT and (inbox.MOST_FILES, inbox.MOST_REASONS) == (8, 12)
    deep = ".".join("a" * (toml.MOST_DOTS + 1))
    toml.parse(f"{deep} = 1", "it")
    with pytest.raises(ConsilienceError, match="more than 8 dots"):
        toml.parse(f"{deep}.a = 1", "it")


def test_strangers_at_the_door_are_few_and_who_says_nothing_is_sent_away():
    """Over loopback, with members elsewhere: who comes from here is a stranger."""
    (address,) = free_addresses(1)
    entrance = door.ConnectionLimiter(address, ["192.0.2.1"])
    entrance.start()
    host, port = address.split(":")
    started = time.monotonic()
    calls = [socket.create_connection((host, int(port)), timeout=30) for _ in range(door.OPEN + door.BURST)]
    ended: list[float] = []

    def until_closed(call: socket.socket) -> None:
        with contextlib.suppress(ConnectionResetError):
            assert call.recv(1) == b"", "who says nothing is told nothing"
        ended.append(time.monotonic() - started)

    threads = [Thread(target=until_closed, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entrance.close()
    for call in calls:
        call.close()
    assert len(ended) == len(calls), "a connection that says nothing was left open"
    at_once = sum(seconds < door.HELLO / 2 for seconds in ended)
    assert len(calls) - door.OPEN <= at_once <= len(calls) - door.BURST, "those beyond the limits are sent away at once"
    assert max(ended) < 3 * door.HELLO


def test_a_site_answers_with_frames_receipts_statuses_and_fields_alone(tmp_path):
    """Their lengths follow from the federation file: there is no place for anything else."""
    federation = federation_of(4, 3)
    box = outbox.Outbox(federation, "a", SITE_KEYS[0], tmp_path)
    frame, _ = box.publish(1, np.full((6, 2), 0.5, np.float32), {})
    box.keep_receipts(1, {0: frame.receipt})
    box.flush()
    layout = Format(federation)
    lengths = {
        "status": STATUS.size,
        "finished": STATUS.size,
        "federation": len(federation.packed_fields),
        "round": layout.length,
        "receipts": layout.receipts,
    }
    others = ["data", "model", "weights", "round/-1", "round/1/x", "../round/1", "site.toml", "keys/signing.key", "**"]
    for topic in (*lengths, *others):
        query = Query(federation, "b", topic, 1)
        box.answer(query)
        assert [len(message.data) for message in query.opened()] == ([lengths[topic]] if topic in lengths else []), (
            topic
        )


def test_messages_of_peers_are_read_in_four_modules_that_raise_one_kind_of_error():
    """Elsewhere in federation/ a site's own files are read so, and the limiter reads the header of a TLS record."""
    readers = {"unpack", "unpack_from", "iter_unpack", "loads", "frombuffer"}
    own = {"audit.py", "equivocation.py", "run_lock.py", "connection_limiter.py", "site_exchange.py", "site_ledger.py"}
    seen = set()
    for path in (ROOT / "src" / "consilience" / "federation").rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            calls = (call.func for call in ast.walk(function) if isinstance(call, ast.Call))
            if not any(isinstance(name, ast.Attribute) and name.attr in readers for name in calls):
                continue
            seen.add(path.name)
            strict = "strict" in [ast.unparse(decorator) for decorator in function.decorator_list]
            assert strict or path.name in own, f"{path.name}: {function.name} reads bytes, and is not `strict`"
    assert seen - own == {"untrusted_input.py", "question.py", "samples.py", "sealing.py"}
    assert all(
        f"`{name}`" in TEXT
        for name in ("federation/peers/untrusted_input.py", "sealing.py", "question.py", "samples.py")
    )
