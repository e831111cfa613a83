"""`consilience site check`, between real processes."""

import shutil
import socket
import time
from pathlib import Path

import pytest

from consilience.federation.demo import lay_out
from consilience.federation.peers.keys import issue_certificate, new_authority
from consilience.settings.presets import read_settings
from consilience.settings.wiring import build_scenario
from tests.conftest import slowness
from tests.federation.conftest import Launcher, Trial, sign

pytestmark = pytest.mark.faults


def some_sites(folder: Path, count: int, launcher: Launcher) -> Trial:
    settings = read_settings("digits", {"agents.count": count, "limit": 40, "low_quality": [], "shared_per_agent": 10})
    return Trial(launcher, folder, lay_out(settings, build_scenario(settings), folder, deadline=20.0), slowness())


@pytest.mark.parametrize("late", [0, 12])
def test_checks_that_wait_are_all_green_and_then_end(launcher: Launcher, tmp_path: Path, late: int) -> None:
    """In the same second, or the last of them after the others would have given up without --wait."""
    trial = some_sites(tmp_path, 3, launcher)
    *first, last = trial.names
    checks = {name: trial.start_beside(name, "check", "--wait", "10m") for name in first}
    time.sleep(late)
    checks[last] = trial.start_beside(last, "check", "--wait", "10m")
    began = time.monotonic()
    for name, check in checks.items():
        assert trial.code(check) == 0, trial.output(check)
        assert f"{name}: own port: 127.0.0.1:" in trial.output(check) and "is free" in trial.output(check)
        assert f"{name}: own certificate: accepted with the CA" in trial.output(check)
    assert time.monotonic() - began < 25 * trial.slow, "nobody waits longer than needed"


def test_the_check_looks_at_its_own_port_and_certificate(launcher: Launcher, tmp_path: Path) -> None:
    trial = some_sites(tmp_path, 2, launcher)
    first, other = trial.names
    address = trial.sites[first].parent / "member.toml"
    port = int(address.read_text().split('address = "127.0.0.1:')[1].split('"')[0])
    with socket.create_server(("127.0.0.1", port)):
        check = trial.start_beside(first, "check", "--seconds", "1")
        assert trial.code(check) == 1
    assert f"own port: nobody can listen at 127.0.0.1:{port}" in trial.output(check)
    keys = trial.sites[other].parent / "keys"
    new_authority(tmp_path / "foreign")
    (keys / "tls.key").unlink()
    issue_certificate(tmp_path / "foreign", keys, other, "127.0.0.1")
    shutil.copy(tmp_path / "trial-ca" / "ca.crt", keys / "ca.crt")
    check = trial.start_beside(other, "check", "--seconds", "1")
    assert trial.code(check) == 1
    assert "own certificate: is not accepted with the CA" in trial.output(check)
    (keys / "tls.key").unlink()
    issue_certificate(tmp_path / "trial-ca", keys, other, "192.0.2.1")
    check = trial.start_beside(other, "check", "--seconds", "1")
    assert trial.code(check) == 1
    assert "IP address mismatch" in trial.output(check)


def test_the_check_of_a_site_whose_agent_runs_says_so(launcher: Launcher, tmp_path: Path) -> None:
    trial = some_sites(tmp_path, 2, launcher)
    first, _ = trial.names
    trial.start(first)
    trial.until(lambda: trial.events(first, "start"), "its start")
    trial.sleep(3)
    check = trial.start_beside(first, "check", "--seconds", "2")
    assert trial.code(check) == 1, "its peer is missing"
    assert "own port: 127.0.0.1:" in trial.output(check)
    assert "is in use by another process of this site" in trial.output(check)


def test_the_check_sees_who_is_there_who_is_not_and_who_differs(launcher: Launcher, tmp_path: Path) -> None:
    trial = some_sites(tmp_path, 4, launcher)
    different = (tmp_path / "federation.toml").read_text().replace("lam = 0.5", "lam = 0.4")
    (tmp_path / "2" / "federation.toml").write_text(different)
    sign(tmp_path / "2" / "federation.toml", *trial.sites.values())
    trial.sites["2"].write_text(trial.sites["2"].read_text().replace("../federation.toml", "federation.toml"))
    patience = str(10 * trial.slow)
    checks = {name: trial.start_beside(name, "check", "--seconds", patience) for name in ("0", "1", "2")}
    assert all(trial.code(name) == 1 for name in checks.values()), "agent 3 is missing everywhere"
    output = {name: trial.output(check) for name, check in checks.items()}
    rows = {line.split()[1]: line for line in output["0"].splitlines() if line.startswith("│")}
    assert "valid until" in rows["1"] and "same" in rows["1"]
    assert "settings.method.lam (ours 0.5, theirs 0.4)" in rows["2"]
    assert "no connection" in rows["3"] and "no answer" in rows["3"]
    assert "settings.method.lam (ours 0.4, theirs 0.5)" in output["2"]


@pytest.mark.faults
def test_a_check_is_no_agent_and_all_are_waited_for_at_the_start(federate):
    trial = federate(3, rounds=5, deadline=3.0, start_wait=60.0)
    *agents, late = trial.names
    trial.start(*agents)
    check = trial.start_beside(late, "check", "--seconds", str(8 * trial.slow))
    assert trial.code(check) == 0, trial.output(check)
    trial.sleep(2)
    assert not any(trial.events(name, "round") for name in agents), "they began without it"
    trial.start(late)
    trial.finish()
    trial.check(*trial.names, rounds=5)
    assert all(not event["absent"] for name in trial.names for event in trial.events(name, "round"))


@pytest.mark.faults
@pytest.mark.parametrize(("model", "output"), [("nonsense", "nonsense"), ("forest", "patients.csv")])
def test_a_check_builds_the_agent_and_lets_it_predict(federate, model, output):
    trial = federate(2)
    first = trial.names[0]
    text = trial.sites[first].read_text().replace('python = "agent.py"', 'python = ""')
    data = "train.npz" if model == "nonsense" else "patients.csv"
    text = text.replace('model = ""', f'model = "{model}"').replace('data = ""', f'data = "{data}"')
    trial.sites[first].write_text(text)
    check = trial.start_beside(first, "check")
    assert trial.code(check) == 2
    assert output in trial.output(check) and "in order" not in trial.output(check)
