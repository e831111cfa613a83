"""The tutorials, followed word by word: what is printed is what the page shows."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conftest import root

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


SITES = ["alice", "bob", "carol"]
TYPED_BY = [*SITES, "alice", "alice", "bob", "relay", "alice", *["carol"] * 5]
"""Who types each command of the tutorial of three sites."""


class People:
    """Alice, Bob, Carol and a relay, which alone they reach, each with a folder and a terminal."""

    def __init__(self, home: Path, stack: ExitStack) -> None:
        from consilience.federation.networks import RELAY, star

        root("ip netns list")
        self.home, self.spaces = home, stack.enter_context(star(SITES))
        self.spaces["relay"] = self.spaces.pop("")
        for name, space in self.spaces.items():
            (home / name).mkdir()
            hosts = Path("/etc/netns") / space / "hosts"  # what `ip netns exec` shows as /etc/hosts
            hosts.parent.mkdir(parents=True)
            stack.callback(shutil.rmtree, hosts.parent)
            hosts.write_text(f"127.0.0.1 localhost\n{RELAY} relay.example\n")
        programs = home / "bin"
        programs.mkdir()
        (programs / "consilience").write_text(f'#!/bin/sh\nexec "{sys.executable}" -u -m consilience "$@"\n')
        (programs / "consilience").chmod(0o755)
        self.environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "120"}

    def start(self, name: str, command: str) -> "subprocess.Popen[str]":
        typed = ["ip", "netns", "exec", self.spaces[name], "sh", "-c", command]
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(typed, cwd=self.home / name, env=self.environment, **both)

    def type(self, name: str, command: str) -> str:
        return self.printed(self.start(name, command))

    def printed(self, process: "subprocess.Popen[str]") -> str:
        text, _ = process.communicate(timeout=1200)
        assert process.returncode == 0, text
        return text

    def send(self, sender: str, file: str, *others: str, name: str = "") -> None:
        for other in others:
            path = self.home / other / (name or file)
            path.parent.mkdir(exist_ok=True)
            shutil.copy(self.home / sender / file, path)


def plain(text: str) -> str:
    """Without what differs every time: random names, and how far clocks are apart."""
    return re.sub(r"[-+]\d+\.\d\d s\b", "#", re.sub(r"\b[0-9a-f]{16}\b", "#", text))


@pytest.mark.slow
def test_three_people_and_a_relay_see_what_the_page_shows(tmp_path):
    pytest.importorskip("zenoh", reason="needs consilience[peers]")
    text = (ROOT / "docs" / "tutorials" / "sites.md").read_text()
    script, *blocks = re.findall(r"^```\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    typed = (block.removeprefix("$ ").partition("\n") for block in blocks)
    commands = [(command, shown) for command, _, shown in typed]
    assert len(commands) == len(TYPED_BY)
    with ExitStack() as stack:
        people = People(tmp_path, stack)
        (tmp_path / "alice" / "make_data.py").write_text(script)
        subprocess.run([sys.executable, "make_data.py"], cwd=tmp_path / "alice", check=True)
        for name in SITES:
            people.send("alice", f"{name}.csv", name, name="patients.csv")
            if name != "alice":
                people.send("alice", "shared.csv", name)
        people.send("alice", "new-patients.csv", "carol")
        steps_left = iter(zip(TYPED_BY, commands, strict=True))

        def follow(count: int) -> None:
            for _ in range(count):
                name, (command, shown) = next(steps_left)
                check_output(plain(shown), plain(people.type(name, command)))

        follow(3)
        for name in ("bob", "carol"):
            people.send(name, "member.toml", "alice", name=f"{name}.toml")
        follow(2)
        people.send("alice", "federation.toml", "bob")
        follow(1)
        people.send("bob", "federation.toml", "alice", "carol", "relay")
        name, (command, shown) = next(steps_left)
        relay = people.start(name, command.replace("consilience", "exec consilience"))
        stack.callback(relay.wait)
        stack.callback(relay.terminate)
        check_output(plain(shown), plain(relay.stdout.readline()))
        for name in SITES:
            people.send("relay", "relay-ca/ca.crt", name, name="keys/ca.crt")
        others = [people.start(name, "consilience site check --wait 10m") for name in ("bob", "carol")]
        follow(1)
        for other in others:
            people.printed(other)
        others = [people.start(name, "consilience site run") for name in ("alice", "bob")]
        for stopped in others:
            stack.callback(stopped.kill)
        for name in ("alice", "bob"):
            while not (tmp_path / name / "run" / "presence.json").is_file():
                assert all(other.poll() is None for other in others)
                time.sleep(0.2)
        follow(2)
        for other in others:
            people.printed(other)
        follow(3)
