"""The program as a whole: help, version, errors in one sentence."""

import json
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from typer.main import get_command

from consilience.cli.main import app
from tests.cli.conftest import call

pytestmark = pytest.mark.usefixtures("elsewhere")


def test_the_command_line_loads_neither_zenoh_nor_cryptography():
    code = "import sys, json, consilience.cli; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert "consilience" in loaded and not loaded & {"zenoh", "cryptography", "torch", "sklearn"}


def test_presets_and_settings_are_listed():
    assert "handwritten digits" in call("presets")
    assert "lam = 0.5  # weight of the disagreement" in call("presets", "--settings")


def process(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "consilience", *words], capture_output=True, text=True, timeout=60)


def test_errors_are_one_sentence_on_stderr_without_a_traceback():
    done = process("run", "--set", "lambda=1")
    assert done.returncode == 2
    assert "error:" in done.stderr
    assert "Did you mean 'method.lam'?" in done.stderr
    assert "Traceback" not in done.stderr
    assert not Path("runs").exists()


def test_the_program_alone_shows_three_first_steps_that_it_takes():
    text = call()
    steps = re.findall(r"^  consilience (.*)$", text, re.MULTILINE)
    assert len(steps) == 3
    assert all(len(line) <= 80 for line in text.splitlines())
    for step in steps:
        words = shlex.split(step)
        group = get_command(app)
        context = group.make_context("consilience", [], resilient_parsing=True)
        while hasattr(group, "resolve_command"):
            name, group, words = group.resolve_command(context, words)
        group.make_context(name, words, parent=context)


def test_help_names_the_groups_of_commands():
    text = call("--help")
    groups = re.findall(r"╭─ ([A-Z][a-z ]+) ─", text)
    assert groups == ["Options", "Experiments", "Results", "Models", "Lists", "Between organisations"]
    assert {"robustness", "ensemble", "privacy-audit"} <= set(re.findall(r"│ ([a-z-]+) ", text))


@pytest.mark.parametrize("words", [(), ("predict",), ("site", "check"), ("federation", "new")])
def test_help_fills_its_lines_and_shows_no_type_of_flags(words):
    text = call(*words, "--help")
    assert "<bool>" not in text
    lines = [line.strip() for line in text.split("╭─")[0].splitlines()]
    ends = [(len(a), b) for a, b in pairwise(lines) if a and b and not a.startswith(("consilience", "Usage"))]
    assert all(length + 1 + len(b.split()[0]) > 76 for length, b in ends), "no line ends early within a paragraph"


def test_help_imports_nothing_heavy():
    code = (
        "import sys, consilience.cli; print([m for m in ('torch', 'sklearn', 'pandas', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]"
    assert "Examples" in process("run", "--help").stdout


def consilience(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "consilience", *words], capture_output=True, text=True)


def test_version():
    from importlib.metadata import version

    assert call("--version").strip() == f"consilience {version('consilience')}"


def test_an_error_in_a_file_of_the_users_shows_its_line(tmp_path):
    (tmp_path / "mine.py").write_text("import consilience\n\nvalue = 1 / 0\n")
    done = consilience("run", "--set", f"plugins={tmp_path / 'mine.py'}", "--out", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "mine.py, line 3" in done.stderr and "ZeroDivisionError" in done.stderr
    assert "Traceback" not in done.stderr
