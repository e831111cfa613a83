"""What a report reads out of an audit log."""

import pytest

pytest.importorskip("zenoh", reason="needs consilience[peers]")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.federation.peers.audit import AuditLog, bytes_sent, incidents


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
