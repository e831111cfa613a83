"""Sealed messages: for their readers alone, bound to run, epoch, round, sender and reader, of few sizes."""

from dataclasses import replace

import pytest

from consilience.federation.peers import sealing
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.frame import Format
from consilience.federation.peers.sealing import HEADER, SLOT, SMALL, VERSION, Kind, version_hint
from consilience.federation.peers.untrusted_input import InvalidInput, VersionError, frame_from
from tests.federation.peers.conftest import SIGNING, F, federation_of, sealer

NEWER = """
from consilience.federation.peers import sealing, untrusted_input

sealing.VERSION += 1
from consilience.cli import main

main()
"""
"""A site of the next version of the protocol."""


def test_a_message_is_read_by_its_readers_alone(federation: Federation) -> None:
    message = sealer(federation, "a").seal(Kind.RECEIPTS, b"secret words", ["b", "c"], 5)
    for name in "bc":
        opened = sealer(federation, name).open(message, Kind.RECEIPTS)
        assert opened == (Kind.RECEIPTS, "a", 5, federation.identity(), b"secret words", federation.epoch)
    for name, why in (("d", "not sealed for this site"), ("a", "not from a peer")):
        with pytest.raises(InvalidInput, match=why):
            sealer(federation, name).open(message, Kind.RECEIPTS)
    assert b"secret" not in message


def test_every_changed_byte_of_a_message_is_noticed(federation: Federation) -> None:
    data = Format(federation).make(SIGNING[0], 0, 5, 8, {}, F)[1]
    for kind in (Kind.STATUS, Kind.FRAME):
        message = sealer(federation, "a").seal(kind, data, ["b"], 5)
        for index in range(len(message)):
            bad = bytearray(message)
            bad[index] ^= 1
            with pytest.raises(InvalidInput):
                sealer(federation, "b").open(bytes(bad), kind)
        for bad in (b"", message[:-1], message + b"x", message[: HEADER.size]):
            with pytest.raises(InvalidInput):
                sealer(federation, "b").open(bad, kind)


@pytest.mark.parametrize("field", range(2, 8))
def test_a_middleman_cannot_change_kind_run_epoch_round_or_sender(federation: Federation, field: int) -> None:
    message = sealer(federation, "a").seal(Kind.STATUS, b"words", ["b"], 5)
    fields = list(HEADER.unpack_from(message))
    fields[field] = {2: Kind.FIELDS, 3: 2, 4: bytes(32), 5: 2, 6: 6, 7: b"c"}[field]
    with pytest.raises(InvalidInput):
        sealer(federation, "b").open(HEADER.pack(*fields) + message[HEADER.size :], *Kind)


def test_a_slot_of_one_reader_opens_nothing_for_another(federation: Federation) -> None:
    message = sealer(federation, "a").seal(Kind.STATUS, b"words", ["b", "c"], 5)
    first, second = message[HEADER.size :][: SLOT.size], message[HEADER.size + SLOT.size :][: SLOT.size]
    mixed = message[: HEADER.size] + second[:8] + first[8:] + first[:8] + second[8:]
    for name in "bc":
        with pytest.raises(InvalidInput, match="not sealed for this site"):
            sealer(federation, name).open(mixed + message[HEADER.size + 2 * SLOT.size :], Kind.STATUS)


def test_a_session_key_is_of_one_run_sender_and_reader(federation: Federation) -> None:
    """A member that has one, with which another opens its messages, cannot use it as a third, or in another run."""
    b, reader = sealer(federation, "b"), sealer(federation, "a")
    reader.open(b.seal(Kind.STATUS, b"words", ["a"]), Kind.STATUS)
    for change in ({"_me": "c"}, {"_run": bytes(32)}):
        forged = sealer(federation, "b")
        forged._own = dict(b._own)
        for name, value in change.items():
            setattr(forged, name, value)
        with pytest.raises(InvalidInput, match="not sealed for this site"):
            reader.open(forged.seal(Kind.STATUS, b"words", ["a"]), Kind.STATUS)


def test_ever_new_session_keys_fill_no_memory(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "MOST_SESSIONS", 5)
    reader = sealer(federation, "a")
    for _ in range(50):
        reader.open(sealer(federation, "b").seal(Kind.STATUS, b"words", ["a"]), Kind.STATUS)
        assert len(reader._others) <= 5


def test_a_member_cannot_speak_in_the_name_of_another(federation: Federation) -> None:
    """It seals for the reader, names the other as the sender, and signs with its own key."""
    forged = sealer(federation, "b")
    forged._me = "c"
    for kind in (Kind.STATUS, Kind.RECEIPTS, Kind.QUESTION, Kind.FIELDS):
        with pytest.raises(InvalidInput, match="not signed by c"):
            sealer(federation, "a").open(forged.seal(kind, b"words", ["a"]), kind)
    frame = Format(federation).make(SIGNING[1], 2, 5, 8, {}, F)[1]
    opened = sealer(federation, "a").open(forged.seal(Kind.FRAME, frame, ["a"], 5), Kind.FRAME)
    with pytest.raises(InvalidInput, match="not signed by c"):
        frame_from(Format(federation), opened.data, 2, 5)


def test_sizes_tell_short_messages_from_frames_and_nothing_else(federation: Federation) -> None:
    wide = replace(federation, shared_samples=1000)
    seal, unit = sealer(wide, "a").seal, 4 + Format(wide).length + 64
    plain = HEADER.size + SLOT.size + 16
    assert {len(seal(Kind.STATUS, bytes(n), ["b"])) for n in (0, 1, 100, 956)} == {plain + SMALL}
    assert {len(seal(Kind.RECEIPTS, bytes(n), ["b"])) for n in (957, 5000, unit - 68)} == {plain + unit}
    assert len(seal(Kind.FRAME, bytes(Format(wide).length), ["b"])) == plain + unit
    assert len(seal(Kind.FIELDS, bytes(unit), ["b"])) == plain + 2 * unit


def test_another_version_of_the_protocol_is_named(federation: Federation) -> None:
    for version, who in ((VERSION + 1, "this site"), (VERSION - 1, "it")):
        wanted = f"version {version} of the protocol, this site version {VERSION}: {who} must upgrade consilience"
        with pytest.raises(VersionError, match=wanted):
            sealer(federation, "b").open(version_hint()[:4] + version.to_bytes(2, "little"), Kind.STATUS)


@pytest.mark.faults
def test_sites_of_adjoining_versions_say_who_must_upgrade_and_the_others_go_on(federate, tmp_path) -> None:
    """The site of the other version waits: it is the word of nobody who signed it. Upgraded, it takes part."""
    trial = federate(4, rounds=3, deadline=2.0)
    newer, *others = trial.names
    script = tmp_path / "newer.py"
    script.write_text(NEWER)
    trial.start_script(newer, script, "site", "run", "--site", str(trial.sites[newer]))
    trial.start(*others)
    trial.finish(*others)
    trial.check(*others, rounds=3)
    versions = f"version {VERSION + 1} of the protocol, this site version {VERSION}"
    assert f"refused {newer}: it has {versions}: this site must upgrade consilience" in trial.output(others[0])
    versions = f"version {VERSION} of the protocol, this site version {VERSION + 1}"
    trial.start(*others, more=("--serve",))
    trial.until_said(newer, f"it has {versions}: it must upgrade consilience")
    trial.until_said(newer, f"waiting for {others[0]} (it has {versions}")
    trial.kill(newer)
    trial.start(newer)
    trial.finish()
    trial.check(*others, rounds=3)


def test_a_message_of_another_run_says_of_which(federation: Federation) -> None:
    other = replace(federation_of(), deadline=9.0)
    message = sealer(other, "a").seal(Kind.STATUS, b"words", ["b"], 5)
    assert sealer(federation, "b").open(message, Kind.STATUS).run == other.identity()
