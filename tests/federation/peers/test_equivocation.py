"""Who signs two things for one round is found out and proven, and nobody else is."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from consilience.federation.peers.admitted_peers import AdmittedPeers
from consilience.federation.peers.audit import AuditLog
from consilience.federation.peers.equivocation import Equivocation, equivocations
from consilience.federation.peers.frame import RECEIPT, Format, Receipt
from consilience.federation.peers.inbox import Inbox
from consilience.federation.peers.outbox import Outbox
from consilience.federation.peers.signed_changes import SignedChanges
from consilience.federation.peers.untrusted_input import frame_from, read_federation
from tests.federation.conftest import ROGUE
from tests.federation.peers.conftest import SIGNING, SITE_KEYS, F
from tests.federation.peers.test_site_exchange import FEDERATION, FORMAT, NAMES, SURE, UNSURE, Scripted, frame


def test_two_signatures_for_one_round_are_a_contradiction_a_repetition_is_not(federation):
    format = Format(federation)

    def receipt(number: int, f: np.ndarray):
        return frame_from(format, format.make(SIGNING[1], 1, number, 8, {}, f)[1], 1).receipt

    other = np.eye(2, dtype=np.float32)[[0, 1, 0, 1, 0, 1]]
    assert receipt(5, F).contradicts(receipt(5, other))
    assert not receipt(5, F).contradicts(receipt(5, F))
    assert not receipt(5, F).contradicts(receipt(6, other))
    assert not format.is_genuine(receipt(5, F)._replace(payload_hash=receipt(5, other).payload_hash))


@pytest.mark.faults
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


@pytest.mark.faults
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


@pytest.mark.faults
def test_equivocation_is_detected_proven_and_ends_in_exclusion(federate):
    trial = federate(5, rounds=6)
    rogue, *others = trial.names
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "good", "equivocation")
    trial.start(*others)
    trial.finish(*others)
    trial.check(*others, rounds=6)
    federation = read_federation(trial.folder / "federation.toml")
    for name in others:
        absent = [rogue in event["absent"] for event in trial.events(name, "round")]
        assert absent == [False, False, True, True, True], absent
        (excluded,) = trial.events(name, "excluded")
        assert excluded["agent"] == rogue and excluded["round"] == 3
        evidence = json.loads((trial.sites[name].parent / "run" / "evidence" / f"{rogue}.json").read_text())
        assert evidence["run"] == federation.identity().hex()
        receipt, other = (Receipt(0, *RECEIPT.unpack(bytes.fromhex(r["packed"]))) for r in evidence["receipts"])
        assert Format(federation).is_genuine(receipt) and Format(federation).is_genuine(other)
        assert (
            receipt.contradicts(other)
            and receipt.round == other.round == 3
            and receipt.payload_hash != other.payload_hash
        )


def receipt(name: str, number: int, f: np.ndarray = UNSURE) -> Receipt:
    return frame_from(FORMAT, frame(name, number, f), NAMES.index(name)).receipt


def test_receipts_from_two_peers_show_who_signed_twice_and_nobody_else() -> None:
    def frames(from_b: Receipt, from_c: Receipt) -> dict[str, tuple[Receipt, ...]]:
        given = {"b": {from_b.agent: from_b}, "c": {from_c.agent: from_c}}
        return {
            name: frame_from(FORMAT, frame(name, 5, UNSURE, one), NAMES.index(name)).others
            for name, one in given.items()
        }

    honest, other = receipt("d", 4), receipt("d", 4, SURE)
    forged = other._replace(signature=bytes(64))
    (found,) = equivocations(FORMAT, [], frames(honest, other), set())
    assert (found.agent, found.round, found.reporter) == ("d", 4, "c")
    assert (found.first, found.second) == (honest, other)
    (found,) = equivocations(FORMAT, [other], frames(honest, honest), set())
    assert (found.reporter, found.first) == ("b", other)
    assert not equivocations(FORMAT, [honest], frames(honest, honest), set())
    assert not equivocations(FORMAT, [honest], frames(honest, forged), set()), "nobody signed the forged one"
    assert not equivocations(FORMAT, [], frames(honest, receipt("d", 3, SURE)), set()), "two rounds"
    assert not equivocations(FORMAT, [], frames(honest, other), {"d"}), "already excluded"
    now, before = {"b": (other,)}, {"b": (honest,)}
    (found,) = equivocations(FORMAT, [], now, set(), before)
    assert (found.first, found.second) == (honest, other), "from one peer, one after the other"
    assert not equivocations(FORMAT, [], now, set(), {"b": (forged,), "c": (honest,)})
    assert not equivocations(FORMAT, [], {"b": (forged,)}, set(), before)


def admitted(folder: Path, name: str) -> AdmittedPeers:
    """The peers that a member listens to."""
    folder.mkdir(exist_ok=True)
    log = AuditLog(folder / f"{len(list(folder.glob('*.jsonl')))}.jsonl", SIGNING[0])
    changes = SignedChanges(FEDERATION, None)
    inbox, outbox = Inbox(FEDERATION, Scripted(), log, str), Outbox(FEDERATION, name, SITE_KEYS[0], folder)
    return AdmittedPeers(FEDERATION, name, folder, changes, inbox, outbox, log, str)


def test_who_missed_the_round_of_a_proof_gets_it_later(tmp_path: Path) -> None:
    """A peer that has excluded a member passes both of its statements on by turns, also after a restart."""
    both = receipt("d", 4), receipt("d", 4, SURE)
    admitted(tmp_path / "b", "b").exclude(Equivocation("d", *both, "c"))
    passed = [tuple(admitted(tmp_path / "b", "b").stories(number).values()) for number in (7, 8)]
    assert {*passed} == {(statement,) for statement in both}
    late = admitted(tmp_path / "a", "a")
    assert not late.exclude_equivocators([receipt("d", 6)], {"b": passed[0]})
    assert late.exclude_equivocators([receipt("d", 7)], {"b": passed[1]})
    assert late.excluded == {"d"}
    (tmp_path / "a" / "evidence" / "d.json").write_text('{"receipts": [1, 2]}')
    assert admitted(tmp_path / "a", "a").excluded == {"d"}, "damaged evidence excludes, but is passed on no more"
