"""What Prometheus and a health check see of a site."""

from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience import ConsilienceError
from consilience.federation.metrics import Metrics
from consilience.federation.peers.audit import AuditLog

pytest.importorskip("prometheus_client", reason="needs consilience[metrics]")


def page(metrics: Metrics, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://127.0.0.1:{metrics.port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_metrics_and_health_follow_from_the_audit_log(tmp_path: Path) -> None:
    metrics = Metrics("127.0.0.1:0", "a")
    log = AuditLog(tmp_path / "audit.jsonl", Ed25519PrivateKey.generate(), [metrics])
    assert page(metrics, "/health") == (503, "starting\n")
    log.add("start", agent="a")
    log.add("here", agent="b")
    for number in (1, 2):
        log.add("sent", round=number, bytes=100, hash="")
        log.add("round", round=number, heard={"b": "", "c": ""}, absent=["d"])
    log.add("late", round=1, agent="d", now=2)
    log.add("privacy", round=2, epsilon=0.5, trained=True)
    log.add("rejected", round=2, agent="c", bytes=7, reason='7 bytes "instead" of 9\nand more')
    status, text = page(metrics, "/metrics")
    lines = text.splitlines()
    for line in (
        'consilience_round{site="a"} 2.0',
        'consilience_present{site="a"} 2.0',
        'consilience_heard{site="a"} 3.0',
        'consilience_epsilon{site="a"} 0.5',
        'consilience_sent_bytes_total{site="a"} 200.0',
        'consilience_late_total{agent="d",site="a"} 1.0',
        'consilience_absent_total{agent="d",site="a"} 2.0',
    ):
        assert line in lines, text
    assert status == 200 and 'reason="7 bytes \\"instead\\" of 9\\nand more"' in text
    assert page(metrics, "/health") == (200, "ok\n")
    log.add("waiting", round=3, found=[], quorum=3)
    assert page(metrics, "/health") == (503, "round 3: 1 agents of 3 needed, after the deadline\n")
    log.add("round", round=3, heard={}, absent=[])
    assert page(metrics, "/health")[0] == 200
    log.add("revoked", agent="b", by=["a", "c"])
    assert 'consilience_present{site="a"} 1.0' in page(metrics, "/metrics")[1].splitlines()
    log.add("stopped", reason="the disk is full")
    assert page(metrics, "/health") == (503, "stopped: the disk is full\n")
    assert page(metrics, "/")[0] == 404
    taken = f"127.0.0.1:{metrics.port}"
    with pytest.raises(ConsilienceError, match=f"cannot be served at {taken}.*another port"):
        Metrics(taken, "b")
    log.close()
    with pytest.raises(OSError):
        urlopen(f"http://127.0.0.1:{metrics.port}/health", timeout=5)
