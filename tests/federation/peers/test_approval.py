"""A federation file is signed by a quorum, not expired, and not older than the newest that a site has seen."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from consilience import ConsilienceError
from consilience.cli.main import app
from consilience.federation.membership import VALID, make_keys, sign_federation
from consilience.federation.peers.approval import check_approved, signers, with_signature, with_signatures_of
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.untrusted_input import read_federation
from consilience.federation.site import load_site
from tests.federation.peers.conftest import SIGNING


def signed(federation: Federation, names: str) -> Federation:
    for name in names:
        federation = with_signature(federation, name, SIGNING["abcd".index(name)])
    return federation


def test_a_quorum_signs_each_its_own_copy_and_the_signatures_add_up(federation, tmp_path) -> None:
    copies = [signed(federation, name) for name in "abc"]
    for copy in copies:
        with pytest.raises(ConsilienceError, match=r"1 members have signed version 1 .*; 3 of a, b, c, d are needed"):
            check_approved(copy, tmp_path)
    whole = with_signatures_of(copies[0], copies[1:])
    assert signers(whole) == ["a", "b", "c"] and whole.identity() == federation.identity()
    check_approved(whole, tmp_path)
    with pytest.raises(ConsilienceError, match=r"no copy of the file; it differs in deadline"):
        with_signatures_of(whole, [replace(federation, deadline=9.0)])


def test_signatures_are_for_the_file_and_its_member_and_not_for_the_epoch(federation, tmp_path) -> None:
    whole = signed(federation, "abc")
    assert signers(replace(whole, epoch=7)) == ["a", "b", "c"]
    assert signers(replace(whole, deadline=9.0)) == []
    swapped = dict(zip("abc", [whole.signatures[name] for name in "bca"], strict=True))
    assert signers(replace(whole, signatures=swapped)) == []
    assert signers(replace(whole, signatures={"a": "no number", "b": whole.signatures["b"]})) == ["b"]
    with pytest.raises(ConsilienceError, match="is not the one that the federation file has for a"):
        with_signature(federation, "a", SIGNING[1])


def test_an_older_file_or_another_one_of_the_same_version_is_refused(federation, tmp_path) -> None:
    second = signed(replace(federation, version=2, deadline=9.0), "abc")
    check_approved(signed(federation, "abc"), tmp_path)
    check_approved(second, tmp_path)
    check_approved(replace(second, epoch=5, signatures={}), tmp_path)  # it has seen it, signed
    with pytest.raises(ConsilienceError, match=r"\(version 1\) is older than the newest .*\(version 2.*deadline"):
        check_approved(signed(federation, "abcd"), tmp_path)
    with pytest.raises(ConsilienceError, match="another one than the newest"):
        check_approved(signed(replace(federation, version=2, deadline=3.0), "abcd"), tmp_path)
    check_approved(signed(replace(federation, id="2"), "abc"), tmp_path)  # another federation


def test_members_of_the_newest_file_sign_the_next_one_and_nobody_else(federation, tmp_path) -> None:
    """Who writes a file with keys of its own for all members is not their quorum."""
    check_approved(signed(federation, "abc"), tmp_path)
    strangers = tuple(replace(m, key=n.key) for m, n in zip(federation.roster, federation.roster[::-1], strict=True))
    usurped = replace(federation, version=2, roster=strangers)
    for name, key in zip("abcd", SIGNING[3::-1], strict=True):
        usurped = with_signature(usurped, name, key)
    assert len(signers(usurped)) == 4
    with pytest.raises(ConsilienceError, match=r"0 members have signed version 2 .*\(nobody\)"):
        check_approved(usurped, tmp_path)
    check_approved(signed(federation, "abc"), tmp_path)


def test_a_file_expires_and_is_renewed_by_a_quorum(federation, tmp_path) -> None:
    whole = signed(replace(federation, expires="2027-03-01"), "abc")
    day = datetime(2027, 3, 1, tzinfo=UTC).date()
    check_approved(whole, tmp_path, day)
    with pytest.raises(ConsilienceError, match=r"expired on 2027-03-01.*federation next --expires"):
        check_approved(whole, tmp_path, day + timedelta(days=1))
    with pytest.raises(ConsilienceError, match="which is no day"):
        replace(federation, expires="2027-02-30")


def test_what_three_people_type_to_renew_and_to_admit(site: Path, tmp_path: Path) -> None:
    def say(*words: str | Path) -> str:
        result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
        return result.output.replace("\n", " ")

    file, other, keys = site.parent / "federation.toml", tmp_path / "b" / "site.toml", site.parent / "keys"
    first = load_site(site).federation
    assert first.expires == (datetime.now(UTC) + VALID).date().isoformat()
    assert read_federation(keys / "newest" / f"{first.id}.toml") == first
    shutil.copy(file, old := tmp_path / "old.toml")
    output = say("federation", "next", file, "--site", site, "--expires", "2099-12-31")
    assert "Version 2, valid until 2099-12-31: 2 members sign it" in output
    with pytest.raises(ConsilienceError, match="0 members have signed version 2"):
        load_site(site)
    shutil.copy(file, copy := tmp_path / "copy.toml")
    sign_federation(copy, other)
    output = say("federation", "sign", file, "--site", site, "--from", copy)
    assert "signed by a, b; 2 are needed" in output
    assert load_site(site).federation.epoch == 2
    shutil.copy(old, file)
    for command in (lambda: load_site(site), lambda: say("federation", "apply", file, "--site", site)):
        with pytest.raises(ConsilienceError, match="is older than the newest that this site has seen"):
            command()

    shutil.copy(tmp_path / "copy.toml", file)
    make_keys(tmp_path / "d", "d", "127.0.0.1:7009", tmp_path / "ca")
    change = tmp_path / "change.toml"
    say("federation", "change", file, "--member", tmp_path / "d" / "member.toml", "--site", site, "--out", change)
    say("federation", "sign", file, change, "--site", other)
    assert "a, b, c, d; quorum 3, epoch 3" in say("federation", "apply", file, change, "--site", site)
    assert load_site(site).federation.version == 3, "who applied the signed change needs no more signatures"
    with pytest.raises(ConsilienceError, match="0 members have signed version 3"):
        check_approved(read_federation(file), tmp_path / "d" / "keys")
    for name in "abc":
        sign_federation(file, tmp_path / name / "site.toml")
    check_approved(read_federation(file), tmp_path / "d" / "keys")
