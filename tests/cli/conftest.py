"""What tests of commands share."""

import pytest
from typer.testing import CliRunner

from consilience.cli.main import app

QUICK = [
    "--set",
    "rounds=2",
    "--set",
    "warmup=1",
    "--set",
    "models=logistic",
    "--set",
    "agents.count=3",
    "--set",
    "low_quality=[]",
]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Commands work in an empty folder, on a wide terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def call(*words: str) -> str:
    """Output of a command that must succeed; its errors are raised as they are."""
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output
