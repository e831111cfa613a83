"""An audit log of a finished run is verified with its signatures and the receipts of others."""

import json
import shutil

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.federation.peers.audit import AuditLog
from consilience.federation.verify import verify_log


@pytest.mark.faults
def test_an_audit_log_is_written_by_one_process_signed_and_verified(federate):
    trial = federate(4, rounds=4)
    first, *others = trial.names
    trial.hold(first, "train-3")
    trial.start()
    trial.until_held(first, "train-3")
    second = trial.start_beside(first, "run")
    assert trial.code(second) == 2
    assert "another process of this site is running" in trial.output(second)
    trial.release(first, "train-3")
    trial.finish(first, *others)
    run, peer = (trial.sites[name].parent / "run" for name in (first, others[0]))
    assert verify_log(run).state == verify_log(run, [peer]).state == "whole"
    log = run / "audit.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    last_sent = max(index for index, line in enumerate(lines) if b'"event": "sent"' in line)
    log.write_bytes(b"".join(lines[:last_sent]))
    assert verify_log(run).state == "cut", "its own frame of that round is there"
    shutil.rmtree(run / "published")
    (run / "summary.json").unlink()
    assert verify_log(run).state == "whole", "nothing of its own shows that the end is missing"
    proven = verify_log(run, [peer / "published" / "receipts"])
    assert proven.state == "cut" and "signed round 4, and no line says so" in proven.reason
    log.write_bytes(b"".join(lines).replace(b'"absent": []', b'"absent": [1]', 1))
    assert verify_log(run, [peer]).state == "rewritten"
    forged = AuditLog(trial.folder / "forged.jsonl", Ed25519PrivateKey.generate())
    for line in lines:
        event = json.loads(line)
        forged.add(event.pop("event"), **{key: event[key] for key in event if key not in ("before", "signed", "time")})
    forged.close()
    shutil.copy(trial.folder / "forged.jsonl", log)
    assert verify_log(run, [peer]).state == "rewritten", "with another key"
