"""What a federation's parts promise: file, keys, frames, receipts, audit log, outbox."""

import json
import os
import stat
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.base.errors import ConsilienceError
from consilience.federation.peers import keys
from consilience.federation.peers.audit import AuditLog, broken_at, read_audit
from consilience.federation.peers.federation import Federation, Member, fingerprint
from consilience.federation.peers.frame import Format
from consilience.federation.peers.outbox import HELD, Outbox
from consilience.federation.peers.untrusted_input import InvalidInput, frame_from, status_from, table_from
from tests.federation.rogue import mutated

SIGNING = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in range(4)]
SHARED = np.arange(12, dtype=np.float32).reshape(6, 2)
KEYS = [keys.public_key(key) for key in SIGNING]
SMALL_ORDER = [
    "01" + "00" * 31,  # the neutral point
    "ec" + "ff" * 30 + "7f",  # of order 2
    "00" * 32,  # of order 4
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",  # of order 8
    "ed" + "ff" * 30 + "7f",  # another spelling of a point of order 4
]
F = np.full((6, 2), 0.5, np.float32)


@pytest.fixture
def federation() -> Federation:
    roster = tuple(
        Member(name, f"localhost:{7000 + index}", f"cn-{name}", keys.public_key(key))
        for index, (name, key) in enumerate(zip("abcd", SIGNING, strict=True))
    )
    settings = {"run": {"rounds": 9}, "method": {"lam": 0.5}}
    return Federation("trial", "1", ("no", "yes"), 6, fingerprint(SHARED), 4.0, 3, settings, roster)


def test_a_federation_file_reads_as_it_was_written(federation):
    again = table_from(Federation, federation.to_toml().encode(), "file")
    assert again == federation and again.identity() == federation.identity()


def test_every_field_is_part_of_the_identity_and_named_when_it_differs(federation):
    other_member = replace(federation.roster[1], address="elsewhere:7")
    changes = {
        "name": ({"name": "x"}, "name (ours 'trial', theirs 'x')"),
        "id": ({"id": "2"}, "id "),
        "classes": ({"classes": ("no", "maybe")}, "classes "),
        "shared": ({"shared": "00" * 32}, "shared "),
        "deadline": ({"deadline": 5.0}, "deadline (ours 4.0, theirs 5.0)"),
        "quorum": ({"quorum": 4}, "quorum "),
        "settings": ({"settings": {"run": {"rounds": 9}, "method": {"lam": 1.0}}}, "settings.method.lam (ours 0.5, "),
        "member": ({"roster": (federation.roster[0], other_member, *federation.roster[2:])}, "roster.b.address "),
        "order": ({"roster": federation.roster[::-1]}, "roster (ours 'a, b, c, d', theirs 'd, c, b, a')"),
    }
    for change, named in changes.values():
        other = replace(federation, **change)
        assert other.identity() != federation.identity()
        (difference,) = federation.differences(other)
        assert difference.startswith(named), difference


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("quorum = 3", "quorum = 2", "more than half"),
        ("quorum = 3", 'quorum = "3"', "quorum"),
        ("quorum = 3", "", "'quorum' is missing"),
        ("quorum = 3", "qorum = 3", "unknown setting 'qorum'. Did you mean 'quorum'"),
        ("deadline = 4.0", "deadline = 0", "deadline"),
        ("deadline = 4.0", "deadline = nan", "a finite number"),
        ("deadline = 4.0", "deadline = 4.0\nextra = 1", "unknown setting 'extra'"),
        ('agent = "b"', 'agent = "a"', "two members have the same agent"),
        ('agent = "b"', 'agent = "b/../c"', "letters, digits"),
        ('address = "localhost:7001"', 'address = "localhost"', "host:port"),
        ('address = "localhost:7001"', "address = 'local\"host:7001'", "host:port"),
        ('address = "localhost:7001"', 'address = "localhost:7001#a=b:1"', "host:port"),
        ('address = "localhost:7001"', 'address = "localhost:7001#root_ca_certificate_base64=QQ=="', "host:port"),
        ('address = "localhost:7001"', 'address = "localhost:0"', "a port from 1 to 65535"),
        ('address = "localhost:7001"', 'address = "localhost:70001"', "a port from 1 to 65535"),
        ('address = "localhost:7001"', 'address = "localhost:7000"', "two members have the same address"),
        ('address = "localhost:7001"', 'address = "localhost:٧"', "host:port"),
        ('agent = "b"', 'agent = ".."', "begin with a letter or digit"),
        ('agent = "b"', 'agent = "."', "begin with a letter or digit"),
        ('agent = "b"', 'agent = "b\\n"', "letters, digits"),
        ('agent = "b"', 'agent = "A"', "two members have the same agent"),
        ('certificate = "cn-b"', 'certificate = "cn-\\u001b"', "printable ASCII"),
        ('key = "', 'key = "zz', "Ed25519 public key"),
        (f'key = "{KEYS[1]}"', f'key = "{KEYS[1].upper()}"', "Ed25519 public key"),
        (f'key = "{KEYS[1]}"', f'key = " {KEYS[1]}"', "Ed25519 public key"),
        (f'key = "{KEYS[1]}"', f'key = "{KEYS[0]}"', "two members have the same key"),
        *((f'key = "{KEYS[1]}"', f'key = "{point}"', "Ed25519 public key") for point in SMALL_ORDER),
        ("deadline = 4.0", f"deadline = {'9' * 401}", "64 bits"),
        ("deadline = 4.0", "deadline = 1e300", "below"),
        ("deadline = 4.0", "deadline = 0x" + "f" * 9000, "64 bits"),
        ("shared_samples = 6", "shared_samples = 900000000", "bytes; share fewer samples"),
        ("shared_samples = 6", "shared_samples = 99999999999", "below"),
        ("epoch = 1", "epoch = 99999999999", "below"),
        ("epoch = 1", "epoch = true", "epoch"),
        ('"yes"', '"no"', "two classes have the same name"),
        ('"yes"', '"y\\u0007"', "printable"),
        ("rounds = 9", f"rounds = {'9' * 30}", "64 bits"),
        ("rounds = 9", f"rounds = 9\n{'a.' * 6}b = 1", "plain values"),
        ("rounds = 9", f"rounds = 9\n{'a.' * 200_000}b = 1", "a key has more than 8 dots"),
        ("[settings.run]", "[settings.run", "not valid TOML"),
    ],
)
def test_a_wrong_field_is_an_error_that_names_it(federation, old, new, named):
    text = federation.to_toml()
    assert old in text
    with pytest.raises(ConsilienceError, match=named):
        table_from(Federation, text.replace(old, new, 1).encode(), "file")


def test_the_fingerprint_of_shared_data_knows_order_and_type():
    assert fingerprint(SHARED) == fingerprint(SHARED.copy())
    assert len({fingerprint(x) for x in (SHARED, SHARED[::-1], SHARED.T, SHARED.astype(np.float64))}) == 4


def test_a_frame_brings_back_the_predictions_and_who_signed_what(federation):
    format = Format(federation)
    before = frame_from(format, format.make(SIGNING[2], 2, 4, 7, {}, F)[1], 2, 4)
    data = format.make(SIGNING[1], 1, 5, 8, {2: before.receipt}, F)[1]
    assert len(data) == format.length
    frame = frame_from(format, data, 1, 5)
    np.testing.assert_array_equal(frame.predictions, F)
    assert frame.others == (before.receipt,) and format.is_genuine(frame.others[0])
    assert (frame.receipt.agent, frame.receipt.round, frame.receipt.sequence) == (1, 5, 8)


@pytest.mark.parametrize("form", ["float32", "float16", "top-k", "label"])
def test_a_site_has_its_own_frame_as_its_peers_read_it(federation, form):
    settings = federation.settings | {"method": {"lam": 0.5, "wire": {"form": form, "top": 1}}}
    format = Format(replace(federation, settings=settings))
    f = np.random.default_rng(0).dirichlet((1, 1), 6).astype(np.float32)
    heard = format.make(SIGNING[2], 2, 4, 7, {}, f)[0].receipt
    frame, data = format.make(SIGNING[1], 1, 5, 8, {2: heard}, f)
    read = frame_from(format, data, 1, 5)
    assert (frame.receipt, frame.others) == (read.receipt, read.others)
    assert frame.predictions.dtype == np.float32 and frame.predictions.tobytes() == read.predictions.tobytes()


def test_a_frame_is_rejected_with_the_reason(federation):
    format, other = Format(federation), Format(replace(federation, id="2"))
    good = format.make(SIGNING[1], 1, 5, 8, {}, F)[1]
    bent = F.copy()
    bent[3] = 0.7
    wrong = {
        "bytes instead of": good[:-1],
        "wrong magic": b"X" + good[1:],
        r"wrong version \(7 instead of 2\)": good[:4] + b"\7" + good[5:],
        "wrong run": other.make(SIGNING[1], 1, 5, 8, {}, F)[1],
        r"wrong agent \(2 instead of 1\)": format.make(SIGNING[2], 2, 5, 8, {}, F)[1],
        r"wrong round \(4 instead of 5\)": format.make(SIGNING[1], 1, 4, 8, {}, F)[1],
        "not signed by b": format.make(SIGNING[2], 1, 5, 8, {}, F)[1],
        "1 of 6 rows are not probabilities": format.make(SIGNING[1], 1, 5, 8, {}, bent)[1],
        "6 of 6 rows are not finite": format.make(SIGNING[1], 1, 5, 8, {}, F * np.nan)[1],
    }
    for reason, data in wrong.items():
        with pytest.raises(InvalidInput, match=reason):
            frame_from(format, data, 1, 5)


def test_two_signatures_for_one_round_are_a_contradiction_a_repetition_is_not(federation):
    format = Format(federation)

    def receipt(number: int, f: np.ndarray):
        return frame_from(format, format.make(SIGNING[1], 1, number, 8, {}, f)[1], 1).receipt

    other = np.eye(2, dtype=np.float32)[[0, 1, 0, 1, 0, 1]]
    assert receipt(5, F).contradicts(receipt(5, other))
    assert not receipt(5, F).contradicts(receipt(5, F))
    assert not receipt(5, F).contradicts(receipt(6, other))
    assert not format.is_genuine(receipt(5, F)._replace(payload_hash=receipt(5, other).payload_hash))


def test_a_status_answers_one_request_only(federation):
    format = Format(federation)
    data = format.pack_status(SIGNING[1], 1, 5, 99.5, b"n" * 16)
    status = status_from(format, data, 1, b"n" * 16)
    assert (status.round, status.clock, status.same_run, status.same_shared) == (5, 99.5, True, True)
    for agent, nonce, given in ((1, b"m" * 16, data), (2, b"n" * 16, data), (1, b"n" * 16, data[:-64] + bytes(64))):
        with pytest.raises(InvalidInput):
            status_from(format, given, agent, nonce)
    foreign = Format(replace(federation, deadline=9.0)).pack_status(SIGNING[1], 1, 5, 0.0, b"n" * 16)
    assert not status_from(format, foreign, 1, b"n" * 16).same_run


def test_twenty_thousand_damaged_frames_are_rejected_without_growth_of_memory(federation):
    format, draw = Format(federation), np.random.default_rng(0)
    good = format.make(SIGNING[1], 1, 5, 8, {}, F)[1]

    def reject(count: int) -> None:
        for _ in range(count):
            try:
                frame_from(format, mutated(good, draw), 1, 5)
            except InvalidInput:
                continue
            raise AssertionError("a damaged frame was accepted")

    reject(500)
    tracemalloc.start()
    reject(500)
    before, _ = tracemalloc.get_traced_memory()
    reject(5000)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 20_000
    reject(14_000)


def test_a_round_is_signed_once_even_after_a_restart(federation, tmp_path):
    first, length = Outbox(federation, "b", SIGNING[1], tmp_path).publish(5, F, {})
    other = np.eye(2, dtype=np.float32)[[0] * 6]
    outbox = Outbox(federation, "b", SIGNING[1], tmp_path)
    assert outbox.round == 5
    again, _ = outbox.publish(5, other, {})
    assert again.receipt == first.receipt and length == Format(federation).length
    later, _ = outbox.publish(6, other, {})
    assert later.receipt.sequence > first.receipt.sequence
    outbox.publish(9, other, {})
    assert sorted(path.stem for path in tmp_path.glob("*.frame")) == ["6", "9"]


class Query:
    """A question as Zenoh hands it over."""

    def __init__(self, asker: str, topic: str) -> None:
        self.key_expr, self.parameters = f"consilience/a/{asker}/agent/{topic}", f"nonce={'00' * 16}"
        self.replies: list[bytes] = []
        self.dropped = False

    def reply(self, key: str, data: bytes) -> None:
        self.replies.append(data)

    def drop(self) -> None:
        self.dropped = True


def test_few_questions_of_each_peer_wait_for_a_round_and_none_displaces_another(federation, tmp_path):
    outbox = Outbox(federation, "a", SIGNING[0], tmp_path)
    many, single = [Query("b", "round/1") for _ in range(500)], Query("c", "round/1")
    for query in [*many, single]:
        outbox.answer(query)
    assert outbox.odd == {"a": 0, "b": 500 - HELD, "c": 0, "d": 0}
    outbox.publish(1, F, {})
    assert [len(query.replies) for query in many] == [1] * HELD + [0] * (500 - HELD)
    assert len(single.replies) == 1 and single.dropped


def test_what_was_published_in_another_federation_is_not_published_again(federation, tmp_path):
    Outbox(federation, "b", SIGNING[1], tmp_path).publish(5, F, {})
    with pytest.raises(ConsilienceError, match="of another federation"):
        Outbox(replace(federation, id="2"), "b", SIGNING[1], tmp_path)


def test_receipts_with_a_changed_byte_are_not_read_back(federation, tmp_path):
    outbox = Outbox(federation, "a", SIGNING[0], tmp_path)
    receipts = {0: outbox.publish(1, F, {})[0].receipt}
    outbox.keep_receipts(1, receipts)
    outbox.flush()
    assert Outbox(federation, "a", SIGNING[0], tmp_path).kept_receipts() == receipts
    path, again = tmp_path / "receipts", Outbox(federation, "a", SIGNING[0], tmp_path)
    good = path.read_bytes()
    for place in range(len(good)):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(InvalidInput, match="its checksum is wrong"):
            again.kept_receipts()


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


def test_private_keys_are_for_their_owner_alone_and_never_overwritten(tmp_path):
    before = os.umask(0)
    try:
        public = keys.new_signing_key(tmp_path / "signing.key")
        keys.new_authority(tmp_path / "ca")
        keys.issue_certificate(tmp_path / "ca", tmp_path, "a", "127.0.0.1")
    finally:
        os.umask(before)
    for path in (tmp_path / "signing.key", tmp_path / "tls.key", tmp_path / "ca" / "ca.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert keys.public_key(keys.read_signing_key(tmp_path / "signing.key")) == public
    with pytest.raises(ConsilienceError, match="never overwritten"):
        keys.new_signing_key(tmp_path / "signing.key")


def test_a_certificate_says_until_when_it_is_valid(tmp_path):
    keys.new_authority(tmp_path / "ca")
    keys.issue_certificate(tmp_path / "ca", tmp_path, "a", "site.example", days=2)
    certificate, now = keys.read_certificate(tmp_path / "tls.crt"), datetime.now(UTC)
    assert certificate.name == "a" and certificate.problem(now) == ""
    assert "expired on" in certificate.problem(now + timedelta(days=3))
    assert "valid only from" in certificate.problem(now - timedelta(days=1))


def test_the_command_line_loads_neither_zenoh_nor_cryptography():
    code = "import sys, json, consilience.cli; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert "consilience" in loaded and not loaded & {"zenoh", "cryptography", "torch", "sklearn"}


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
