"""A relay that replays, reorders, mixes up, withholds, invents presence, floods or damages is noticed or harmless."""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from consilience.federation.peers.audit import read_audit
from consilience.federation.peers.frame import HEADER
from consilience.federation.peers.ports import free_addresses
from consilience.federation.remote_prediction_client import ask_peers
from consilience.federation.site import load_site
from tests.federation.conftest import ROGUE, memory
from tests.federation.history import problems

pytestmark = pytest.mark.faults
ROUNDS = 5


def behind(federate, mode: str, sites: int = 4, **options):
    """Sites that reach each other through a hostile relay alone, and the file of what it sees."""
    trial = federate(sites, rounds=ROUNDS, deadline=6.0, carrier="relay", **options)
    return trial, trial.start_hostile_relay(mode)


def none_of(trial, honest) -> None:
    """Nothing happened that must never happen."""
    found = problems({name: path.parent / "run" for name, path in trial.sites.items()}, honest)
    assert not found, "; ".join(found)


@pytest.mark.parametrize("mode", ["replay", "reorder", "mix", "garble"])
def test_what_a_relay_replays_reorders_mixes_up_or_damages_changes_nothing(federate, mode):
    """Three false answers in a row can shut a site out of a round, which it then leaves out, and says so."""
    trial, _ = behind(federate, mode)
    trial.start()
    trial.finish()
    trial.check(rounds=ROUNDS)
    none_of(trial, trial.names)
    for name in trial.names:
        left_out = {n for event in trial.events(name, "jump") for n in range(event["round"], event["to"])}
        assert {*range(1, ROUNDS + 1)} == {*trial.metrics(name)["round"]} | left_out
        assert not left_out or mode != "reorder"
    noticed = sum(len(trial.events(name, "rejected")) for name in trial.names)
    assert noticed or mode != "garble"


def test_a_relay_that_changes_versions_before_any_genuine_message_ends_no_site(federate):
    trial, _ = behind(federate, "version", start_wait=30.0)
    trial.start()
    trial.finish()
    trial.check(*trial.names, rounds=ROUNDS)
    none_of(trial, trial.names)
    for name in trial.names:
        assert "of the protocol, this site version" in trial.output(name)
        assert all(not event["absent"] for event in trial.events(name, "round"))


def test_a_relay_reads_nothing_and_learns_few_sizes(federate):
    trial, seen = behind(federate, "pass")
    trial.start()
    trial.finish()
    trial.check(*trial.names, rounds=ROUNDS)
    assert all(not event["absent"] for name in trial.names for event in trial.events(name, "round"))
    data = seen.read_bytes()
    assert data.count(b"CNSE") > 4 * 3 * ROUNDS, "the messages went through this relay"
    for name in trial.names:
        for path in (trial.sites[name].parent / "run" / "published").glob("*.frame"):
            frame = path.read_bytes()
            assert len(frame) > 1000
            secrets = [frame[HEADER.size + at : HEADER.size + at + 16] for at in range(0, len(frame) - 200, 16)]
            assert not [part for part in secrets if any(part) and part in data]


def test_who_is_withheld_from_some_is_absent_for_them_and_is_said_to_be(federate):
    """The relay keeps the frames of one site from two others: a quorum of seven, five, goes on without it."""
    trial, _ = behind(federate, "withhold", 7)
    trial.start()
    trial.finish()
    trial.check(*trial.names, rounds=ROUNDS)
    none_of(trial, trial.names)
    withheld, *victims = trial.names[:3]
    for name in trial.names[1:]:
        absent = [withheld in event["absent"] for event in trial.events(name, "round")]
        assert all(absent) if name in victims else not any(absent), (name, absent)
    assert f"{withheld} is present but silent" in trial.output(victims[0])


def test_who_is_claimed_to_be_there_delays_the_others_and_no_more(federate):
    trial, _ = behind(federate, "presence")
    absent, *others = trial.names
    trial.start(*others)
    trial.finish(*others)
    trial.check(*others, rounds=ROUNDS)
    none_of(trial, others)
    assert all(event["absent"] == [absent] for name in others for event in trial.events(name, "round"))


def test_a_relay_that_floods_its_sites_fills_no_memory(federate):
    trial, _ = behind(federate, "grow")
    for name in trial.names:
        trial.hold(name, "train-5")
    trial.start()
    for name in trial.names:
        trial.until_held(name, "train-5")
    before = {name: memory(trial.pids[name]) for name in trial.names}
    trial.sleep(8)
    grown = {name: memory(trial.pids[name]) - before[name] for name in trial.names}
    for name in trial.names:
        trial.release(name, "train-5")
    trial.finish()
    trial.check(*trial.names, rounds=ROUNDS)
    none_of(trial, trial.names)
    assert max(grown.values()) < 100, grown


@pytest.mark.parametrize("mode", ["replay", "mix", "garble"])
def test_equivocation_is_proven_through_a_hostile_relay(federate, mode):
    trial, _ = behind(federate, mode)
    rogue, *others = trial.names
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "equivocation")
    trial.start(*others)
    trial.finish(*others)
    none_of(trial, others)
    for name in others:
        assert [event["agent"] for event in trial.events(name, "excluded")] == [rogue]
        assert list((trial.sites[name].parent / "run" / "evidence").iterdir())


def test_sites_change_over_when_one_of_two_relays_dies(federate):
    trial = federate(4, rounds=8, deadline=20.0, carrier="relay")
    trial.dial(*free_addresses(2))
    first, second = trial.start_relay(0), trial.start_relay(1)
    for name in trial.names:
        trial.hold(name, "train", "0.5")
    trial.start()
    trial.until_event(trial.names[0], "round", round=3)
    trial.kill(first)
    trial.until_event(trial.names[0], "round", round=5)
    trial.start_relay(0)
    trial.sleep(3)
    trial.kill(second)
    trial.finish()
    trial.check(*trial.names, rounds=8)
    none_of(trial, trial.names)
    assert all(not event["absent"] for name in trial.names for event in trial.events(name, "round"))


def test_when_a_relay_keeps_predictions_back_they_come_over_the_other_one(federate):
    """`predict --collective` hears all who answer, also if the honest relay is there a little later."""
    trial = federate(3, rounds=2, carrier="relay")
    trial.dial(*free_addresses(1))
    honest = trial.start_relay()
    trial.start_hostile_relay("withhold", after=tuple(trial.relays))
    trial.start()
    trial.finish()
    asking, *answering = trial.names
    processes = [trial.start_beside(name, "answer") for name in answering]
    for process in processes:
        trial.until_said(process, "answering with the model of round 2")
    loaded = load_site(trial.sites[asking])
    samples = loaded.path(loaded.site.shared)
    trial.kill(honest, signal.SIGSTOP)
    log = loaded.out / "asked.jsonl"
    with ThreadPoolExecutor(1) as thread:
        predicted = thread.submit(ask_peers, loaded, samples, lambda text: None, 10 * trial.slow)
        trial.until(lambda: log.is_file() and len(read_audit(log)) >= len(answering), "the questions")
        trial.kill(honest, signal.SIGCONT)
        assert predicted.result().names == trial.names
    asked = [event["agent"] for event in read_audit(log) if event["event"] == "asked"]
    assert sorted(asked) == sorted([*answering, *answering]), "over each relay once"


def test_a_member_that_answers_in_the_name_of_another_keeps_nobody_from_it(federate):
    """A member of the federation declares, at the relay, that it is another one, and answers with noise."""
    trial = federate(4, rounds=ROUNDS, carrier="relay")
    trial.dial(*free_addresses(1))
    trial.start_relay()
    rogue, *others = trial.names
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "good", f"poses:{others[0]}")
    trial.until_said(rogue, "poses")
    trial.start(*others)
    trial.finish(*others)
    trial.check(*others, rounds=ROUNDS)
    none_of(trial, others)
    assert all(not set(event["absent"]) & set(others) for name in others for event in trial.events(name, "round"))
