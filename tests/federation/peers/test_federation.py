"""The federation file: read strictly, one identity, the same at every site."""

import re
import tomllib
from dataclasses import replace

import numpy as np
import pytest

from consilience.base.errors import ConsilienceError
from consilience.federation.peers.federation import Federation, fingerprint
from consilience.federation.peers.keys import public_key
from consilience.federation.peers.untrusted_input import table_from
from tests.federation.conftest import sign
from tests.federation.peers.conftest import KEYS, SHARED, SITE_KEYS

SMALL_ORDER = [
    "01" + "00" * 31,  # the neutral point
    "ec" + "ff" * 30 + "7f",  # of order 2
    "00" * 32,  # of order 4
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",  # of order 8
    "ed" + "ff" * 30 + "7f",  # another spelling of a point of order 4
]


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
        (f'encryption = "{public_key(SITE_KEYS[1].encryption)}"', f'encryption = "{"0" * 64}"', "no X25519 public key"),
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


def address(trial, name: str) -> str:
    """Where a site listens."""
    return tomllib.loads((trial.sites[name].parent / "member.toml").read_text())["address"]


@pytest.mark.faults
@pytest.mark.parametrize(
    ("field", "old", "new"),
    [
        ("settings.method.lam", "lam = 0.5", "lam = 0.25"),
        ("deadline", "deadline = ", "deadline = 1"),
        ("name", 'name = "digits"', 'name = "numbers"'),
        ("roster.1.address", None, "127.0.0.1:1"),
    ],
)
def test_a_site_with_another_federation_file_is_refused_with_the_field(federate, field, old, new):
    trial = federate(4)
    odd, *others = trial.names
    text = (trial.folder / "federation.toml").read_text()
    if old is None:
        old = address(trial, "1")
    changed = text.replace(old, new, 1)
    assert changed != text
    own = trial.sites[odd].parent / "federation.toml"
    own.write_text(changed)
    sign(own, *trial.sites.values())
    site = trial.sites[odd].read_text()
    trial.sites[odd].write_text(site.replace("../federation.toml", "federation.toml"))
    trial.start()
    trial.finish(*others)
    assert trial.code(odd) == 2
    assert re.search(
        rf"cannot work with its peers: \d: its federation file differs in {re.escape(field)} \(ours", trial.output(odd)
    )
    assert not trial.events(odd, "round")
    for name in others:
        assert any(field in event["reason"] and event["agent"] == odd for event in trial.events(name, "refused"))
        assert f"refused {odd}: its federation file differs in {field}" in trial.output(name)
        assert all(odd in event["absent"] for event in trial.events(name, "round"))
    trial.check(*others, rounds=6)


@pytest.mark.faults
def test_a_run_does_not_resume_with_another_federation_file(federate):
    trial = federate(4, rounds=2)
    trial.start()
    trial.finish()
    first = trial.names[0]
    (trial.sites[first].parent / "run" / "summary.json").unlink()
    path = trial.folder / "federation.toml"
    path.write_text(path.read_text().replace("lam = 0.5", "lam = 0.25").replace("version = 1", "version = 2"))
    sign(path, *trial.sites.values())
    trial.start(first)
    assert trial.code(first) == 2
    assert (
        "begun with another federation file; it differs in settings.method.lam (ours 0.5, theirs 0.25)"
        in trial.output(first)
    )
