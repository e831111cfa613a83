"""Machines that would not give the same numbers are refused, and who is started by torchrun knows it."""

import pytest

from consilience import ConsilienceError
from consilience.runtime.summary import versions
from consilience.workers.jobs import under_torchrun
from consilience.workers.torchrun import _same_versions


def test_other_versions_are_refused_and_named():
    _same_versions(versions(), 1)
    with pytest.raises(ConsilienceError, match=r"worker 3 on .* has torch .*, not 1.0 .*Install the same versions"):
        _same_versions(versions() | {"torch": "1.0"}, 3)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "here"}, True),
        ({"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "here"}, False),
        ({"RANK": "0", "WORLD_SIZE": "2"}, False),
        ({}, False),
    ],
)
def test_one_of_several_processes_is_one_that_torchrun_started(monkeypatch, environment, expected):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert under_torchrun() == expected
