"""Who is there and in which round: false claims, silence, partitions, stragglers."""

import time
from datetime import datetime

import pytest

pytest.importorskip("zenoh", reason="needs consilience[peers]")

from consilience.federation.peers import session
from consilience.federation.peers.frame import NONCE, Format
from consilience.federation.peers.network import Network
from consilience.federation.peers.outbox import Outbox
from consilience.federation.peers.sealing import Kind
from tests.conftest import root
from tests.federation.conftest import HERE, ROGUE
from tests.federation.peers.conftest import SIGNING, SITE_KEYS, F, sealer


def test_old_answers_before_the_right_one_do_not_end_a_request(federation, tmp_path, monkeypatch) -> None:
    """Genuine ones, which a relay replays."""
    asked = []

    class Carrier:
        asks = True

        def fetch(self, peer, role, topic, number, question, seconds, answered) -> None:
            asked.append(answered)

    monkeypatch.setattr(session, "open_carriers", lambda *arguments: [Carrier()])
    outbox, mine = Outbox(federation, "a", SITE_KEYS[0], tmp_path), sealer(federation, "a")
    agent, other, format = (
        session.Session(federation, "a", Network(), outbox, mine),
        sealer(federation, "b"),
        Format(federation),
    )
    agent.ask("b", "round/3", 3)
    frames = {number: format.make(SIGNING[1], 1, number, number, {}, F)[1] for number in (2, 3)}
    answers = [other.seal(Kind.STATUS, format.pack_status(0.0, bytes(NONCE)), ["a"], 9)]
    answers += [other.seal(Kind.FRAME, frames[number], ["a"], number) for number in (2, 3)]
    assert [asked[0](answer) for answer in answers] == [False, False, True]
    assert agent.next_event(1.0).content[2].data == frames[3]


@pytest.mark.faults
@pytest.mark.parametrize("sites", [3, 4])
def test_one_member_that_claims_the_last_round_takes_nobody_there(federate, sites):
    """Not even when somebody is away, and the others are too few without it: they wait until it is back."""
    trial = federate(sites, rounds=10, deadline=3.0)
    rogue, away, *others = trial.names
    trial.hold(away, "train-3")
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "last")
    trial.start(away, *others)
    trial.until_held(away, "train-3")
    trial.kill(away)
    for name in others:
        trial.until(lambda name=name: trial.events(name, "waiting") + trial.events(name, "jump"), f"what {name} does")
    trial.release(away, "train-3")
    trial.start(away)
    trial.finish(away, *others)
    trial.check(away, *others, rounds=10)
    assert not any(trial.events(name, "jump") for name in (away, *others))


@pytest.mark.faults
@pytest.mark.minutes
def test_a_member_that_is_there_but_silent_costs_three_deadlines_and_not_every_one(federate):
    trial = federate(4, rounds=18, deadline=4.0)
    rogue, *others = trial.names
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), *["silent"] * 9, "good")
    trial.start(*others)
    trial.finish(*others)
    trial.check(*others, rounds=18)
    for name in others:
        closed = trial.events(name, "round")
        times = {event["round"]: datetime.fromisoformat(event["time"]).timestamp() for event in closed}
        took = [times[number] - times[number - 1] for number in range(3, 11)]
        assert took[0] > 3.5 * trial.slow, took
        assert sorted(took)[4] < 3.5 * trial.slow, took
        heard = [rogue in event["heard"] for event in closed[-8:]]
        assert any(heard), "it spoke again, for eight rounds of which each waits a second at least, and was not heard"
        assert f"{rogue} is present but silent" in trial.output(name)


@pytest.mark.faults
def test_a_straggler_finds_what_it_needs_at_sites_that_serve(federate):
    trial = federate(4, rounds=6, deadline=2.0, start_wait=60.0)
    straggler, *others = trial.names
    trial.hold(straggler, "train-3")
    trial.start(straggler)
    trial.start(*others, more=("--serve",))
    trial.until_held(straggler, "train-3")
    trial.kill(straggler)
    for name in others:
        trial.until_event(name, "finished")
    trial.sleep(4)  # twice the deadline for which a finished site answers
    trial.release(straggler, "train-3")
    trial.start(straggler)
    trial.finish(straggler, *others)
    trial.check(*others, rounds=6)
    assert trial.metrics(straggler)["round"].tolist()[-1] == 6


@pytest.mark.faults
@pytest.mark.parametrize("mode", ["garbled", "ahead"])
def test_a_false_status_leads_nobody_astray_and_floods_no_log(federate, mode):
    """One that is no status at all, and one that claims a round far ahead."""
    trial = federate(4, rounds=6, deadline=3.0)
    rogue, *others = trial.names
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), mode)
    trial.hold(others[0], "train-3", "4")
    trial.start(*others)
    trial.finish(*others)
    trial.check(*others, rounds=6)
    for name in others:
        assert not trial.events(name, "jump")
        assert 1 <= len(trial.events(name, "rejected")) <= 2 + 6


@pytest.mark.faults
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
from consilience.federation.peers import zenoh_carrier as link
settings, identities = link.between_members, iter([{{"id": "{IDENTITY}"}}])
link.between_members = lambda *arguments: settings(*arguments) | next(identities, {{}})
"""


@pytest.mark.faults
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
