"""What a security officer types: members are revoked and get new keys, and audit logs are verified."""

import shutil
from dataclasses import replace
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
from consilience.federation.peers.untrusted_input import frame_from, read_federation, read_member, stored_receipts
from consilience.federation.site import load_site
from tests.federation.conftest import lay_out, sign


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
        output = say("federation", "sign", file, change, "--site", folder / name / "site.toml")
        assert f"signed by {signers}; 3 are needed" in output
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
    assert "epoch 2" in say("federation", "next", file)
    assert read_federation(file).identity() != before.identity()


def revoke(folder: Path, name: str, signers: str, out: str = "change.toml") -> Path:
    """A change that the signers have signed, each at its own site."""
    file, change = folder / "federation.toml", folder / out
    first, *others = signers
    say("federation", "change", file, "--remove", name, "--site", folder / first / "site.toml", "--out", change)
    for other in others:
        say("federation", "sign", file, change, "--site", folder / other / "site.toml")
    return change


def test_the_next_epoch_is_refused_while_a_signed_change_is_not_applied(folder: Path) -> None:
    file, site = folder / "federation.toml", folder / "2" / "site.toml"
    change = revoke(folder, "3", "012")
    change.unlink()  # the last signature made a quorum: the site that gave it keeps the change
    with pytest.raises(ConsilienceError, match=r"has signed a change .* \(revokes 3\).*consilience federation apply"):
        say("federation", "next", file, "--site", site)
    assert read_federation(file).epoch == 1
    assert "0, 1, 2; quorum 2, epoch 2" in say("federation", "apply", file, "--site", site)
    assert "epoch 3" in say("federation", "next", file, "--site", site)
    assert read_federation(file).names == ("0", "1", "2"), "it starts from the changed roster"
    assert not load_site(site).changes.revoked


def test_a_later_epoch_that_still_has_a_revoked_member_is_refused_everywhere(folder: Path) -> None:
    file, site = folder / "federation.toml", folder / "0" / "site.toml"
    shutil.copy(revoke(folder, "3", "012"), site.parent)
    assert load_site(site).changes.revoked == {"3": ["0", "1", "2"]}
    (site.parent / "change.toml").unlink()
    assert load_site(site).changes.revoked == {"3": ["0", "1", "2"]}, "without the file of the operator, too"
    agreed = read_federation(file)
    file.write_text(replace(agreed, deadline=9.0).to_toml())
    sign(file, *(folder / name / "site.toml" for name in "012"))
    with pytest.raises(ConsilienceError, match="another one than the newest that this site has seen"):
        load_site(site)
    file.write_text(replace(agreed, epoch=2).to_toml())
    (site.parent / "patients.npz").touch()
    for command in (("run",), ("check",), ("answer",), ("predict", site.parent / "patients.npz", "--collective")):
        with pytest.raises(ConsilienceError, match="epoch 2 has the key of 3 that a quorum withdrew in epoch 1"):
            say("site", *command, "--site", site)
    (kept,) = (site.parent / "keys" / "changes").iterdir()
    with pytest.raises(ConsilienceError, match="Copy it first"):
        say("federation", "apply", kept / "federation.toml", "--site", site)
    shutil.copy(kept / "federation.toml", file)
    say("federation", "apply", file, "--site", site)
    assert not load_site(site).changes.revoked
    (kept / "change.toml").write_text((kept / "change.toml").read_text().replace('["3"]', '["2"]'))
    with pytest.raises(ConsilienceError, match=r"keeps a change that a quorum signed, is damaged.*Restore it"):
        load_site(site)


def test_a_second_change_and_a_new_start_readmit_nobody(folder: Path) -> None:
    """Of six members: a quorum is four, and both changes are for the same federation file."""
    lay_out(folder / "six", 6)
    folder = folder / "six"
    file, site = folder / "federation.toml", folder / "0" / "site.toml"
    for name in "54":
        change = revoke(folder, name, "0123", f"change-{name}.toml")
        shutil.copy(change, site.parent / "change.toml")
        load_site(site)
    assert sorted(load_site(site).changes.revoked) == ["4", "5"]
    assert "0, 1, 2, 3; quorum 3, epoch 2" in say("federation", "apply", file, change, "--site", site)
    assert sorted(read_federation(file).names) == list("0123"), "both, though only one of them was named"


def test_who_was_revoked_comes_back_with_a_new_key_and_with_no_other(folder: Path) -> None:
    file, site = folder / "federation.toml", folder / "0" / "site.toml"
    old = folder / "3" / "member.toml"
    say("federation", "apply", file, revoke(folder, "3", "012"), "--site", site)
    make_keys(folder / "new", "3", read_member(old).address, folder / "trial-ca")
    change = folder / "back.toml"
    with pytest.raises(ConsilienceError, match="To come back, make a new key"):
        say("federation", "change", file, "--member", old, "--site", site, "--out", change)
    member = folder / "new" / "member.toml"
    say("federation", "change", file, "--member", member, "--site", site, "--out", change)
    say("federation", "sign", file, change, "--site", folder / "1" / "site.toml")
    say("federation", "apply", file, change, "--site", site)
    assert read_federation(file).member("3").key == read_member(member).key


def test_an_audit_log_is_said_to_be_whole_cut_or_rewritten(folder: Path) -> None:
    run = folder / "0" / "run"
    federation = read_federation(folder / "federation.toml")
    key = read_signing_key(folder / "0" / "keys" / "signing.key")
    log = AuditLog(run / "audit.jsonl", key)
    shutil.copy(folder / "federation.toml", run / "federation.toml")
    format = Format(federation)
    f = np.full((format.samples, format.classes), 1 / format.classes, np.float32)
    frame = format.make(key, 0, 2, 1, {}, f)[1]
    receipt = frame_from(format, frame, 0).receipt
    log.add("start", agent="0")
    log.add("sent", round=2, bytes=len(frame), hash=receipt.payload_hash.hex())
    log.close()
    received = folder / "1" / "run" / "published" / "receipts"
    received.parent.mkdir(parents=True)
    received.write_bytes(stored_receipts(2, format.pack_receipts({0: receipt})))
    assert say("site", "log", run, received).startswith("whole: ")
    lines = (run / "audit.jsonl").read_bytes().splitlines(keepends=True)
    (run / "audit.jsonl").write_bytes(lines[0])
    assert say("site", "log", run).startswith("whole: "), "nothing of its own shows that the end is missing"
    assert "cut: 0 signed round 2, and no line says so" in say("site", "log", run, received, code=1)
    (run / "audit.jsonl").write_bytes(lines[0] + lines[1].replace(b'"round": 2', b'"round": 3'))
    assert say("site", "log", run, code=1).startswith("rewritten: line 2 ")
