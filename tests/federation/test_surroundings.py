"""What surrounds a site fails: the network is cut in two, the disk is full, a file is not the agreed one."""

import re
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import root
from tests.federation.conftest import HERE

pytestmark = pytest.mark.faults


def address(trial, name: str) -> str:
    """Where a site listens."""
    return tomllib.loads((trial.sites[name].parent / "member.toml").read_text())["address"]


@pytest.mark.parametrize("noticed_by_all", [True, False])
def test_a_partition_into_four_and_two_heals(federate, networks, noticed_by_all):
    """The majority goes on, the minority waits and says so; when the link is back, it goes on in the current round.

    When the outage lasts as long as Zenoh's lease, only some ends of the links have noticed it.
    """
    trial = federate(6, rounds=40, deadline=3.0)
    switch, *places = networks(6)
    trial.spread(places)
    for name in trial.names:
        trial.hold(name, "train", "0.2")
    majority, minority = trial.names[:4], trial.names[4:]
    trial.start()
    trial.until_event(majority[0], "round", round=3)
    root(f"ip -n {switch} link add other type bridge")
    root(f"ip -n {switch} link set other up")
    for number in (5, 6):
        root(f"ip -n {switch} link set port{number} master other")
    cut = time.monotonic()
    for name in minority:
        trial.until_said(name, "of 4 needed; waiting for 0, 1, 2, 3")
    pairs = [(event, other) for event in majority for other in minority]
    for event, other in pairs if noticed_by_all else []:
        trial.until_event(event, "gone", agent=other)
        trial.until_event(other, "gone", agent=event)
    closed = {name: len(trial.events(name, "round")) for name in minority}
    now = trial.events(majority[0], "round")[-1]["round"]
    trial.until_event(majority[0], "round", round=now + 2)
    trial.until(lambda: time.monotonic() > cut + 10.5, "the end of the lease")
    assert closed == {name: len(trial.events(name, "round")) for name in minority}, "the minority went on"
    for number in (5, 6):
        root(f"ip -n {switch} link set port{number} master bridge")
    trial.finish()
    trial.check(*majority, rounds=40)
    for name in minority:
        assert trial.events(name, "jump")
        assert trial.events(name, "round")[-1]["absent"] == []
    by_round: dict[tuple[int, str], set[str]] = {}
    for name in trial.names:
        for event in trial.events(name, "sent"):
            by_round.setdefault((event["round"], name), set()).add(event["hash"])
    assert all(len(hashes) == 1 for hashes in by_round.values())
    for name in trial.names:
        for event in trial.events(name, "round"):
            assert all(by_round[event["round"], peer] == {digest} for peer, digest in event["heard"].items())


IDENTITY = "5eed5eed5eed5eed"
SAME_AT_FIRST = f"""
from consilience.federation.peers import zenoh_config as link
settings, identities = link._settings, iter([{{"id": "{IDENTITY}"}}])
link._settings = lambda *arguments: settings(*arguments) | next(identities, {{}})
"""


@pytest.mark.minutes
def test_a_site_whose_peers_take_a_dead_link_for_a_living_one_reconnects(federate):
    """They refuse a second link of one identity; after half a minute the site comes with another."""
    trial = federate(4, rounds=6)
    *others, left = trial.names
    for name in others:
        trial.hold(name, "train-2")
    trial.start(*others)
    trial.start_script("ghost", HERE / "ghost.py", str(trial.sites[left]), IDENTITY)
    trial.until(lambda: "linked to 3" in trial.output("ghost"), "the links of the ghost")
    with (trial.sites[left].parent / "agent.py").open("a") as file:
        file.write(SAME_AT_FIRST)
    trial.start(left)
    trial.until_event(left, "reconnected")
    kinds = [event["event"] for event in trial.events(left)]
    assert "here" not in kinds[: kinds.index("reconnected")], "the ghost did not keep it out"
    for name in others:
        trial.until_event(left, "here", agent=name)
    for name in others:
        trial.release(name, "train-2")
    trial.finish()
    trial.check(*others, rounds=6)
    assert "too few peers are seen: reconnected" in trial.output(left)
    assert trial.events(left, "round")[-1]["absent"] == []


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


def test_a_run_does_not_resume_with_another_federation_file(federate):
    trial = federate(4, rounds=2)
    trial.start()
    trial.finish()
    first = trial.names[0]
    (trial.sites[first].parent / "run" / "summary.json").unlink()
    path = trial.folder / "federation.toml"
    path.write_text(path.read_text().replace("lam = 0.5", "lam = 0.25"))
    trial.start(first)
    assert trial.code(first) == 2
    assert (
        "begun with another federation file; it differs in settings.method.lam (ours 0.5, theirs 0.25)"
        in trial.output(first)
    )
