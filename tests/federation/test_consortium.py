"""Members' states as one of them sees them over a relay; and what a check says that a firewall must allow."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("zenoh", reason="needs consilience[peers]")

from typer.testing import CliRunner

from consilience.cli.main import app
from consilience.federation.consortium import Consortium, MemberState
from consilience.federation.membership import write_site
from consilience.federation.peers.firewall import routes
from consilience.federation.peers.frame import Status
from consilience.federation.peers.ports import free_addresses
from consilience.federation.peers.relay import Relay, trial_certificate
from consilience.federation.site import LoadedSite, load_site, read_site
from consilience.report.consortium import consortium_page
from tests.conftest import slowness
from tests.federation.conftest import change


@pytest.fixture
def behind_relay(site: Path, tmp_path: Path):
    """The site.toml of three sites that dial out to a relay, which runs."""
    address = free_addresses(1)[0]
    relay = Relay(address, [load_site(site).federation.id], *trial_certificate(tmp_path / "ca", "127.0.0.1"))
    files = [tmp_path / name / "site.toml" for name in "abc"]
    for path in files:
        if path != site:
            for name in ("shared.csv", "patients.csv", "federation.toml"):
                shutil.copy(site.parent / name, path.parent)
        write_site(path, replace(read_site(path), carrier="relay", relay=(address,)))
    yield files
    relay.close()


def test_a_member_sees_over_a_relay_who_is_there(behind_relay: list[Path], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("consilience.federation.consortium.FIRST", 3.0 * slowness())
    other = load_site(behind_relay[1])
    audit = other.audit(tmp_path / "run-b")
    agent = other.exchange(tmp_path / "run-b", audit, lambda text: None)
    try:
        result = CliRunner().invoke(app, ["watch", str(behind_relay[0]), "--once"], catch_exceptions=False)
        rows = {line.split()[0]: line for line in result.output.splitlines() if line.split()[:1] in (["b"], ["c"])}
        assert "ready; round 1 has not begun" in rows["b"] and "0 s ago" in rows["b"]
        assert "absent" in rows["c"] and "never" in rows["c"]
    finally:
        agent.close()
        audit.close()


def test_states_are_rounds_or_reasons_and_a_page_escapes_them(site: Path) -> None:
    loaded: LoadedSite = load_site(site)
    consortium = Consortium.__new__(Consortium)
    consortium._loaded = loaded
    absent = MemberState("b", "absent")
    run = loaded.federation.identity()
    assert consortium._state(absent, Status(run, True, True, 2, 0.5)).state == "round 2 of 4"
    assert consortium._state(absent, Status(run, True, True, 4, 0.5)).state == "finished"
    assert consortium._state(absent, Status(run, True, False, 4, 0.5)).state == "finished; its shared data differ"
    gone = consortium._state(MemberState("b", "round 2 of 4", 2, 0.1, 99.0), None)
    assert (gone.state, gone.round, gone.clock, gone.seen) == ("absent", 2, None, 99.0)
    refused = consortium._state(absent, "its federation file differs in <b>lam</b>")
    page = consortium_page("t", [refused, gone])
    assert "differs in &lt;b&gt;lam" in page and "0 of 2 other members answer" in page


def test_a_check_behind_a_relay_names_the_one_connection_that_a_firewall_must_allow(
    behind_relay: list[Path], site: Path
) -> None:
    loaded = load_site(site)
    [route] = routes(loaded.network, loaded.federation, "a")
    assert (route.direction, route.host, route.problem) == ("out", "127.0.0.1", "")
    assert "reached, certificate until" in route.state
    result = CliRunner().invoke(app, ["site", "check", "--site", str(site), "--seconds", "0.5"])
    assert result.exit_code == 1, "its peers are missing"
    assert "carrier relay: what a firewall must allow (TCP)" in result.output
    away = free_addresses(1)[0]
    change(site, loaded.site.relay[0], away)
    [route] = routes(load_site(site).network, loaded.federation, "a")
    assert f"no connection to {away}" in route.problem
