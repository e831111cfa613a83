"""What a firewall must allow."""

from pathlib import Path

import pytest

pytest.importorskip("zenoh", reason="needs consilience[peers]")

from consilience.federation.peers.firewall import routes
from consilience.federation.peers.network import Network
from consilience.federation.site import load_site


def test_direct_links_need_a_port_that_lets_members_in_and_a_folder_none(site: Path) -> None:
    loaded = load_site(site)
    *out, inward = routes(loaded.network, loaded.federation, "a", "taken")
    assert [(r.direction, r.host, r.port, r.purpose) for r in out] == [
        ("out", "127.0.0.1", "7001", "b"),
        ("out", "127.0.0.1", "7002", "c"),
    ]
    assert (inward.direction, inward.port, inward.problem) == ("in", "7000", "taken")
    [local] = routes(Network("folder", folder="/mnt/share"), loaded.federation, "a")
    [bucket] = routes(Network("folder", folder="s3://heart/rounds"), loaded.federation, "a")
    assert local.direction == "-" and (bucket.direction, bucket.purpose) == ("out", "the bucket heart")
