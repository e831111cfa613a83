"""From settings to data and agents: where agents train, and which models they get."""

import pytest
import torch

from consilience import ConsilienceError
from consilience.settings.presets import read_settings
from consilience.settings.settings import Settings, changed
from consilience.settings.wiring import _device, build_agents, build_scenario, summarise
from consilience.workers import jobs
from consilience.workers.job import Job

CUDA = changed(Settings(), {"device": "cuda"})


def test_models_are_dealt_out_in_turn_and_asked_for_agents_alone_are_built():
    settings = read_settings("digits")
    scenario = build_scenario(settings)
    agents = build_agents(settings, scenario)
    assert [agent.kind for agent in agents] == ["forest", "boosting", "cnn", "logistic", "mlp"] * 2
    assert [agent.name for agent in build_agents(settings, scenario, ["7", "1"])] == ["1", "7"]
    assert [agent.kind for agent in build_agents(settings, scenario, ["7", "1"])] == ["boosting", "cnn"]


def test_a_summary_knows_the_run_before_it_begins():
    settings = read_settings("digits", {"lam": 0.3, "method": "static"})
    scenario = build_scenario(settings)
    summary = summarise(settings, scenario, build_agents(settings, scenario))
    assert (summary.method, summary.title, summary.warmup, summary.rounds) == ("static", "consensus (static)", 5, 15)
    assert [agent.low_quality for agent in summary.agents] == [number in (2, 9) for number in range(10)]
    assert summary.data == scenario.fingerprint()


def test_a_multi_label_dataset_is_built_with_networks_and_estimators():
    changes = {"dataset": "digit-properties", "partition": "iid", "models": ["mlp", "logistic"], "agents.count": 3}
    settings = changed(Settings(), changes)
    scenario = build_scenario(settings)
    agents = build_agents(settings, scenario)
    assert {agent.task.name for agent in agents} == {"multilabel"}
    assert {agent.predict(scenario.shared).shape for agent in agents} == {(90, 4)}


def test_without_a_gpu_cuda_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConsilienceError, match="torch sees no GPU here"):
        _device(CUDA)


def test_workers_take_the_gpus_in_turn(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert _device(CUDA) == "cuda:0"
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert _device(CUDA) == "cuda:1"
    assert _device(Settings()) == "cpu"


def test_one_worker_for_each_gpu_or_core(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(jobs.os, "sched_getaffinity", lambda process: set(range(8)))
    assert jobs._most_workers([Job(Settings(), tmp_path)]) == 8
    assert jobs._most_workers([Job(CUDA, tmp_path)]) == 3
