"""docs/how-to/extend.md is true: its files are short, its commands and calls run, and use what the file brings."""

import ast
import importlib
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from torch import nn
from typer.testing import CliRunner

import consilience as cs
from consilience.cli.main import app
from consilience.data.datasets import DATASETS
from consilience.runtime.exchange import InMemory

from .conftest import CLASSES, FEATURES, blobs

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "extend.md"
LONGEST = 15
QUICK = ["--set", "rounds=3", "--set", "epochs=1", "--workers", "1"]


@dataclass(frozen=True)
class Section:
    """One way of extending: its file, the commands that use it, and the calls that do."""

    title: str
    file: str
    code: str
    commands: list[list[str]]
    calls: list[str]


def sections() -> list[Section]:
    found = []
    for text in PAGE.read_text().split("\n## ")[1:]:
        blocks = re.findall(r"```(\w*)\n(.*?)```", text, re.DOTALL)
        python = [code for language, code in blocks if language == "python"]
        commands = [shlex.split(line) for language, code in blocks if not language for line in code.splitlines()]
        if python:
            [file] = {word.partition("plugins=")[2] for line in commands for word in line if "plugins=" in word}
            assert f"`{file}`" in text, f"the text says that the file is {file}"
            found.append(Section(text.partition("\n")[0], file, python[0], commands, python[1:]))
    return found


SECTIONS = sections()


@pytest.fixture
def written(tmp_path, monkeypatch):
    """An empty folder with the file of a section in it; what it registers is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for registry in (cs.extend.TRUST, cs.extend.METHODS, cs.extend.MODELS, cs.extend.TASKS, DATASETS):
        registry.names()
        monkeypatch.setattr(registry, "_found", dict(registry._found))
    before = set(sys.modules)

    def write(section: Section) -> Path:
        (tmp_path / section.file).write_text(section.code)
        importlib.invalidate_caches()
        return tmp_path

    yield write
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def called(words: list[str], out: str) -> str:
    """Output of a command of the page, run into the folder `out` in three rounds."""
    program, command, *rest = words
    assert program == "consilience"
    if "--seeds" in rest:
        rest[rest.index("--seeds") + 1] = "0"
    else:
        rest += ["--set", "references=[]"]
    if not any(word.startswith(("method=", "--methods")) for word in rest):
        rest += ["--set", "warmup=1"]
    done = CliRunner().invoke(app, [command, *rest, *QUICK, "--out", out], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def named(title: str) -> Section:
    return next(section for section in SECTIONS if section.title == title)


def runs_of(title: str, written) -> list[cs.Run]:
    """The runs that the commands of a section make, in their order."""
    section = named(title)
    written(section)
    for number, words in enumerate(section.commands):
        called(words, f"out-{number}")
    return [cs.load_run(Path(f"out-{number}")) for number, words in enumerate(section.commands) if words[1] == "run"]


def models_of(run: cs.Run) -> set[str]:
    return {agent.model for agent in run.summary.agents}


def test_all_six_kinds_are_shown():
    titles = {section.title for section in SECTIONS}
    assert titles >= {"A trust rule", "A server method", "A dataset", "A model", "A kind of agent", "A task"}
    assert all(section.commands for section in SECTIONS)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title)
def test_a_file_has_at_most_15_lines(section):
    for code in [section.code, *section.calls]:
        lines = [line for line in code.splitlines() if line.strip()]
        assert len(lines) <= LONGEST
        assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title)
def test_a_file_is_in_shape(section, written):
    """As `ruff format` would have it: 15 lines are 15 lines."""
    folder = written(section)
    check = [sys.executable, "-m", "ruff", "format", "--check", "--no-cache"]
    shape = ["--config", str(PAGE.parents[2] / "pyproject.toml"), section.file]
    done = subprocess.run([*check, *shape], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


CALLS = [(section, code) for section in SECTIONS for code in section.calls]


@pytest.mark.parametrize(("section", "code"), CALLS, ids=lambda part: getattr(part, "title", ""))
def test_a_call_runs(section, code, written):
    written(section)
    result = evaluated(code)
    assert isinstance(result, cs.Result | cs.TorchAgent)
    if isinstance(result, cs.Result):
        assert result.history["round"].max() == 20


def evaluated(code: str) -> object:
    """The value of the last expression of a call, with the names that the page speaks of."""
    x, y = blobs(30, seed=1)
    network = nn.Linear(FEATURES, CLASSES)
    networks = [cs.TorchAgent(nn.Linear(FEATURES, CLASSES), *blobs(20, seed), str(seed)) for seed in (2, 3)]
    names = {
        "cs": cs,
        "np": np,
        "x": x,
        "y": y,
        "network": network,
        "networks": networks,
        "agents": [*networks, cs.TorchAgent(network, x, y, "4")],
        "shared": blobs(40, seed=5)[0],
    }
    *before, last = ast.parse(code).body
    assert isinstance(last, ast.Expr)
    exec(compile(ast.Module(before, []), "extend.md", "exec"), names)
    return eval(compile(ast.Expression(last.value), "extend.md", "eval"), names)


def test_the_trust_rule_decides_whom_to_believe(written):
    for run, peers in zip(runs_of("A trust rule", written), (3, 2), strict=True):
        assert len(run.trust) == 2
        assert ((run.trust > 0).sum(axis=2) == peers).all()
        assert np.allclose(run.trust[run.trust > 0], 1 / peers)


def test_the_server_method_is_fedavg_in_its_first_round_and_has_momentum_afterwards(written):
    [run] = runs_of("A server method", written)
    assert run.summary.title == "FedAvgM"
    losses = [
        cs.load_run(Path("out-1") / "seed-0" / name).metrics.groupby("round")["log_loss_target"].mean()
        for name in ("fedavg", "fedavgm(beta=0.5)")
    ]
    assert losses[0][1] == pytest.approx(losses[1][1], rel=1e-4)
    assert losses[0][3] != pytest.approx(losses[1][3], rel=1e-3)


def test_the_method_of_another_kind_exchanges_predictions_and_weighs_nobody(written):
    [run] = runs_of("A method of another kind", written)
    assert run.summary.title == "Evenly"
    assert not len(run.trust)
    assert (run.metrics["bytes_sent"] > 0).all()
    assert run.metrics["loss_disagreement"].notna().all()


def test_the_dataset_is_split_among_agents(written):
    [run] = runs_of("A dataset", written)
    assert run.summary.dataset == "wine"
    assert run.summary.classes == ["Barolo", "Grignolino", "Barbera"]
    assert len(run.summary.agents) == 3


def test_the_models_are_dealt_out(written):
    [run] = runs_of("A model", written)
    assert models_of(run) == {"wide", "extra-trees", "logistic"}


def test_the_agent_of_a_new_kind_takes_part_and_resumes(written):
    [run] = runs_of("A kind of agent", written)
    assert models_of(run) == {"means", "forest", "logistic"}
    Path("out-0/summary.json").unlink()
    for damaged in Path("out-0/checkpoint").glob("round-00003*"):
        damaged.unlink()
    called([*named("A kind of agent").commands[0], "--resume"], "out-0")
    assert cs.load_run(Path("out-0")).metrics.equals(run.metrics)


def test_the_wrapper_changes_what_is_published(written, monkeypatch):
    said = []
    gather = InMemory.gather
    monkeypatch.setattr(InMemory, "gather", lambda self, t, own: said.append(own) or gather(self, t, own))
    [run] = runs_of("An agent around another one", written)
    certain = {name: bool(np.isin(f, (0, 1)).all()) for name, f in said[-1].items()}
    assert certain == {agent.name: agent.model == "discreet" for agent in run.summary.agents}


def test_the_task_shows_its_own_score_and_report_knows_it(written):
    [run] = runs_of("A task", written)
    assert run.summary.task == "screening"
    assert run.metrics["cost_target"].between(0, 20).all()
    again = [sys.executable, "-m", "consilience", "report", "out-0", "--set", "plugins=screening.py"]
    done = subprocess.run(again, capture_output=True, text=True)
    assert "Cost on the target domain" in done.stdout, done.stderr


def test_another_package_brings_them_through_entry_points(tmp_path):
    """A package that is installed is a folder with a .dist-info beside it; its names reach worker processes, too."""
    for section in SECTIONS:
        (tmp_path / section.file).write_text(section.code)
    [text] = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    groups = tomllib.loads(text)["project"]["entry-points"]
    assert set(groups) == {
        registry.group for registry in (cs.extend.TRUST, cs.extend.METHODS, cs.extend.MODELS, cs.extend.TASKS, DATASETS)
    }
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    lines = [
        line for group, names in groups.items() for line in (f"[{group}]", *(f"{k} = {v}" for k, v in names.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    settings = [
        "dataset=wine",
        "method.trust=nearest",
        "method.trust.peers=2",
        "warmup=1",
        "rounds=2",
        "references=[]",
        "agents.count=3",
    ]
    flags = [word for setting in [*settings, 'models=["wide"]'] for word in ("--set", setting)]
    command = [sys.executable, "-m", "consilience", "run", "breast-cancer", *flags, "--workers", "2", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    run = cs.load_run(tmp_path / "run")
    assert run.summary.dataset == "wine"
    assert models_of(run) == {"wide"}
    assert ((run.trust > 0).sum(axis=2) == 2).all()
    imports = "from consilience.extend import METHODS, TASKS"
    question = f"{imports}; print(METHODS.find('fedavgm').__name__, TASKS.find('screening').name)"
    done = subprocess.run([sys.executable, "-c", question], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["FedAvgM", "screening"], done.stderr
