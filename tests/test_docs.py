"""What the documents say is true: their code runs, their links lead somewhere."""

import re
import runpy
from pathlib import Path

import pytest

import consilience

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]


def test_the_python_of_the_readme_runs_and_is_short(tmp_path, monkeypatch, capsys):
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(code.splitlines()) <= 15
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(code)
    runpy.run_path("mine.py")
    assert "network" in capsys.readouterr().out
    assert Path("report.html").exists()


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_examples_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(path))
    scores = names["scores"]
    assert (scores.loc[20] > scores.loc[5]).all(), "every agent ends better than it was alone"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_every_function_that_notation_names_exists():
    """docs/notation.md maps equations to functions: each must be there."""
    import importlib

    names = re.findall(r"`((?:core|runtime|agents)\.[\w.]+)`", (ROOT / "docs" / "notation.md").read_text())
    assert len(names) > 15
    for name in names:
        parts = name.split(".")
        module = importlib.import_module("consilience." + ".".join(parts[:2]))
        thing = module
        for part in parts[2:]:
            thing = getattr(thing, part)


def test_versions_agree():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == consilience.__version__
    assert f"version: {consilience.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {consilience.__version__}" in (ROOT / "CHANGELOG.md").read_text()
