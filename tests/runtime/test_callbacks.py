"""Callbacks hear of the same run in the same words, wherever it runs."""

import numpy as np
import pytest

import consilience as cs
from consilience.experiments.run import run_experiment
from consilience.runtime.callbacks import Callback, Callbacks, Ended, Finished, RunInfo, Started, Trained
from consilience.runtime.run import load_run
from consilience.runtime.summary import Summary
from consilience.settings.presets import read_settings
from tests.conftest import blobs

STARTED = Started(Summary("paper", "paper", "classification", 3, 1, 40), (("a", "b"),))


class Diary(Callback):
    """Writes down what it is told."""

    def __init__(self):
        self.told = []

    def start(self, run, news):
        self.told.append(("start", run, news))

    def trained(self, run, news):
        self.told.append(("trained", run, news))

    def round(self, run, news):
        self.told.append(("round", run, news))

    def end(self, run, news):
        self.told.append(("end", run, news))

    def kinds(self):
        return [kind for kind, _, _ in self.told]


def agents():
    from sklearn.linear_model import LogisticRegression

    return [cs.SklearnAgent(LogisticRegression(), *blobs(20, seed), name=name) for seed, name in enumerate("ab")]


def test_every_event_goes_to_the_method_that_is_for_it():
    diary = Diary()
    events = {"start": STARTED, "trained": Trained("a"), "round": Finished(1, {}), "end": Ended()}
    for event in events.values():
        diary.handle(RunInfo(), event)
    assert diary.told == [(kind, RunInfo(), event) for kind, event in events.items()]


def test_a_callback_that_overrides_nothing_hears_everything_in_silence():
    for event in (STARTED, Trained("a"), Finished(1, {}), Ended()):
        Callback().handle(RunInfo(), event)


def test_collaborate_tells_all_its_callbacks(shared):
    one, two = Diary(), Diary()
    method = cs.Consensus(lam=0.25, warmup=1)
    result = cs.collaborate(agents(), shared, method=method, rounds=3, callbacks=[one, two])
    assert one.kinds() == ["start", *["trained", "trained", "round"] * 3, "end"]
    assert [kind for kind, _, _ in two.told] == one.kinds()
    _, run, news = one.told[0]
    assert (run.name, run.settings["method.lam"], run.settings["run.rounds"]) == ("consensus", 0.25, 3)
    assert [agent.name for agent in news.summary.agents] == ["a", "b"]
    np.testing.assert_array_equal(one.told[-2][2].trust, result.trust[-1])


def test_a_run_that_fails_ends_unfinished_and_can_be_resumed(shared, tmp_path):
    class Angry(Callback):
        def round(self, run, news):
            if news.number == 2:
                raise RuntimeError("the logger's disk is full")

    diary, short = Diary(), cs.Consensus(warmup=1)
    with pytest.raises(RuntimeError, match="disk is full"):
        cs.collaborate(agents(), shared, rounds=3, method=short, out=tmp_path / "run", callbacks=[diary, Angry()])
    assert diary.kinds()[-1] == "end"
    assert diary.told[-1][2] == Ended(finished=False)
    again = Diary()
    cs.collaborate(agents(), shared, rounds=3, method=short, out=tmp_path / "run", resume=True, callbacks=[again])
    assert again.told[0][2].done == 2
    assert again.kinds() == ["start", "trained", "trained", "round", "end"]
    assert again.told[-1][2].finished


def test_what_has_ended_is_not_ended_again():
    diary = Diary()
    with Callbacks([diary]) as told:
        told.handle(RunInfo("one"), STARTED)
        told.handle(RunInfo("two"), STARTED)
        told.handle(RunInfo("one"), Ended(seconds=2.0))
    assert [(run.name, news.finished) for kind, run, news in diary.told if kind == "end"] == [
        ("one", True),
        ("two", False),
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_runs_on_workers_are_told_of_in_the_same_way(tmp_path, workers):
    """Over pipes or in the same process: numbers, trust and settings arrive as they are recorded."""
    changes = {"agents.count": 2, "models": ["logistic"], "rounds": 2, "warmup": 1, "low_quality": []}
    settings = read_settings("digits", changes | {"references": ["alone"], "limit": 20})
    diary = Diary()
    run_experiment(settings, tmp_path / "run", workers, [diary])
    for name, folder in {"consensus": tmp_path / "run", "alone": tmp_path / "run" / "alone"}.items():
        told = [(kind, news) for kind, run, news in diary.told if run.name == name]
        kinds = [kind for kind, _ in told]
        assert kinds.count("trained") == 4
        assert [kind for kind in kinds if kind != "trained"] == ["start", "round", "round", "end"]
        run = load_run(folder)
        last = [news for kind, news in told if kind == "round"][-1]
        table = run.last_round().set_index("agent")
        for agent, measures in last.agents.items():
            assert measures["accuracy_target"] == table.loc[agent, "accuracy_target"]
        if name == "consensus":
            np.testing.assert_array_equal(last.trust, run.trust[-1])
    about = next(run for _, run, _ in diary.told if run.name == "consensus")
    assert about.folder == tmp_path / "run"
    assert about.settings["agents.models"] == ["logistic"]
