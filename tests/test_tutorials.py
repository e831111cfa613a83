"""The tutorials, followed word by word: what is printed is what the page shows."""

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "docs" / "tutorials" / name for name in ("researcher.md", "organisation.md")]
CLOSE = 0.06
"""How far numbers with three digits behind the point may be off: processors differ, and so do small test sets."""
SHOWN = re.compile(r"[-+]?\d\.\d{2,3}\b")


def steps(text: str) -> Iterator[tuple[str, str]]:
    """What a page asks for, in order: ("write NAME", content), ("type", commands), ("see", output)."""
    for language, title, body in re.findall(
        r"^```(\w*)(?: title=\"(.+?)\")?\n(.*?)^```", text, re.DOTALL | re.MULTILINE
    ):
        if title:
            yield f"write {title}", body
        else:
            yield ("see" if language == "text" else "type"), body


def words(line: str) -> str:
    """A line without its numbers, lines of tables and widths of columns."""
    return " ".join(re.sub(r"[─…±]", " ", re.sub(r"[-+]?\d[\d.,]*", "#", line)).split())


def numbers(line: str) -> list[float]:
    return [float(number) for number in SHOWN.findall(line)]


def check_output(shown: str, printed: str) -> None:
    """Every line of the page is in what was printed, in this order, with near numbers; "..." leaves some out."""
    lines = iter(printed.splitlines())
    for line in shown.splitlines():
        if line.strip() in ("", "...") or not words(line):
            continue
        same = next((other for other in lines if words(other) == words(line)), None)
        assert same is not None, f"the page shows, and it was not printed: {line}\n\n{printed}"
        assert numbers(same) == pytest.approx(numbers(line), abs=CLOSE), f"{line}\n{same}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_shows_what_every_command_prints(path):
    kinds = [(kind, body) for kind, body in steps(path.read_text()) if kind in ("type", "see")]
    asked = [(body, after) for (kind, body), (after, _) in pairwise([*kinds, ("end", "")]) if kind == "type"]
    assert [body for body, after in asked if body.startswith("consilience") and after != "see"] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_whoever_follows_the_page_sees_what_it_shows(path, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    python = f'"{sys.executable}"'
    printed = ""
    for kind, body in steps(path.read_text()):
        if kind.startswith("write "):
            (tmp_path / kind.removeprefix("write ")).write_text(body)
        elif kind == "see":
            check_output(body, printed)
        else:
            command = re.sub(r"^consilience ", f"{python} -m consilience ", body, flags=re.MULTILINE)
            command = re.sub(r"^python ", f"{python} ", command, flags=re.MULTILINE)
            done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, done.stderr
            printed = done.stdout
