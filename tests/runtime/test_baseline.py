"""The same agents alone, trained beside: what every gain is against."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import nn

import consilience as cs
from consilience.agents.protocol import copied
from consilience.runtime.driver import run_rounds
from consilience.settings.presets import read_settings
from consilience.settings.wiring import build_agents, build_evaluation, build_exchange, build_scenario, summarise
from consilience.workers.work import work
from tests.conftest import CLASSES, FEATURES, blobs

TARGET = blobs(200, seed=7)


class Attacker(cs.extend.Wrapper):
    def publish(self, shared):
        return np.roll(self.agent.predict(shared), 1, axis=1)


def agents() -> list[cs.extend.Agent]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(FEATURES, 8), nn.Dropout(), nn.BatchNorm1d(8), nn.Linear(8, CLASSES))
    return [
        cs.TorchAgent(net, *blobs(30, 1), "net", training=cs.Training(epochs=1)),
        cs.SklearnAgent(RandomForestClassifier(5), *blobs(20, 2), "forest"),
        Attacker(cs.TorchAgent(nn.Linear(FEATURES, CLASSES), *blobs(30, 3), "liar", training=cs.Training(epochs=1))),
    ]


def together(shared, rounds=5, **more) -> cs.Result:
    return cs.collaborate(agents(), shared, method=cs.Consensus(warmup=1), rounds=rounds, target=TARGET, **more)


def test_it_is_what_the_same_agents_reach_alone_in_as_many_rounds(shared):
    labels = np.arange(len(shared)) % CLASSES
    result = together(shared, shared_labels=labels)
    alone = cs.collaborate(agents(), shared, method="alone", rounds=5, target=TARGET, shared_labels=labels)
    assert alone.run.references == {}
    beside = result.run.references["alone"].metrics
    pd.testing.assert_frame_equal(beside, alone.history, check_exact=True)
    assert not beside["accuracy_target"].equals(result.history["accuracy_target"])


def test_it_has_the_numbers_of_the_reference_alone_of_a_run(tmp_path):
    settings = read_settings("digits-mlp", {"rounds": 3, "agents.count": 3, "method.warmup": 1})
    work(replace(settings, method=cs.Alone()), tmp_path / "alone")
    scenario = build_scenario(settings)
    members = build_agents(settings, scenario, tuple(scenario.shares))
    run = run_rounds(
        members,
        scenario.shared,
        build_exchange(settings, scenario),
        settings.method,
        summarise(settings, scenario, members),
        build_evaluation(settings, scenario),
        baseline=True,
    )
    beside, alone = run.references["alone"], cs.load_run(tmp_path / "alone")
    pd.testing.assert_frame_equal(beside.metrics, alone.metrics, check_exact=True)
    assert beside.draws.keys() == alone.draws.keys()
    for column, values in alone.draws.items():
        np.testing.assert_array_equal(beside.draws[column], values)


def test_nothing_that_the_agents_do_depends_on_it(shared, tmp_path):
    with_it, without = together(shared), together(shared, baseline=False)
    pd.testing.assert_frame_equal(with_it.history, without.history)
    np.testing.assert_array_equal(with_it.trust, without.trust)
    assert without.run.references == {}
    assert "No gain is shown" in without.report(tmp_path / "report.html").read_text()


def test_it_resumes_to_the_same_bits(shared, tmp_path):
    whole = together(shared).run.references["alone"].metrics
    together(shared, rounds=3, out=tmp_path / "run")
    (tmp_path / "run" / "summary.json").unlink()
    resumed = together(shared, out=tmp_path / "run", resume=True).run.references["alone"].metrics
    pd.testing.assert_frame_equal(whole, resumed)
    saved = cs.load_run(tmp_path / "run").references["alone"]
    pd.testing.assert_frame_equal(whole, saved.metrics)
    assert (saved.summary.method, saved.names) == ("alone", ["net", "forest", "liar"])


def test_a_run_begun_without_it_has_none_to_go_on_from(shared, tmp_path):
    together(shared, rounds=2, out=tmp_path / "run", baseline=False)
    with pytest.raises(cs.ConsilienceError, match="begun without copies of the agents"):
        together(shared, out=tmp_path / "run", resume=True)


def test_without_labels_to_measure_on_nobody_trains_twice(shared):
    result = cs.collaborate(agents(), shared, method=cs.Consensus(warmup=1), rounds=2)
    assert result.run.references == {}


def test_copies_share_data_and_not_models():
    net = agents()[0]
    copy = copied(net)
    assert copy.x is net.x and copy.y is net.y
    copy.train(blobs(10, 4)[0], None, 0.0)
    assert not np.array_equal(copy.predict(TARGET[0]), net.predict(TARGET[0]))
    assert copy.optimizer.param_groups[0]["params"][0] is next(copy.model.parameters())


def test_an_agent_that_cannot_be_copied_is_named(shared):
    class Handle(cs.extend.Wrapper):
        def __deepcopy__(self, memo):
            raise TypeError("cannot copy a file")

    with pytest.raises(cs.ConsilienceError, match=r"agent 'net' cannot be copied.*\(cannot copy a file\)"):
        method = cs.Consensus(warmup=1)
        cs.collaborate([Handle(agents()[0]), agents()[1]], shared, method=method, rounds=2, target=TARGET)
