"""The commands and the code of the documents: the program takes every command, tutorials run in small, code runs."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch import nn

import consilience as cs
from consilience.cli.main import app

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
DOCUMENTS += [*sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("research/*.md"))]
ELSEWHERE = ("researcher.md", "organisation.md", "extend.md", "deploy.md")
"""Pages whose commands other tests run: those of tutorials, of extensions and of sites."""
RUNS = ("run", "compare", "robustness", "ensemble")
RUN = (*RUNS, "presets", "datasets", "privacy-audit", "report", "export", "predict")
UNFINISHED = {"site predict --collective"}
"""Named in a sentence without its arguments."""


def commands(path: Path) -> list[str]:
    """Every `consilience ...` of a document: lines of code blocks, and short code in sentences that names an option."""
    text = re.sub(r"<!-- needs:.*?-->\n```.*?```", "", path.read_text(), flags=re.DOTALL).replace("\\\n", " ")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line for language, block in blocks if language in ("", "bash") for line in block.splitlines()]
    rest = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    lines += [code for code in re.findall(r"`([^`\n]+)`", rest) if " --" in code]
    found = [re.search(r"(?:^|[ /])consilience ([a-z].*)", line) for line in lines]
    return list(
        dict.fromkeys(
            match[1].strip()
            for match in found
            if match and "..." not in match[1] and match[1].strip() not in UNFINISHED
        )
    )


FOUND = [(path.name, command) for path in DOCUMENTS for command in commands(path)]


def test_there_are_commands():
    assert len(FOUND) > 60


@pytest.mark.parametrize(("page", "command"), FOUND, ids=lambda value: str(value)[:60])
def test_the_program_takes_every_command(page, command):
    """Its words are read as the program would read them: a wrong option or a missing argument is an error."""
    from typer.main import get_command

    words = shlex.split(re.sub(r"\[([A-Z][^\]]*)\]", r"\1", re.sub(r"\$\w+", "1", command)), comments=True)
    words = words[: next((place for place, word in enumerate(words) if word in ("&", "|", "&&", ";")), None)]
    group = get_command(app)
    context = group.make_context("consilience", [], resilient_parsing=True)
    while hasattr(group, "resolve_command"):
        name, group, words = group.resolve_command(context, words)
        assert group is not None, name
        if hasattr(group, "resolve_command") and not words:
            return
        if not hasattr(group, "resolve_command"):
            group.make_context(name, words, parent=context)


PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name not in ELSEWHERE]


def typed(path: Path) -> list[str]:
    """The commands in the blocks of a page, in order, but for blocks marked `<!-- needs: what is not here -->`."""
    text = re.sub(r"<!-- needs:.*?-->\n```.*?```", "", path.read_text(), flags=re.DOTALL).replace("\\\n", " ")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line for language, block in blocks if language in ("", "bash") for line in block.splitlines()]
    return [line.partition("consilience ")[2] for line in lines if re.match(r"\s*(\S+/)?consilience ", line)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_command_of_a_page_is_run_or_says_what_it_needs(path):
    for command in typed(path):
        assert command.split()[0] in RUN, f"mark the block of {command!r} with <!-- needs: ... -->"
        assert "DATA" not in command, f"mark the block of {command!r} with <!-- needs: real data -->"


def shortened(command: str) -> list[str]:
    """A command with fewer rounds, seeds, attackers and values, so that it takes seconds."""
    command = re.sub(r"--seeds \S+", "--seeds 0", command)
    command = re.sub(r"--attackers \S+", "--attackers 1", command)
    command = re.sub(r"--grid ([\w.]+)=([^, ]+),\S*", r"--grid \1=\2", command)
    words = shlex.split(command, comments=True)
    small = ["--set", "limit=100", "--workers", "1"]
    if not any("rounds=" in word for word in words if "grid" not in word):
        fed = words[0] != "run" and "fed" in command  # FedAvg and its like have no warm-up that could be shorter
        small += ["--set", "rounds=6"] if fed else ["--set", "rounds=2", "--set", "warmup=1"]
    return words + small if words[0] in RUNS else words


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in PAGES if typed(path)], ids=lambda path: path.name)
def test_the_commands_of_a_page_run(path, tmp_path):
    """One after another, in one folder."""
    for command in typed(path):
        program = [sys.executable, "-m", "consilience", *shortened(command)]
        done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, f"{command}\n{done.stderr}{done.stdout}"


def test_the_callback_of_the_documents_hears_of_rounds(capsys):
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "how-to" / "sweeps.md").read_text(), re.DOTALL)
    names: dict = {}
    exec(code, names)
    agents, shared, target = two()
    cs.collaborate(
        agents,
        shared,
        rounds=2,
        method=cs.Consensus(warmup=1),
        target=target,
        callbacks=[names["Watch"]()],
        progress=False,
    )
    assert capsys.readouterr().out.splitlines()[-1].startswith(("consensus 2 0.", "paper 2 0."))


def test_the_model_to_take_home_of_the_documents(tmp_path, monkeypatch):
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "how-to" / "export.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    agents, shared, target = two()
    code = code.replace("collaborate(agents, shared)", "collaborate(agents, shared, rounds=5, progress=False)")
    names = {"cs": cs, "agents": agents, "shared": shared, "x": target[0]}
    exec(code.rpartition("result.agents[0].model")[0], names)
    assert names["model"].predict(target[0]).shape == (100, 10)


def test_the_models_of_an_agent_in_the_documents():
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "how-to" / "home.md").read_text(), re.DOTALL)
    agents, shared, target = two()
    code = code.replace("collaborate(agents, shared)", "collaborate(agents, shared, rounds=5, progress=False)")
    names = {"cs": cs, "agents": agents, "shared": shared, "x": target[0]}
    exec(code, names)
    sets, larger = (names["agent"].predict_sets(target[0], coverage) for coverage in (0.9, 0.95))
    assert (sets <= larger).all() and larger.any(axis=1).mean() > 0.9  # a set is empty where no class is usual


def test_the_agent_of_a_site_in_the_documents():
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "how-to" / "deploy.md").read_text(), re.DOTALL)
    x, y = load_digits(return_X_y=True)
    names = {"model": LogisticRegression(max_iter=50), "x": x[:50], "y": y[:50]}
    exec(code, names)
    assert names["make_agent"]("north", [str(digit) for digit in range(10)], 0).outputs == 10


def two():
    """Two small agents, shared data, and data of the target domain."""
    x, y = load_digits(return_X_y=True)
    x = x / 16
    models = [LogisticRegression(max_iter=100), LogisticRegression(max_iter=100, C=0.1)]
    agents = [
        cs.SklearnAgent(model, x[place : place + 60], y[place : place + 60], name=name, classes=10)
        for place, (name, model) in zip((0, 60), zip(("north", "south"), models, strict=True), strict=True)
    ]
    return agents, x[200:300], (x[300:400], y[300:400])


def test_the_other_python_of_the_documents_runs(tmp_path, monkeypatch):
    """An attack, a private agent, and a run that is read."""
    pytest.importorskip("opacus")
    monkeypatch.chdir(tmp_path)
    agents, shared, target = two()
    cs.collaborate(agents, shared, rounds=2, method=cs.Consensus(warmup=1), target=target, progress=False).save(
        "runs/digits-1"
    )
    names = {"agent": agents[0], "model": nn.Linear(64, 10), "x": shared.astype("float32"), "y": np.arange(100) % 10}
    pages = ("how-to/attackers.md", "how-to/private-data.md", "reference/files.md")
    for page in pages:
        for code in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL):
            exec(code, names)
    assert isinstance(names["agent"], cs.TorchAgent)
    assert len(names["run"].trust) == 1
