"""Ports for sites of one machine."""

import socket

import pytest

from consilience.federation.peers import ports
from consilience.federation.peers.ports import free_ports


def test_they_differ_and_are_none_that_the_system_gives_to_outgoing_calls():
    found = free_ports(50)
    assert len(set(found)) == 50
    assert all(ports.LOWEST <= port < ports.HIGHEST for port in found)
    with socket.create_server(("127.0.0.1", 0)) as given:
        assert given.getsockname()[1] >= ports.HIGHEST


def test_a_port_in_use_is_left_out(monkeypatch):
    (used,) = free_ports(1)
    monkeypatch.setattr(ports, "LOWEST", used)
    monkeypatch.setattr(ports, "HIGHEST", used + 1)
    assert free_ports(1) == [used]
    with socket.create_server(("127.0.0.1", used)):
        assert free_ports(1) == []


@pytest.mark.parametrize("count", [0, 1, 7])
def test_as_many_as_were_asked_for(count):
    assert len(free_ports(count)) == count
