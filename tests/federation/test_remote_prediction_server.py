"""A site that answers questions: made to do harm, of revoked members, under ever new names."""

import time

import pytest

from consilience.base.errors import ConsilienceError
from consilience.federation.peers.audit import read_audit
from consilience.federation.remote_prediction_client import ask_peers
from consilience.federation.site import load_site
from tests.federation.conftest import ROGUE, memory


@pytest.mark.faults
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


@pytest.mark.faults
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
