"""Where agents train."""

import pytest
import torch
from consilience.experiments.jobs import Job
from consilience.experiments.settings import Settings

from consilience import ConsilienceError
from consilience.experiments import build, jobs


def test_without_a_gpu_cuda_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConsilienceError, match="torch sees no GPU here"):
        build._device("cuda")


def test_workers_take_the_gpus_in_turn(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert build._device("cuda") == "cuda:0"
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert build._device("cuda") == "cuda:1"
    assert build._device("cpu") == "cpu"


def test_one_worker_for_each_gpu_or_core(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(jobs, "_cores", lambda: 8)
    assert jobs._most_workers([Job(Settings(), "dynamic", tmp_path)]) == 8
    assert jobs._most_workers([Job(Settings(device="cuda"), "dynamic", tmp_path)]) == 3


def test_unknown_devices_are_refused():
    with pytest.raises(ConsilienceError, match="unknown device 'gpu'"):
        Settings(device="gpu")
