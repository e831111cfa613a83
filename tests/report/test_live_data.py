"""What the live page of a run knows, from the files of its folder."""

import json
import os
import time

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.experiments.run import run_experiment
from consilience.federation.peers.audit import AuditLog
from consilience.federation.peers.presence import Presence
from consilience.report.live import message
from consilience.report.live_data import has_ended, snapshot, state_of
from consilience.report.page import page_data, write_page
from consilience.runtime.callbacks import Finished, Trained
from consilience.runtime.run import load_run
from consilience.settings.presets import read_settings
from tests.conftest import Hears
from tests.report.test_live import CHANGES, SETTINGS, stopped_after


def test_a_run_under_way_is_shown_as_far_as_it_has_come(tmp_path):
    stopped_after(3, tmp_path)
    found = snapshot(tmp_path)
    run_experiment(SETTINGS, tmp_path, 1)
    whole = load_run(tmp_path)
    assert found.metrics["round"].max() == 3
    rows = whole.metrics[whole.metrics["round"] <= 3].reset_index(drop=True)
    assert found.metrics["accuracy_target"].tolist() == rows["accuracy_target"].tolist()
    assert (found.trust == whole.trust[: len(found.trust)]).all()
    assert page_data(snapshot(tmp_path)) == page_data(whole)


def test_a_run_ends_with_the_last_of_its_references(tmp_path):
    """Until then the page goes on; then it holds what report.html does."""
    settings = read_settings("digits", CHANGES | {"references": ["alone", "naive"]})

    def stop(run, event):
        if run.name == "naive" and isinstance(event, Finished):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(settings, tmp_path, 1, [Hears(stop)])
    assert not has_ended(tmp_path)
    assert state_of(tmp_path)["text"] == "all rounds done; now naive, to compare with"
    run = run_experiment(settings, tmp_path, 1)
    assert has_ended(tmp_path)
    data = message(tmp_path)["data"]
    text = write_page(run, tmp_path / "report.html").read_text()
    assert json.loads(text.split('id="data">')[1].split("</script>")[0]) == json.loads(json.dumps(data))


def test_who_trains_is_known_while_a_round_is_under_way(tmp_path, monkeypatch):
    monkeypatch.setattr("consilience.runtime.progress_file.PAUSE", 0)
    seen = []

    def look(run, event):
        if isinstance(event, Trained) and (tmp_path / "started.json").is_file():
            seen.append([value for name, value in state_of(tmp_path)["facts"] if name == "trains now"])

    run_experiment(SETTINGS, tmp_path, 1, [Hears(look)])
    names = json.loads((tmp_path / "started.json").read_text())["agents"]
    assert [f"agent {names[1]['name']}; 1 of 3 have trained in round 2"] in seen
    assert not (tmp_path / "now.json").exists(), "nobody trains any more"


def test_the_time_left_is_as_long_as_the_last_round_took_and_silence_is_told(tmp_path):
    stopped_after(2, tmp_path)
    first, second = sorted((tmp_path / "checkpoint").iterdir())
    now = time.time()
    os.utime(first, (now - 100, now - 100))
    os.utime(second, (now - 40, now - 40))
    assert state_of(tmp_path)["text"] == "round 2 of 4 done; about 80 s left"
    os.utime(first, (now - 4990, now - 4990))
    os.utime(second, (now - 4930, now - 4930))
    assert state_of(tmp_path)["text"].endswith("the last round ended about 82 min ago")


def test_a_site_says_who_is_there_late_and_suspicious_what_it_sent_and_spent(tmp_path):
    stopped_after(2, tmp_path)
    known = json.loads((tmp_path / "started.json").read_text())
    for agent in known["agents"][1:]:
        agent["model"] = "unknown"
    (tmp_path / "started.json").write_text(json.dumps(known))
    _, here, away = [agent["name"] for agent in known["agents"]]
    Presence(tmp_path).tell({here}, {here}, 90)
    log = AuditLog(tmp_path / "audit.jsonl", Ed25519PrivateKey.generate())
    log.add("ledger", spent=0.25, budget=4.0)
    log.add("sent", round=2, bytes=1500)
    log.add("late", round=1, agent=here, now=2)
    log.add("suspicious", round=2, agent=here, sign="stale", of="")
    log.add("privacy", round=2, epsilon=1.5, trained=True)
    log.close()
    facts = dict(state_of(tmp_path)["facts"])
    assert facts["present"] == here
    assert facts["absent"] == away
    assert facts["waits for"].startswith(f"{here} (at most 1:")
    assert facts["late"] == f"{here} (round 1)"
    assert here in facts["suspicious"]
    assert facts["sent"] == "1.5 kB"
    assert facts["privacy budget"] == "epsilon 1.500 of 4 is spent"
    assert snapshot(tmp_path).summary.sent == 1500


def test_a_private_run_shows_what_is_spent_by_now(tmp_path):
    pytest.importorskip("opacus")
    settings = read_settings("digits", CHANGES | {"references": [], "models": ["mlp"], "agents.epsilon": 8})

    def stop(run, event):
        if isinstance(event, Finished) and event.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(settings, tmp_path, 1, [Hears(stop)])
    card = message(tmp_path)["data"]["privacy"]["agents"]
    assert len(card) == 3
    assert all(0 < agent["epsilon"] < agent["budget"] == 8 and agent["rounds"] == 2 for agent in card)
