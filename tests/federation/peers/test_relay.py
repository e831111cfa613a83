"""A relay passes on what belongs to its federations, between sites that only dial out."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("zenoh", reason="needs consilience[peers]")

from consilience.base.errors import ConsilienceError
from consilience.federation.peers.carrier import Query
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.keys import issue_certificate
from consilience.federation.peers.network import Network, open_carriers
from consilience.federation.peers.ports import free_addresses
from consilience.federation.peers.relay import Relay, federation_id, trial_certificate
from consilience.federation.peers.sealing import Kind
from consilience.federation.peers.zenoh_config import Tls
from tests.federation.peers.conftest import federation_of, sealer


def until(true, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def asked(federation: Federation, ca: Path, relays: tuple[str, ...], mine: Path | None = None, seconds=20) -> list[str]:
    """What member b hears of a over relays, when it is there, and asks it."""
    folder = mine or ca
    tls, heard, present = Tls(folder / "tls.key", folder / "tls.crt", ca / "ca.crt"), [], []
    one, other = sealer(federation, "a"), sealer(federation, "b")

    def answer(query: Query) -> None:
        sender = one.open(query.message, Kind.QUESTION).sender
        query.reply(one.seal(Kind.STATUS, f"hello {sender}".encode(), [sender]))
        query.drop()

    network = Network("relay", tls, relays=relays)
    carriers = open_carriers(network, federation, "a", "agent", answer, {}, lambda *_: None, one)
    watched = {"a": ("agent",)}
    others = open_carriers(network, federation, "b", "", None, watched, lambda *now: present.append(now), other)

    def answered(data: bytes | None) -> bool:
        heard.append("" if data is None else bytes(other.open(data, Kind.STATUS).data).decode())
        return True

    try:
        until(lambda: len(present) >= len(relays), seconds)
        for carrier in others:
            question = other.seal(Kind.QUESTION, b"words", ["a"])
            carrier.fetch("a", "agent", "status", 0, question, 5.0, answered)
        until(lambda: heard.count("") == len(relays))
        return [text for text in heard if text]
    finally:
        for carrier in (*carriers, *others):
            carrier.close()


def test_two_sites_that_only_dial_out_hear_each_other_through_each_relay(tmp_path: Path) -> None:
    federation, addresses = federation_of(), tuple(free_addresses(2))
    pair = trial_certificate(tmp_path, "127.0.0.1")
    relays = [Relay(address, [federation.id], *pair) for address in addresses]
    assert asked(federation, tmp_path, addresses) == ["hello b"] * 2
    for relay in relays:
        relay.close()


def test_members_that_reach_each_other_directly_use_the_relay_for_the_others_alone(tmp_path: Path) -> None:
    """Members a and b have addresses, and c dials out to the relay only."""
    [address, *own] = free_addresses(3)
    federation = federation_of(3, 2)
    roster = [replace(member, address=place) for member, place in zip(federation.roster, [*own, ""], strict=True)]
    federation = replace(federation, roster=tuple(roster))
    relay = Relay(address, [federation.id], *trial_certificate(tmp_path, "127.0.0.1"))
    opened, here = [], {name: set() for name in "abc"}
    for name, place in zip("abc", [*own, ""], strict=True):
        if place:
            issue_certificate(tmp_path, tmp_path / name, name, "127.0.0.1")
        tls = Tls(tmp_path / name / "tls.key", tmp_path / name / "tls.crt", tmp_path / "ca.crt")
        network = Network("direct" if place else "relay", tls, place, (address,))

        def reached(carrier: int, peer: str, role: str, there: bool, name: str = name) -> None:
            (here[name].add if there else here[name].discard)((peer, carrier))

        watched = {peer: ("agent",) for peer in "abc" if peer != name}
        arguments = federation, name, "agent", lambda query: query.drop(), watched, reached, sealer(federation, name)
        opened += open_carriers(network, *arguments)
    over_relay, both = {("c", 1)}, {("a", 0), ("b", 0)}
    until(lambda: here["c"] == both and here["a"] >= over_relay | {("b", 0)} and here["b"] >= over_relay | {("a", 0)})
    assert ("c", 0) not in here["a"] | here["b"]
    for carrier in opened:
        carrier.close()
    relay.close()


@pytest.mark.parametrize("why", ["another federation", "no certificate"])
def test_a_relay_serves_no_strangers(tmp_path: Path, why: str) -> None:
    federation, [address] = federation_of(), free_addresses(1)
    pair = trial_certificate(tmp_path, "127.0.0.1")
    ca = tmp_path / "ca.crt" if why == "no certificate" else None
    relay = Relay(address, ["2" if why == "another federation" else federation.id], *pair, ca)
    issue_certificate(tmp_path, tmp_path / "member", "b", "127.0.0.1")
    with pytest.raises(AssertionError):
        asked(federation, tmp_path, (address,), seconds=3)
    if why == "no certificate":
        assert asked(federation, tmp_path, (address,), tmp_path / "member") == ["hello b"]
    relay.close()


def test_relays_of_one_host_that_begin_at_once_share_one_pair(tmp_path: Path) -> None:
    """Each has the key of its certificate; so has one that begins after another was killed between the two files."""
    code = f"""
import ssl
import sys
from pathlib import Path
from consilience.federation.peers.relay import trial_certificate
print("ready", flush=True)
sys.stdin.readline()
key, certificate = trial_certificate(Path({str(tmp_path / "ca")!r}), "127.0.0.1")
ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
"""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    relays = [subprocess.Popen([sys.executable, "-c", code], text=True, **pipes) for _ in range(6)]
    for relay in relays:
        assert relay.stdout.readline() == "ready\n"
    for relay in relays:
        relay.stdin.write("\n")
        relay.stdin.flush()
    assert [relay.communicate()[1] for relay in relays] == [""] * 6
    key, certificate = trial_certificate(tmp_path / "ca", "127.0.0.1")
    before = certificate.read_bytes()
    for path in (certificate, certificate.with_name("ca.crt")):
        path.unlink()
    assert trial_certificate(tmp_path / "ca", "127.0.0.1") == (key, certificate) and certificate.read_bytes() != before


def test_a_relay_says_what_it_lacks(tmp_path: Path, federation: Federation) -> None:
    (tmp_path / "f.toml").write_text(federation.to_toml())
    assert federation_id(str(tmp_path / "f.toml")) == federation.id == federation_id("1")
    with pytest.raises(ConsilienceError, match="neither a federation file nor the `id`"):
        federation_id("some/where")
    pair = trial_certificate(tmp_path, "127.0.0.1")
    with pytest.raises(ConsilienceError, match="Name some: --allow"):
        Relay("127.0.0.1:7000", [], *pair)
