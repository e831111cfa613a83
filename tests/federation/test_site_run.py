"""A site that is killed, stopped, slow or late: the others finish, and it comes back with the same command."""

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from consilience.export.folder import load_model
from consilience.federation.peers.frame import Format
from consilience.federation.peers.untrusted_input import frame_from, read_federation
from consilience.runtime.run import load_run
from tests.conftest import root

pytestmark = pytest.mark.faults
ROUNDS = 6


@pytest.mark.parametrize("phase", ["train-1", "train-3", "checkpoint-3", "train-6", "checkpoint-6"])
def test_a_site_killed_in_a_phase_resumes_and_no_round_counts_twice(federate, phase):
    """While training, and while a checkpoint is written but not yet in its place; the last round included."""
    trial = federate(4, rounds=ROUNDS)
    first, *others = trial.names
    trial.hold(first, phase)
    trial.start()
    trial.until_held(first, phase)
    trial.kill(first)
    for name in others:
        trial.until_event(name, "gone", agent=first)
    trial.release(first, phase)
    trial.start(first)
    trial.finish()
    trial.check(*others, rounds=ROUNDS)
    kinds = [event["event"] for event in trial.events(first)]
    assert kinds.count("start") == 2 and kinds.count("finished") == 1
    signed = {(event["round"], event["hash"]) for event in trial.events(first, "sent")}
    assert len(signed) == len({number for number, _ in signed}), "a round was signed twice"


def test_a_site_killed_while_it_gathers_publishes_the_same_frame_again(federate):
    trial = federate(4, rounds=ROUNDS)
    first, slow, *others = trial.names
    trial.hold(slow, "train-3")
    trial.start()
    trial.until_event(first, "sent", round=4)
    trial.kill(first)
    published = trial.sites[first].parent / "run" / "published" / "4.frame"
    before = published.read_bytes()
    frame_from(Format(read_federation(trial.folder / "federation.toml")), before, 0, 4)
    trial.start(first)
    trial.until(lambda: [event["round"] for event in trial.events(first, "sent")].count(4) > 1, "round 4 again")
    assert published.read_bytes() == before
    trial.release(slow, "train-3")
    trial.finish()
    trial.check(slow, *others, rounds=ROUNDS)
    assert all(not (trial.sites[name].parent / "run" / "evidence").exists() for name in trial.names)


def test_a_site_killed_before_the_first_round_comes_in_time(federate):
    trial = federate(4, rounds=ROUNDS, deadline=30.0)
    first = trial.names[0]
    trial.start(first)
    trial.until_event(first, "start")
    trial.kill(first)
    trial.start()
    trial.finish()
    trial.check(*trial.names, rounds=ROUNDS)


def test_a_site_killed_after_the_last_round_has_finished(federate):
    trial = federate(4, rounds=ROUNDS)
    first, slow, _, _ = trial.names
    trial.hold(slow, f"train-{ROUNDS}")
    trial.start()
    trial.until_event(first, "finished")
    trial.kill(first)
    trial.start(first)
    assert trial.code(first) == 0 and "this run is finished" in trial.output(first)
    trial.release(slow, f"train-{ROUNDS}")
    trial.finish()
    trial.check(*trial.names, rounds=ROUNDS)


def test_a_site_killed_before_its_model_is_stored_stores_it_when_it_comes_back(federate):
    """The run itself is saved a moment before."""
    trial = federate(3, rounds=2, deadline=1.0)
    trial.start()
    trial.finish()
    run = trial.sites[trial.names[0]].parent / "run"
    shutil.rmtree(run / "model")
    before = load_run(run).metrics
    trial.start(trial.names[0])
    trial.finish()
    assert load_model(run / "model").manifest.training["round"] == 2
    assert load_run(run).metrics.equals(before)


def test_a_site_that_saved_its_last_round_needs_nobody_to_finish(federate):
    """Killed between its last checkpoint and its summary, and started when the others are long gone."""
    trial = federate(4, rounds=ROUNDS, deadline=2.0)
    trial.start()
    trial.finish()
    first = trial.names[0]
    run = trial.sites[first].parent / "run"
    (run / "summary.json").unlink()
    trial.start(first)
    trial.finish(first)
    trial.check(*trial.names, rounds=ROUNDS)


def test_a_site_stopped_beyond_the_deadline_goes_on_in_the_current_round(federate):
    trial = federate(5, rounds=12, deadline=2.0)
    first, *others = trial.names
    for name in others:
        trial.hold(name, "train", "0.3")
    trial.start()
    trial.until_event(first, "round", round=3)
    trial.kill(first, signal.SIGSTOP)

    def without(name):
        return any(first in event["absent"] for event in trial.events(name, "round"))

    trial.until(lambda: all(map(without, others)), "rounds without the stopped site")
    trial.sleep(1)
    trial.kill(first, signal.SIGCONT)
    trial.finish()
    trial.check(*others, rounds=12)
    assert any(first not in event["absent"] for event in trial.events(others[0], "round") if event["round"] > 6)


def test_a_round_closes_without_a_slow_site_and_does_not_mix_its_late_predictions(federate):
    trial = federate(4, rounds=5, deadline=3.0)
    slow, *others = trial.names
    trial.hold(slow, "train-2", "4.5")
    trial.start()
    trial.finish()
    trial.check(*others, rounds=5)
    for name in others:
        closed = {event["round"]: event for event in trial.events(name, "round")}
        late = trial.events(name, "late")
        assert slow in closed[3]["absent"] and any(event["agent"] == slow for event in late), (name, closed)
        assert all(slow in closed[event["round"]]["absent"] for event in late if event["agent"] == slow)


def test_a_late_joiner_enters_at_a_round_boundary(federate):
    trial = federate(5, rounds=8, deadline=3.0)
    late, *others = trial.names
    for name in others:
        trial.hold(name, "train", "0.4")
    trial.start(*others)
    trial.until_event(others[0], "round", round=3)
    trial.start(late)
    trial.finish()
    trial.check(*others, rounds=8)
    for name in others:
        absent = [late in event["absent"] for event in trial.events(name, "round")]
        assert absent == sorted(absent, reverse=True) and absent[0] and not absent[-1], (name, absent)


def test_sites_whom_a_fault_left_in_different_rounds_meet_again(federate):
    """Four of five are needed, and four are there: in rounds 4, 5, 6 and 6, none of which they can close together."""
    trial = federate(5, rounds=8, deadline=2.0, quorum=4)
    away, killed, gone, *others = trial.names
    trial.hold(away, "train-3")
    trial.hold(gone, "train-4")
    trial.start()
    for name in (killed, *others):
        trial.until_event(name, "sent", round=5)
    trial.sleep(1)  # until the others have heard what the one that is killed now has published
    trial.kill(killed)
    trial.release(gone, "train-4")
    for name in others:
        trial.until_event(name, "sent", round=6)
    trial.kill(gone)
    for name in others:
        trial.until_event(name, "gone", agent=gone)
    trial.start(killed)
    trial.release(away, "train-3")
    trial.finish(away, killed, *others)
    trial.check(*others, rounds=8)
    assert trial.events(gone, "round")[-1]["round"] == 4
    assert trial.events(away, "jump"), "the others answer for the round before theirs; it was two behind"


def test_a_checkpoint_of_another_run_is_refused(federate):
    trial, other = federate(4, rounds=3), federate(4, rounds=6)
    trial.start()
    trial.finish()
    first, *others = other.names
    other.hold(first, "train-3")
    other.start()
    other.until_held(first, "train-3")
    other.kill(first)
    place = other.sites[first].parent / "run" / "checkpoint"
    shutil.rmtree(place)
    shutil.copytree(trial.sites[first].parent / "run" / "checkpoint", place)
    other.release(first, "train-3")
    other.start(first)
    assert other.code(first) == 2
    assert "is of another run" in other.output(first)
    other.finish(*others)


def test_what_a_run_writes_is_for_its_owner_alone(federate):
    trial = federate(2, rounds=2)
    trial.start()
    trial.finish()
    for name in trial.names:
        for path in (trial.sites[name].parent / "run").rglob("*"):
            assert path.stat().st_mode & 0o077 == 0, path


@pytest.fixture
def small_disk() -> Iterator[Callable[[Path], None]]:
    mounted: list[Path] = []

    def mount(path: Path) -> None:
        path.mkdir()
        root(f"mount -t tmpfs -o size=600k tmpfs {path}")
        mounted.append(path)

    yield mount
    for path in mounted:
        subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_full_disk_ends_the_site_and_it_resumes_when_there_is_space(federate, small_disk):
    trial = federate(4, rounds=8)
    full, *others = trial.names
    run = trial.sites[full].parent / "run"
    small_disk(run)
    trial.hold(full, "train-3")
    for name in others:
        trial.hold(name, "train", "0.5")
    trial.start()
    trial.until_held(full, "train-3")
    filler = run / "filler.part"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            pass
    trial.release(full, "train-3")
    assert trial.code(full) == 2
    assert f"{run} cannot be written to: No space left on device" in trial.output(full)
    assert "the same command" in trial.output(full)
    assert not list((run / "checkpoint").glob(".*.part"))
    filler.unlink()
    trial.start(full)
    trial.finish()
    trial.check(*others, rounds=8)
