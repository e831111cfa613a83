"""One hostile member, a flood of strangers, a careless operator: the honest sites finish, and know what happened."""

import shutil
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from consilience.federation.peers.outside import read_federation

pytestmark = pytest.mark.faults
ROGUE = Path(__file__).parent / "rogue.py"
STRANGER = Path(__file__).parent / "stranger.py"


def memory(pid: int) -> float:
    """Megabytes that a process holds."""
    fields = Path(f"/proc/{pid}/status").read_text().split("\n")
    return int(next(line for line in fields if line.startswith("VmRSS")).split()[1]) / 1000


@pytest.mark.parametrize("digits", ["401", "5001", "hex", "markup"])
def test_a_federation_text_made_to_crash_its_reader_stops_nobody(federate, digits):
    trial = federate(4, rounds=4)
    rogue, *others = trial.names
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), f"text={digits}")
    trial.start(*others)
    trial.finish(*others)
    trial.check(*others, rounds=4)
    for name in others:
        refused = trial.events(name, "refused")
        assert refused and all(one["agent"] == rogue and len(one["reason"]) < 2000 for one in refused)
        assert "\x1b" not in trial.output(name) and "\x07" not in trial.output(name)


@pytest.mark.parametrize("sites", [3, 4])
def test_one_member_that_claims_the_last_round_takes_nobody_there(federate, sites):
    trial = federate(sites, rounds=10, deadline=3.0)
    rogue, slow, *others = trial.names
    trial.hold(slow, "train-3", "5")
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "last")
    trial.start(slow, *others)
    trial.finish(slow, *others)
    trial.check(slow, *others, rounds=10)
    assert not any(trial.events(name, "jump") for name in (slow, *others))


def test_idle_connections_of_strangers_stop_no_site(federate):
    trial = federate(4, rounds=12, deadline=6.0)
    trial.files = (1024, 20_000)
    first, *others = trial.names
    for name in trial.names:
        trial.hold(name, "train", "0.5")
    trial.start()
    for name in trial.names:
        trial.until_event(name, "round", round=2)
    trial.sites["stranger"] = trial.folder / "stranger"
    trial.start_script("stranger", STRANGER, "idle", "1300", *addresses_of(trial, [first, *others]))
    trial.until(lambda: "holding" in trial.output("stranger"), "the connections of the stranger")
    trial.kill(first)
    trial.start(first)
    trial.finish(first, *others)
    trial.check(*others, rounds=12)
    assert any(first not in one["absent"] for one in trial.events(others[0], "round")[-3:]), "it never came back"


def addresses_of(trial, names) -> list[str]:
    return [tomllib.loads((trial.sites[name].parent / "member.toml").read_text())["address"] for name in names]


def test_broken_handshakes_starve_no_member(federate):
    trial = federate(4, rounds=10, deadline=6.0)
    names = trial.names
    for name in names:
        trial.hold(name, "train", "0.3")
    trial.start()
    trial.until_event(names[0], "round", round=2)
    trial.sites["stranger"] = trial.folder / "stranger"
    trial.start_script("stranger", STRANGER, "broken", "350", *addresses_of(trial, names))
    trial.until(lambda: "breaking" in trial.output("stranger"), "the handshakes of the stranger")
    trial.kill(names[0])
    trial.start(names[0])
    trial.finish(*names)
    trial.check(*names[1:], rounds=10)


def test_a_member_that_comes_and_goes_fills_neither_queue_nor_log(federate):
    trial = federate(4, rounds=12)
    rogue, *others = trial.names
    for name in others:
        trial.hold(name, "train", "0.5")
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "good", "flap:20000")
    trial.start(*others)
    trial.until(lambda: "flapped" in trial.output(rogue), "the end of the flapping")
    trial.finish(*others)
    trial.check(*others, rounds=12)
    for name in others:
        changes = [one for one in trial.events(name) if one["event"] in ("here", "gone") and one["agent"] == rogue]
        assert len(changes) < 100, len(changes)


def test_questions_under_long_and_ever_new_names_are_not_kept(federate):
    trial = federate(4, rounds=12)
    rogue, *others = trial.names
    for name in others:
        trial.hold(name, "train-8")
    trial.start(*others)
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "good", "stuff:600")
    for name in others:
        trial.until_held(name, "train-8")
    trial.until(lambda: "stuffed" in trial.output(rogue), "the questions")
    time.sleep(3)
    used = {name: memory(trial.pids[name]) for name in others}
    for name in others:
        trial.release(name, "train-8")
    trial.finish(*others)
    trial.check(*others, rounds=12)
    print(used)
    assert max(used.values()) < 420, used


def test_what_was_signed_in_an_earlier_run_accuses_nobody(federate):
    trial = federate(4, rounds=4, deadline=3.0)
    rogue, *others = trial.names
    trial.start(*others)
    trial.finish(*others)
    old = trial.folder / "old"
    for name in others:
        shutil.copytree(trial.sites[name].parent / "run" / "published", old / name)
        shutil.rmtree(trial.sites[name].parent / "run")
        for path in (old / name).glob("3.frame"):
            path.unlink()
    trial.start(others[0])
    assert trial.code(others[0]) == 2
    assert "has begun a run with this federation file (epoch 1) in another folder" in trial.output(others[0])
    file = trial.folder / "federation.toml"
    file.write_text(replace(read_federation(file), epoch=2).to_toml())
    shutil.rmtree(trial.sites[others[0]].parent / "run", ignore_errors=True)
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "good", f"replay:{old}")
    trial.start(*others)
    trial.finish(*others)
    trial.check(*others, rounds=4)
    assert not any(trial.events(name, "excluded") for name in others)


def test_a_doctor_is_no_agent_and_all_are_waited_for_at_the_start(federate):
    trial = federate(3, rounds=5, deadline=3.0, start_wait=60.0)
    *agents, late = trial.names
    trial.start(*agents)
    trial.start_command(late, "doctor")
    assert trial.code(late) == 0, trial.output(late)
    time.sleep(2)
    assert not any(trial.events(name, "round") for name in agents), "they began without it"
    trial.start(late)
    trial.finish()
    trial.check(*trial.names, rounds=5)
    assert all(not one["absent"] for name in trial.names for one in trial.events(name, "round"))
