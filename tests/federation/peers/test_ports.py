"""Ports for sites of one machine."""

import socket

import pytest

from consilience.federation.peers.ports import INNER_PORTS, SITE_PORTS, free_addresses, free_ports


def test_they_differ_and_are_none_that_the_system_gives_to_outgoing_calls():
    assert len(set(free_ports(50, INNER_PORTS))) == 50
    assert not set(INNER_PORTS) & set(SITE_PORTS)
    with socket.create_server(("127.0.0.1", 0)) as given:
        assert given.getsockname()[1] > max(*INNER_PORTS, *SITE_PORTS)


def test_a_port_in_use_is_left_out():
    (used,) = free_ports(1, INNER_PORTS)
    assert free_ports(1, [used]) == [used]
    with socket.create_server(("127.0.0.1", used)):
        assert free_ports(1, [used]) == []


@pytest.mark.parametrize("count", [0, 1, 7])
def test_as_many_as_were_asked_for(count):
    assert len(free_addresses(count)) == count


def test_a_session_whose_port_was_taken_meanwhile_gets_another(tmp_path, monkeypatch):
    pytest.importorskip("zenoh")
    from consilience.federation.peers import zenoh_carrier
    from consilience.federation.peers.network import open_carriers
    from consilience.federation.peers.sealing import Sealer
    from consilience.federation.site import load_site
    from tests.federation.conftest import lay_out

    prepared = load_site(next(iter(lay_out(tmp_path / "trial", 4).values())))
    federation, me = prepared.federation, prepared.site.agent
    limiters, taken = [], []

    class Limiter(zenoh_carrier.ConnectionLimiter):
        def choose_inner(self) -> None:
            super().choose_inner()
            if not limiters:
                limiters.append(self)
                taken.append(socket.create_server(("127.0.0.1", self.inner)))

    monkeypatch.setattr(zenoh_carrier, "ConnectionLimiter", Limiter)
    sealer = Sealer(federation, me, prepared.keys)
    [carrier] = open_carriers(prepared.network, federation, me, "agent", None, {}, lambda *_: None, sealer)
    carrier.close()
    assert limiters[0].inner != taken[0].getsockname()[1]
    taken[0].close()
