"""What a security officer types: members are revoked and get new keys, and audit logs are verified."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from consilience import ConsilienceError
from consilience.cli.main import app
from consilience.federation.membership import make_keys
from consilience.federation.peers.audit import AuditLog
from consilience.federation.peers.frame import Format
from consilience.federation.peers.keys import read_signing_key
from consilience.federation.peers.outside import frame_from, read_federation, read_member
from tests.federation.conftest import lay_out


@pytest.fixture(scope="module")
def agreed(tmp_path_factory) -> Path:
    """Four sites with one federation file."""
    pytest.importorskip("zenoh")
    folder = tmp_path_factory.mktemp("agreed")
    lay_out(folder / "sites", 4)
    return folder / "sites"


@pytest.fixture
def folder(agreed: Path, tmp_path: Path) -> Path:
    return shutil.copytree(agreed, tmp_path / "sites")


def say(*words: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def test_a_member_is_revoked_with_the_signatures_of_a_quorum(folder: Path) -> None:
    file, change = folder / "federation.toml", folder / "change.toml"
    before = read_federation(file)
    say("federation", "change", file, "--remove", "3", "--site", folder / "0" / "site.toml", "--out", change)
    for name, signers in (("1", "0, 1"), ("1", "0, 1")):  # who signs twice counts once
        said = say("federation", "sign", file, change, "--site", folder / name / "site.toml")
        assert f"signed by {signers}; 3 are needed" in said
        with pytest.raises(ConsilienceError, match="2 members have signed the change"):
            say("federation", "apply", file, change)
    say("federation", "sign", file, change, "--site", folder / "2" / "site.toml")
    assert "0, 1, 2; quorum 2, epoch 2" in say("federation", "apply", file, change)
    after = read_federation(file)
    assert after.names == ("0", "1", "2") and after.identity() != before.identity()
    with pytest.raises(ConsilienceError, match="another epoch"):
        say("federation", "apply", file, change)


def test_a_change_that_was_edited_after_it_was_signed_has_no_signatures(folder: Path) -> None:
    file, change = folder / "federation.toml", folder / "change.toml"
    say("federation", "change", file, "--remove", "3", "--site", folder / "0" / "site.toml", "--out", change)
    for name in "12":
        say("federation", "sign", file, change, "--site", folder / name / "site.toml")
    change.write_text(change.read_text().replace('remove = ["3"]', 'remove = ["2"]'))
    with pytest.raises(ConsilienceError, match=r"0 members have signed the change \(nobody\)"):
        say("federation", "apply", file, change)


def test_a_site_gets_a_new_signing_key_between_runs(folder: Path) -> None:
    file, change = folder / "federation.toml", folder / "change.toml"
    old = read_member(folder / "3" / "member.toml")
    make_keys(folder / "new", "3", old.address, folder / "trial-ca")
    say(
        *("federation", "change", file, "--member", folder / "new" / "member.toml"),
        *("--site", folder / "0" / "site.toml", "--out", change),
    )
    for name in "12":
        say("federation", "sign", file, change, "--site", folder / name / "site.toml")
    say("federation", "apply", file, change)
    after = read_federation(file)
    assert after.member("3") == read_member(folder / "new" / "member.toml") != old
    assert after.epoch == 2
    with pytest.raises(ConsilienceError, match="the key is not that of this agent"):
        say(
            *("federation", "change", file, "--remove", "0"),
            *("--site", folder / "3" / "site.toml", "--out", folder / "other.toml"),
        )


def test_the_next_epoch_of_the_same_federation_is_another_run(folder: Path) -> None:
    file = folder / "federation.toml"
    before = read_federation(file)
    assert "epoch 2" in say("federation", "again", file)
    assert read_federation(file).identity() != before.identity()


def test_an_audit_log_is_said_to_be_whole_cut_or_rewritten(folder: Path) -> None:
    run = folder / "0" / "run"
    federation = read_federation(folder / "federation.toml")
    key = read_signing_key(folder / "0" / "keys" / "signing.key")
    log = AuditLog(run / "audit.jsonl", key)
    shutil.copy(folder / "federation.toml", run / "federation.toml")
    format = Format(federation)
    f = np.full((format.samples, format.classes), 1 / format.classes, np.float32)
    frame = format.pack(key, 0, 2, 1, {}, f)
    receipt = frame_from(format, frame, 0).receipt
    log.add("start", agent="0")
    log.add("sent", round=2, bytes=len(frame), hash=receipt.payload_hash.hex())
    log.close()
    received = folder / "1" / "run" / "published" / "receipts"
    received.parent.mkdir(parents=True)
    received.write_bytes((2).to_bytes(4, "little") + format.pack_receipts({0: receipt}))
    assert say("audit-log", "verify", run, received).startswith("whole: ")
    lines = (run / "audit.jsonl").read_bytes().splitlines(keepends=True)
    (run / "audit.jsonl").write_bytes(lines[0])
    assert say("audit-log", "verify", run).startswith("whole: "), "nothing of its own shows that the end is missing"
    assert "cut: 0 signed round 2, and no line says so" in say("audit-log", "verify", run, received, code=1)
    (run / "audit.jsonl").write_bytes(lines[0] + lines[1].replace(b'"round": 2', b'"round": 3'))
    assert say("audit-log", "verify", run, code=1).startswith("rewritten: line 2 ")
