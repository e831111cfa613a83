"""Run folders from somebody else: `report` prints them as they are, or says in a sentence what is wrong."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from consilience.base.errors import ConsilienceError
from consilience.cli.main import app
from consilience.experiments.run import run_experiment
from consilience.runtime.checkpoint import SUMS, checked_files, write_sums
from consilience.runtime.run import load_run
from consilience.settings.presets import read_settings

CHANGES = {"agents.count": 3, "models": ["logistic"], "rounds": 2, "warmup": 1, "low_quality": [], "limit": 20}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    run_experiment(read_settings("digits", CHANGES | {"references": ["alone"]}), folder, 1)
    return folder


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


def report(folder: Path, timeout: int = 60) -> subprocess.CompletedProcess[str]:
    """In a process of its own, which has a time limit and prints its own errors."""
    command = [sys.executable, "-m", "consilience", "report", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def reported(folder: Path) -> Result:
    """The same in this process, much faster; an error that would be a traceback is raised."""
    done = CliRunner().invoke(app, ["report", str(folder)])
    if isinstance(done.exception, Exception) and not isinstance(done.exception, ConsilienceError):
        raise done.exception
    return done


def reseal(folder: Path) -> None:
    """Right checksums of what is there now."""
    names = [line.split()[1] for line in (folder / SUMS).read_text().splitlines()]
    write_sums(folder, {name: (folder / name).read_bytes() for name in names})


def renamed(folder: Path, name: str) -> None:
    """Another name of the first agent, everywhere."""
    for part in (folder, folder / "alone"):
        summary = json.loads((part / "summary.json").read_text())
        before = summary["agents"][0]["name"]
        summary["agents"][0]["name"] = name
        (part / "summary.json").write_text(json.dumps(summary))
        table = pd.read_parquet(part / "metrics.parquet")
        table["agent"] = table["agent"].replace(before, name)
        table.to_parquet(part / "metrics.parquet", index=False)
        reseal(part)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("[/red]", "[/red]"), ("[bold]", "[bold]"), ("\x1b]0;x\x07\x1b[2J", r"\x1b]0;"), ("a\u202eb", r"\u202e")],
)
def test_names_are_printed_as_they_are_and_escapes_are_spelled_out(run: Path, name: str, shown: str) -> None:
    renamed(run, name)
    done = reported(run)
    assert done.exit_code == 0
    assert shown in "".join(done.output.split())
    assert not {"\x1b", "\x07", "\u202e"} & set(done.output)


def test_an_error_spells_out_escapes(run: Path) -> None:
    (run / "summary.json").write_text(json.dumps({"\x1b[2J[/red]": 1, "agents": []}))
    reseal(run)
    done = report(run)
    assert done.returncode == 2 and "\x1b" not in done.stderr and r"\x1b[2J[/red]" in done.stderr


def test_links_to_the_folder_itself_do_not_hang_it(run: Path) -> None:
    for name in ("one", "two"):
        (run / name).symlink_to(".")
    began = time.monotonic()
    assert report(run).returncode == 0
    assert time.monotonic() - began < 60 and list(load_run(run).references) == ["alone"]


def agents(change: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    return lambda summary: summary["agents"][0].update(change)


SUMMARIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "rounds": lambda summary: summary.update(rounds="many"),
    "task": lambda summary: summary.update(task=["classification"]),
    "other task": lambda summary: summary.update(task="guessing"),
    "title": lambda summary: summary.update(title=None),
    "classes": lambda summary: summary.update(classes=[[1]]),
    "classes, a word": lambda summary: summary.update(classes="abc"),
    "seconds": lambda summary: summary.update(seconds="1"),
    "endless": lambda summary: summary.update(seconds=float("inf")),
    "huge": lambda summary: summary.update(seconds=10**400),
    "sent": lambda summary: summary.update(sent={}),
    "versions": lambda summary: summary.update(versions=[1]),
    "incidents": lambda summary: summary.update(incidents=[None]),
    "agents": lambda summary: summary.update(agents={"a": 1}),
    "fewer agents": lambda summary: summary["agents"].pop(),
    "more agents": lambda summary: summary["agents"].append({"name": "new"}),
    "two of a name": lambda summary: summary["agents"].append(summary["agents"][0]),
    "name": agents({"name": 5}),
    "samples": agents({"samples": "5"}),
    "counts": agents({"class_counts": {"a": 1}}),
    "counts of words": agents({"class_counts": ["a", "b"]}),
    "other counts": agents({"class_counts": [1, 2]}),
    "attacker": agents({"attacker": 3}),
    "privacy": agents({"privacy": {"stopped": 3}}),
    "privacy of words": agents({"privacy": {"epsilon": "a", "budget": "b", "generator": 3, "stopped": "c"}}),
}


@pytest.mark.parametrize("kind", SUMMARIES)
def test_a_summary_with_wrong_types_ends_in_a_sentence(run: Path, kind: str) -> None:
    """With right checksums: somebody made them so."""
    summary = json.loads((run / "summary.json").read_text())
    SUMMARIES[kind](summary)
    (run / "summary.json").write_text(json.dumps(summary))
    reseal(run)
    done = reported(run)
    assert kind == "other counts" or isinstance(done.exception, ConsilienceError), done.output


def _tables() -> dict[str, Callable[[pd.DataFrame], pd.DataFrame]]:
    return {
        "no rounds": lambda table: table.drop(columns="round"),
        "no agents": lambda table: table.drop(columns="agent"),
        "no bytes": lambda table: table.drop(columns="bytes_sent"),
        "rounds of words": lambda table: table.assign(round="one"),
        "scores of words": lambda table: table.assign(accuracy_target="good"),
        "other agents": lambda table: table.assign(agent="somebody"),
        "rows twice": lambda table: pd.concat([table, table]),
        "no rows": lambda table: table.iloc[:0],
    }


@pytest.mark.parametrize("kind", _tables())
def test_metrics_of_another_run_end_in_a_sentence(run: Path, kind: str) -> None:
    path = run / "metrics.parquet"
    _tables()[kind](pd.read_parquet(path)).to_parquet(path, index=False)
    reseal(run)
    assert isinstance(reported(run).exception, ConsilienceError)


@pytest.mark.parametrize(
    "change",
    [
        {"trust": np.ones((1, 2, 2))},
        {"trust": np.ones(3)},
        {"trust": np.array([["a"]])},
        {"rounds": np.arange(9)},
        {"rounds": np.array(["a"])},
        {"peers": np.full((1, 3, 3), 10**9)},
        {"peers": np.full((1, 3, 1), 0)},
        {"class_trust": np.array(["a"])},
    ],
)
def test_trust_of_another_run_ends_in_a_sentence(run: Path, change: dict[str, Any]) -> None:
    with np.load(run / "trust.npz") as saved:
        arrays = dict(saved)
    np.savez(run / "trust.npz", **(arrays | change))
    reseal(run)
    done = reported(run)
    assert isinstance(done.exception, ConsilienceError) or "class_trust" in change


@pytest.mark.slow
def test_a_small_table_that_would_fill_the_memory_is_refused(run: Path) -> None:
    """One that is behind its checksum."""
    rows = 60_000_000
    table = pd.DataFrame({"round": np.zeros(rows, np.int64), "agent": pd.Categorical.from_codes([0] * rows, ["0"])})
    table.to_parquet(run / "metrics.parquet", index=False, compression="zstd")
    del table
    reseal(run)
    assert (run / "metrics.parquet").stat().st_size < 1_000_000 and checked_files(run)
    done = report(run)
    assert done.returncode == 2 and "would be unpacked" in " ".join(done.stderr.split()), done.stderr


def test_settings_that_are_no_text_end_in_a_sentence(run: Path) -> None:
    path = run / "config.toml"
    path.write_bytes(path.read_bytes() + b"\n# \xff\n")
    for command in (["run", "digits", "--resume", "--out"], ["run", "--resume", "--out"]):
        error = CliRunner().invoke(app, [*command, str(run)]).exception
        assert isinstance(error, ConsilienceError) and "it is no text" in str(error)
