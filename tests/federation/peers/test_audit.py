"""What a report reads out of an audit log."""

import pytest

pytest.importorskip("zenoh", reason="needs consilience[peers]")

import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.federation.peers.audit import AuditLog, broken_at, bytes_sent, incidents, read_audit
from tests.federation.peers.conftest import SIGNING


def test_absent_late_rejected_and_bytes(tmp_path):
    log = AuditLog(tmp_path / "audit.jsonl", Ed25519PrivateKey.generate())
    for number, absent in ((1, []), (2, ["b"]), (3, ["b", "c"]), (4, []), (5, ["b"])):
        log.add("sent", round=number, bytes=100 + number)
        log.add("round", round=number, heard={}, absent=absent)
    log.add("late", round=3, agent="c", now=4)
    log.add("rejected", round=2, agent="b", bytes=7, reason="a wrong signature")
    log.add("jump", round=5, to=8)
    log.close()
    assert bytes_sent(tmp_path / "audit.jsonl") == 515
    assert incidents(tmp_path / "audit.jsonl") == [
        "b was absent in rounds 2-3, 5.",
        "c was absent in round 3.",
        "What c said came too late in round 3.",
        "What b sent was rejected in round 2: a wrong signature.",
        "This site went from round 5 to round 8, where its peers were.",
    ]


def test_the_audit_log_is_a_chain_that_goes_on_after_a_kill(tmp_path):
    path = tmp_path / "audit.jsonl"
    for start in (0, 3):
        log = AuditLog(path, SIGNING[0])
        for number in range(start, start + 3):
            log.add("round", round=number)
        log.close()
    with path.open("ab") as file:
        file.write(b'{"time": "2024-01-01", "event": "ro')
    log = AuditLog(path, SIGNING[0])
    log.add("start")
    log.close()
    assert broken_at(path) is None
    assert [event.get("round") for event in read_audit(path)] == [0, 1, 2, 3, 4, 5, None]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lines = path.read_bytes().splitlines(keepends=True)
    for wrong in (lines[1:], lines[:2] + lines[3:], [lines[0], lines[1].replace(b"1", b"7"), *lines[2:]]):
        path.write_bytes(b"".join(wrong))
        assert broken_at(path) is not None


def test_a_full_disk_is_an_error_and_the_log_stays_whole(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    log = AuditLog(tmp_path / "other.jsonl", SIGNING[0])
    log.add("start")
    log._file = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OSError, match="No space left"):
        log.add("round", round=1)
    log.close()
    assert broken_at(tmp_path / "other.jsonl") is None
