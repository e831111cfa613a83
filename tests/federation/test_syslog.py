"""Lines of the audit log as a syslog daemon receives them."""

import json
import socket
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.federation.peers.audit import AuditLog, read_audit
from consilience.federation.syslog import LONGEST, Syslog

DAEMON = 3 << 3


def received(server: socket.socket) -> tuple[int, dict]:
    """The priority and the content of a message."""
    priority, _, rest = server.recv(65535).decode().removeprefix("<").partition(">")
    tag, _, line = rest.partition(": ")
    assert tag.startswith("consilience[")
    return int(priority), json.loads(line.rstrip("\0"))


def test_every_event_is_a_json_line_with_its_severity_over_udp(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(5)
        syslog = Syslog(f"127.0.0.1:{server.getsockname()[1]}", "a")
        log = AuditLog(tmp_path / "audit.jsonl", Ed25519PrivateKey.generate(), [syslog])
        log.add("sent", round=1, bytes=9, hash="00")
        priority, line = received(server)
        assert priority == DAEMON + 6
        assert (line["site"], line["event"], line["bytes"]) == ("a", "sent", 9) and "time" in line
        log.add("stopped", reason="two\nlines")
        priority, line = received(server)
        assert (priority, line["reason"]) == (DAEMON + 3, "two\nlines")
        log.add("round", round=1, heard={f"agent-{number}": "0" * 64 for number in range(1000)}, absent=[])
        assert len(json.dumps(received(server)[1])) < LONGEST
        log.close()


def test_a_daemon_that_comes_and_goes_ends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = AuditLog(tmp_path / "audit.jsonl", Ed25519PrivateKey.generate(), [Syslog(str(path), "a")])
    log.add("late", agent="b")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(path))
        server.settimeout(5)
        log.add("rejected", agent="b", reason="bad")
        priority, line = received(server)
        assert (priority, line["agent"]) == (DAEMON + 4, "b")
    log.add("late", agent="b")
    log.close()
    assert len(read_audit(tmp_path / "audit.jsonl")) == 3
