"""Liars in a run: what they publish, what they learn, and that nothing depends on workers or interruptions."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from consilience import Consensus, ConsilienceError, Wire, load_run
from consilience.core.attacks import ATTACKS, AttackContext, attack_named
from consilience.extend import InMemory
from consilience.report.page import page_data
from consilience.report.tables import means_grid, run_grid
from consilience.runtime.exchange import LyingExchange
from consilience.settings.presets import read_settings
from consilience.settings.settings import Settings, changed
from consilience.settings.wiring import build_exchange, build_scenario
from consilience.workers.job import Job
from consilience.workers.jobs import run_jobs
from consilience.workers.work import work
from tests.methods.parrot import NAMES, first_words, rounds_of

SMALL = {"references": [], "agents.count": 5, "models": ["logistic", "mlp"], "epochs": 1, "rounds": 4, "warmup": 1}


def settings(attack: str = "flip", **changes) -> Settings:
    return read_settings("digits-mlp", SMALL | {"attack": attack, "attackers": [3, 4]} | changes)


def exchange(attack: str, wire: Wire | None = None) -> LyingExchange:
    return LyingExchange(InMemory(NAMES), ["d", "c"], attack_named(attack), 0, wire or Wire())


def same(one, other) -> None:
    np.testing.assert_array_equal(one.trust, other.trust)
    pd.testing.assert_frame_equal(one.metrics, other.metrics, check_exact=True)


@pytest.mark.parametrize("name", ["flip", "echo", "random", "copy"])
def test_everyone_hears_the_lies_and_liars_among_themselves_the_truth(name):
    f = dict(zip(NAMES, first_words(), strict=True))
    answer = exchange(name).gather(6, f)
    honest = np.stack([f["a"], f["b"]])
    for index, liar in enumerate(("c", "d")):
        expected = attack_named(name)(honest, f[liar], AttackContext(0, index, 0))
        np.testing.assert_array_equal(answer.predictions[liar], expected)
    assert answer.told == {"c": {"c": f["c"], "d": f["d"]}, "d": {"c": f["c"], "d": f["d"]}}
    np.testing.assert_array_equal(answer.predictions["a"], f["a"])


def test_a_lie_for_each_victim():
    f = dict(zip(NAMES, first_words(), strict=True))
    answer = exchange("echo-each").gather(6, f)
    honest = np.stack([f["a"], f["b"]])
    for index, victim in enumerate(("a", "b")):
        expected = attack_named("echo-each")(honest, f["d"], AttackContext(0, 1, 0, index))
        np.testing.assert_array_equal(answer.told[victim]["d"], expected)
    assert (answer.told["a"]["d"] != answer.told["b"]["d"]).any()


def test_lies_have_the_form_of_what_is_published():
    f = dict(zip(NAMES, first_words(), strict=True))
    said = exchange("random", Wire("float16")).gather(1, f).predictions["c"]
    np.testing.assert_array_equal(said, said.astype(np.float16).astype(np.float32))


def test_liars_learn_inside_as_if_all_were_honest():
    plain = rounds_of(Consensus(warmup=0), 1)[0].record
    lied = rounds_of(Consensus(warmup=0), 1, exchange("flip"))[0].record
    for name, row in zip(NAMES, range(4), strict=True):
        assert np.array_equal(plain.predictions[name], lied.predictions[name]) == (name in "cd")
        assert np.array_equal(plain.trust[row], lied.trust[row]) == (name in "cd")


def test_rounds_are_counted_from_the_first_exchange_and_kept():
    f = dict(zip(NAMES, first_words(), strict=True))
    one, other = exchange("sleeper(rounds=1)"), exchange("sleeper(rounds=1)")
    np.testing.assert_array_equal(one.gather(6, f).predictions["c"], f["c"])
    other.restore(one.state())
    assert (one.gather(7, f).predictions["c"] != f["c"]).any()
    np.testing.assert_array_equal(other.gather(7, f).predictions["c"], one.gather(7, f).predictions["c"])


@pytest.mark.parametrize("attack", ["stale", "sleeper(rounds=2)", "random", "echo-each"])
def test_a_run_that_was_interrupted_is_the_same_to_the_bit(tmp_path, attack):
    name, _, options = attack.partition("(rounds=")
    chosen = {"data.attack": {"name": name} | ({"rounds": int(options[:-1])} if options else {})}
    whole = changed(settings("flip"), chosen)
    work(whole, tmp_path / "whole")
    work(changed(whole, {"run.rounds": 3}), tmp_path / "part")
    (tmp_path / "part" / "config.toml").unlink()
    (tmp_path / "part" / "summary.json").unlink()
    work(whole, tmp_path / "part")
    same(load_run(tmp_path / "whole"), load_run(tmp_path / "part"))


@pytest.mark.parametrize("attack", ["stale", "echo-each"])
@pytest.mark.parametrize("rule", ["stratified", "expguard", "kt-pfl"])
def test_two_workers_give_the_bits_of_one(tmp_path, attack, rule):
    chosen = settings(attack, **{"method.trust": rule})
    [one] = run_jobs([Job(chosen, tmp_path / "one")], workers=1)
    [two] = run_jobs([Job(chosen, tmp_path / "two")], workers=2)
    same(one, two)


def test_a_run_marks_its_attackers_and_measures_the_attacked_class(tmp_path):
    chosen = settings("targeted")
    work(chosen, tmp_path / "run")
    run = load_run(tmp_path / "run")
    assert [agent.attacker for agent in run.summary.agents] == [False, False, False, True, True]
    assert run.summary.attack == "targeted"
    assert list(run.last_round()["attacker"]) == [False, False, False, True, True]
    page = page_data(run)
    assert ["agents", "5, 2 of them attackers (targeted)"] in page["facts"]
    assert [agent["mark"] for agent in page["agents"]] == ["", "", "", "attacker", "attacker"]
    assert "over the honest agents with good labels" in page["headline"]["what"]
    honest = run.last_round()["accuracy_target"][:3].mean()
    assert page["headline"]["entries"][-1]["mean"] == f"{honest:.3f}"
    assert means_grid(run).rows[-1][1] == f"{honest:.3f}"
    assert [row[2] for row in run_grid(run).rows] == ["good"] * 3 + ["good, lies"] * 2
    scenario = build_scenario(chosen)
    three = scenario.target_y == 3
    share = run.metrics["attacked_class_target"] * three.sum()
    np.testing.assert_allclose(share, share.round(), atol=1e-6)
    work(settings("none", attackers=[]), tmp_path / "honest")
    assert "attacked_class_target" not in load_run(tmp_path / "honest").metrics


def test_an_attack_without_attackers_moves_no_number(tmp_path):
    work(settings("none", attackers=[]), tmp_path / "none")
    work(settings("flip", attackers=[]), tmp_path / "nobody")
    same(load_run(tmp_path / "none"), load_run(tmp_path / "nobody"))


@pytest.mark.parametrize("attack", [name for name in ATTACKS.names() if name != "none"])
def test_every_attack_goes_through_settings_and_back(attack, tmp_path: Path):
    chosen = settings(attack)
    path = tmp_path / "mine.toml"
    path.write_text(chosen.to_toml())
    assert read_settings(str(path)) == chosen


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"attackers": [5]}, "attackers names agent 5, but agents are 0 to 4"),
        ({"attackers": [0, 1, 2, 3, 4]}, "Leave some of them honest"),
        ({"attack": "none"}, "no attack. Name one"),
        ({"method": "fedavg"}, "exchanges weights"),
        ({"method": "fd"}, "exchanges means of classes"),
        ({"attack": "flop"}, "unknown attack"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, error):
    with pytest.raises(ConsilienceError, match=error):
        chosen = settings(**changes)
        build_exchange(chosen, build_scenario(chosen))


def test_regression_has_no_classes_to_lie_about():
    chosen = read_settings("polynomial", {"attack": "flip", "attackers": [1]})
    with pytest.raises(ConsilienceError, match="regression has none"):
        build_exchange(chosen, build_scenario(chosen))
