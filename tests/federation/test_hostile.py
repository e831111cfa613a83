"""One hostile member, a flood of strangers, a careless operator: the honest sites finish, and know what happened."""

import json
import shutil
import time
import tomllib
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.base.errors import ConsilienceError
from consilience.base.files import write_atomically
from consilience.federation.peers.audit import AuditLog, read_audit
from consilience.federation.peers.change import Change, apply_changes
from consilience.federation.peers.keys import read_signing_key
from consilience.federation.peers.untrusted_input import read_federation
from consilience.federation.remote_prediction_client import ask_peers
from consilience.federation.site import load_site
from consilience.federation.verify import verify_log
from tests.federation.conftest import give, signed

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
        assert refused and all(event["agent"] == rogue and len(event["reason"]) < 2000 for event in refused)
        assert "\x1b" not in trial.output(name) and "\x07" not in trial.output(name)


@pytest.mark.parametrize("kind", ["dots300", "dots998", "dots998new", "fieldsnew"])
def test_a_text_made_to_keep_its_reader_busy_delays_nobody(federate, kind):
    """A header and keys of 500 parts take a parser 95 s, again whenever their sender comes back; with new: each time as
    another file."""
    trial = federate(4, rounds=6)
    rogue, *others = trial.names
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), f"text={kind}", "return:1")
    trial.start(*others)
    trial.until(lambda: all(trial.events(name, "finished") for name in others), "the last round", 30)
    trial.finish(*others)
    trial.check(*others, rounds=6)
    for name in others:
        refused = trial.events(name, "refused")
        assert {event["agent"] for event in refused} == {rogue}
        assert len(refused) <= (12 if "new" in kind else 1), "once, however often it returns"


def test_questions_made_to_end_a_site_that_answers_end_nothing(federate):
    """Nor does a member that shows itself over and over keep a collective prediction waiting."""
    trial = federate(4, rounds=2)
    rogue, asking, *answering = trial.names
    trial.start()
    trial.finish()
    processes = [trial.start_beside(name, "answer") for name in answering]
    for process in processes:
        trial.until_said(process, "answering with the model of round 2")
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "good", "ask", "flap-answers")
    trial.until(lambda: "\nasked\n" in trial.output(rogue), "the questions")
    for name, process in zip(answering, processes, strict=True):
        assert trial.pids[process] not in trial.launcher.codes, trial.output(process)
        assert f"answered by {name}" in trial.output(rogue)
        log = read_audit(trial.sites[name].parent / "run" / "answered.jsonl")
        assert any(rogue == line["agent"] and "outside of the range" in line.get("reason", "") for line in log)
    prepared = load_site(trial.sites[asking])
    samples = prepared.path(prepared.site.shared)
    assert ask_peers(prepared, samples, lambda text: None).names == [asking, *answering]
    trial.kill(processes[0])
    began, patience = time.monotonic(), 3 * trial.slow
    with pytest.raises(ConsilienceError, match=f"2 agents of the 3 needed were heard .*{answering[0]}: not there"):
        ask_peers(prepared, samples, lambda text: None, patience)
    assert time.monotonic() - began < 4 * patience, "so long to appear, and so long to answer"


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
    assert any(first not in event["absent"] for event in trial.events(others[0], "round")[-3:]), "it never came back"


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


@pytest.mark.minutes
def test_a_member_that_comes_and_goes_fills_neither_queue_nor_log(federate):
    """While the others wait for somebody, and so take note of everything at once."""
    trial = federate(4, rounds=5)
    rogue, held, *others = trial.names
    trial.hold(held, "train-3")
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "good", "good", "silent", "flap:20000")
    trial.start(held, *others)
    trial.until_held(held, "train-3")
    for name in others:
        trial.until_event(name, "sent", round=4)
    (trial.sites[rogue].parent / "go").touch()
    trial.until(lambda: "flapped" in trial.output(rogue), "the end of the flapping")
    trial.release(held, "train-3")
    trial.finish(held, *others)
    trial.check(held, *others, rounds=5)
    for name in (held, *others):
        of_rogue = [event for event in trial.events(name) if event.get("agent") == rogue]
        changes = [event for event in of_rogue if event["event"] in ("here", "gone")]
        first, last = (datetime.fromisoformat(event["time"]).timestamp() for event in (changes[0], changes[-1]))
        assert len(changes) < 25 + (last - first) / 10, len(changes)


def test_questions_under_long_and_ever_new_names_are_not_kept(federate):
    """120 MB of them for each site."""
    trial = federate(4, rounds=6)
    rogue, *others = trial.names
    for name in others:
        trial.hold(name, "train-4")
    trial.start(*others)
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "good", "stuff:600")
    for name in others:
        trial.until_held(name, "train-4")
    before = {name: memory(trial.pids[name]) for name in others}
    (trial.sites[rogue].parent / "go").touch()
    trial.until(lambda: "stuffed" in trial.output(rogue), "the questions")
    trial.sleep(3)
    grown = {name: memory(trial.pids[name]) - before[name] for name in others}
    for name in others:
        trial.release(name, "train-4")
    trial.finish(*others)
    trial.check(*others, rounds=6)
    assert max(grown.values()) < 60, grown
    for name in others:
        assert trial.events(name, "dropped")[-1]["agent"] == rogue


def test_options_behind_the_address_of_a_member_reach_no_session(federate):
    """With another authority in an address of its own a member spoke under the name of a peer."""
    trial = federate(4)
    file = trial.folder / "federation.toml"
    text = file.read_text()
    address = tomllib.loads(text)["roster"][0]["address"]
    file.write_text(text.replace(f'"{address}"', f'"{address}#root_ca_certificate_base64=QQ=="'))
    trial.start()
    for name in trial.names:
        assert trial.code(name) == 2
        assert "host:port" in trial.output(name) and "Traceback" not in trial.output(name)
        assert not (trial.sites[name].parent / "run").exists(), "nothing was begun"


@pytest.mark.minutes
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


def test_equivocation_in_the_last_round_is_detected_and_proven(federate):
    trial = federate(5, rounds=4)
    rogue, *others = trial.names
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "good", "good", "equivocation")
    trial.start(*others)
    trial.finish(*others)
    trial.check(*others, rounds=4)
    for name in others:
        (excluded,) = trial.events(name, "excluded")
        assert (excluded["agent"], excluded["round"]) == (rogue, 4)
        run = trial.sites[name].parent / "run"
        assert (run / "evidence" / f"{rogue}.json").is_file()
        assert "signed two different predictions for round 4" in (run / "summary.json").read_text()


@pytest.mark.minutes
def test_a_member_that_is_there_but_silent_costs_three_deadlines_and_not_every_one(federate):
    trial = federate(4, rounds=12, deadline=4.0)
    rogue, *others = trial.names
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), *["silent"] * 9, "good")
    trial.start(*others)
    trial.finish(*others)
    trial.check(*others, rounds=12)
    for name in others:
        closed = trial.events(name, "round")
        times = {event["round"]: datetime.fromisoformat(event["time"]).timestamp() for event in closed}
        took = [times[number] - times[number - 1] for number in range(3, 11)]
        assert took[0] > 3.5 * trial.slow, took
        assert sorted(took)[4] < 3.5 * trial.slow, took
        assert rogue in closed[-2]["heard"] and rogue in closed[-1]["heard"], "it spoke again, and was not heard"
        assert f"{rogue} is present but silent" in trial.output(name)


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


def test_an_audit_log_is_written_by_one_process_signed_and_verified(federate):
    trial = federate(4, rounds=4)
    first, *others = trial.names
    trial.hold(first, "train-3")
    trial.start()
    trial.until_held(first, "train-3")
    second = trial.start_beside(first, "run")
    assert trial.code(second) == 2
    assert "another process of this site is running" in trial.output(second)
    trial.release(first, "train-3")
    trial.finish(first, *others)
    run, peer = (trial.sites[name].parent / "run" for name in (first, others[0]))
    assert verify_log(run).state == verify_log(run, [peer]).state == "whole"
    log = run / "audit.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    last_sent = max(place for place, line in enumerate(lines) if b'"event": "sent"' in line)
    log.write_bytes(b"".join(lines[:last_sent]))
    assert verify_log(run).state == "cut", "its own frame of that round is there"
    shutil.rmtree(run / "published")
    (run / "summary.json").unlink()
    assert verify_log(run).state == "whole", "nothing of its own shows that the end is missing"
    proven = verify_log(run, [peer / "published" / "receipts"])
    assert proven.state == "cut" and "signed round 4, and no line says so" in proven.reason
    log.write_bytes(b"".join(lines).replace(b'"absent": []', b'"absent": [1]', 1))
    assert verify_log(run, [peer]).state == "rewritten"
    forged = AuditLog(trial.folder / "forged.jsonl", Ed25519PrivateKey.generate())
    for line in lines:
        event = json.loads(line)
        forged.add(event.pop("event"), **{key: event[key] for key in event if key not in ("before", "signed", "time")})
    forged.close()
    shutil.copy(trial.folder / "forged.jsonl", log)
    assert verify_log(run, [peer]).state == "rewritten", "with another key"


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


def test_what_a_run_writes_is_for_its_owner_alone(federate):
    trial = federate(2, rounds=2)
    trial.start()
    trial.finish()
    for name in trial.names:
        for path in (trial.sites[name].parent / "run").rglob("*"):
            assert path.stat().st_mode & 0o077 == 0, path


def test_a_revoked_member_is_refused_at_once_and_gone_in_the_next_epoch(federate):
    trial = federate(4, rounds=12, deadline=3.0)
    revoked, *others = trial.names
    for name in trial.names:
        trial.hold(name, "train", "0.6")
    trial.start()
    trial.until_event(others[0], "round", round=2)
    file = trial.folder / "federation.toml"
    agreed = read_federation(file)
    change = Change(agreed.identity().hex(), (revoked,), (), {})
    for count, name in enumerate(others, 1):
        key = read_signing_key(trial.sites[name].parent / "keys" / "signing.key")
        change = change.with_signature(agreed, name, key)
        for site in others:
            write_atomically(trial.sites[site].parent / "change.toml", change.to_toml().encode())
        if count == 2:
            for site in others:
                trial.until_event(site, "refused", agent="")
    for name in others:
        trial.until_event(name, "revoked", agent=revoked, by=others)
    trial.finish(*others)
    trial.check(*others, rounds=12)
    for name in others:
        log = trial.events(name)
        after = log[next(place for place, event in enumerate(log) if event["event"] == "revoked") :]
        assert all(revoked not in event["heard"] for event in after if event["event"] == "round")
        assert not [event for event in after if event["event"] == "here" and event["agent"] == revoked]
    assert apply_changes([change], agreed).names == tuple(others)
    assert apply_changes([change], agreed).epoch == 2


def test_a_revoked_member_is_asked_nothing_and_answered_nothing(federate):
    """Nor after the operator has removed the change; and the next epoch begins without it, or not at all."""
    trial = federate(4, rounds=2)
    rogue, asking, *answering = trial.names
    trial.start()
    trial.finish()
    prepared = load_site(trial.sites[asking])
    samples = prepared.path(prepared.site.shared)
    processes = [trial.start_beside(name, "answer") for name in answering]
    for process in processes:
        trial.until_said(process, "answering with the model of round 2")
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "good", "answers", "ask")
    trial.until(lambda: "\nasked\n" in trial.output(rogue), "the questions")
    assert all(f"answered by {name}" in trial.output(rogue) for name in answering), "it is a member still"
    with suppress(ConsilienceError):
        ask_peers(prepared, samples, lambda text: None, 5 * trial.slow)
    assert f"was asked by {asking}" in trial.output(rogue)
    trial.kill(rogue)

    give(trial, signed(trial, rogue, [asking, *answering]), [asking, *answering])
    for turn in ("while they answer", "after a restart, without the file"):
        trial.log(rogue).unlink()
        trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "good", "answers", "ask")
        trial.until(lambda: "\nasked\n" in trial.output(rogue), "the questions")
        assert "answered by" not in trial.output(rogue), turn
        prepared = load_site(trial.sites[asking])
        assert ask_peers(prepared, samples, lambda text: None).names == [asking, *answering]
        assert "was asked" not in trial.output(rogue), turn
        trial.kill(rogue)
        for name in (asking, *answering):
            (trial.sites[name].parent / "change.toml").unlink(missing_ok=True)
        for process in processes:
            trial.kill(process)
        processes = [trial.start_beside(name, "answer") for name in answering]
        for process in processes:
            trial.until_said(process, f"{rogue} was revoked by a quorum: it is not answered")
            trial.until_said(process, "answering with the model of round 2")

    file = trial.folder / "federation.toml"
    first = read_federation(file)
    file.write_text(replace(first, epoch=2).to_toml())
    for name in (asking, *answering):
        refused = trial.start_beside(name, "run")
        assert trial.code(refused) == 2 and "a quorum withdrew in epoch 1" in trial.output(refused)
    file.write_text(first.to_toml())
    again = trial.start_beside(asking, "run")
    assert trial.code(again) == 0 and "this run is finished" in trial.output(again)


@pytest.mark.minutes
def test_a_second_revocation_and_restarts_readmit_nobody(federate):
    """Of six, a quorum of which is four; the second change takes the place of the first one beside site.toml."""
    trial = federate(6, rounds=14, deadline=3.0)
    first, second, *others = trial.names
    for name in trial.names:
        trial.hold(name, "train", "0.6")
    trial.start()
    trial.until_event(others[0], "round", round=2)
    for revoked in (first, second):
        give(trial, signed(trial, revoked, others), others)
        for name in others:
            trial.until_event(name, "revoked", agent=revoked, by=others)
    for name in others[:2]:
        trial.kill(name)
        trial.start(name)
    trial.finish(*others)
    for name in others:
        log = trial.events(name)
        for revoked in (first, second):
            start = next(
                index for index, event in enumerate(log) if event["event"] == "revoked" and event["agent"] == revoked
            )
            assert all(revoked not in event["heard"] for event in log[start:] if event["event"] == "round")
            assert not any(event["event"] == "here" and event["agent"] == revoked for event in log[start + 1 :]), name
