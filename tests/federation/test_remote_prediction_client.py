"""Peers are asked for predictions."""

from contextlib import suppress
from dataclasses import replace

import pytest

from consilience.base.errors import ConsilienceError
from consilience.federation.peers.untrusted_input import read_federation
from consilience.federation.remote_prediction_client import ask_peers
from consilience.federation.site import load_site
from tests.federation.conftest import ROGUE, give, signed


@pytest.mark.faults
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
