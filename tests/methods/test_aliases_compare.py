"""Each method of prediction sharing through the command line's door: ten small networks gain from each other."""

import pytest

from consilience.experiments.compare import compare, summarise
from consilience.settings.presets import read_settings

METHODS = [
    "fedmd(warmup=2)",
    "ds-fl(warmup=2)",
    "fedct(warmup=2)",
    "cronus(warmup=2)",
    "kt-pfl(warmup=2)",
    "feddf",
    "fd",
]
LEAST = {"fd": 0.005}
"""Accuracy that a method must gain over training alone on digits-mlp in eight rounds; 0.1 but for those named here."""


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    settings = read_settings("digits-mlp", {"rounds": 8})
    compared = compare(settings, ["alone", *METHODS], [3], tmp_path_factory.mktemp("compare"), workers=1)
    return {line.method: line for line in summarise(compared)}


@pytest.mark.parametrize("method", METHODS)
def test_agents_are_better_than_alone(lines, method):
    assert lines[method].gain.mean > LEAST.get(method, 0.1)
    assert lines[method].worst > lines["alone"].worst
