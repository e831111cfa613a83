"""Writes requirements.lock and deploy/build.lock: versions and SHA-256 hashes of what pip would install: make lock.

requirements.lock has every package that a site needs, deploy/build.lock what builds the wheel. The hashes are those of
the files for this platform and this Python, and torch is locked as it is installed here (its build for CPUs has `+cpu`
in its version). So run this where the sites run.
"""

import json
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib.metadata import requires, version
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
SITE = {"export", "metrics", "peers", "privacy"}
"""The extras that a site uses: to talk, to train privately, to give its model away."""


def closure(wanted: Iterable[str]) -> set[str]:
    """The packages that requirements such as `consilience[peers]` name and need, as they are installed here."""
    seen: set[tuple[str, str]] = set()
    waiting = [Requirement(text) for text in wanted]
    while waiting:
        requirement = waiting.pop()
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        for extra in {"", *requirement.extras} - {extra for known, extra in seen if known == name}:
            seen.add((name, extra))
            for dependency in map(Requirement, requires(name) or []):
                if dependency.marker is None or dependency.marker.evaluate({"extra": extra}):
                    waiting.append(dependency)
    return {name for name, _ in seen}


def locked_lines(names: Iterable[str]) -> list[str]:
    """A line with version and hash for each package: what pip would install of the versions that are installed here."""
    pins = sorted(f"{name}=={version(name)}" for name in names)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed", "--no-deps"]
        subprocess.run([*command, "--only-binary", ":all:", "--report", str(report), *pins], check=True)
        packages = json.loads(report.read_text())["install"]
    return [
        f"{package['metadata']['name']}=={package['metadata']['version']} "
        f"--hash=sha256:{package['download_info']['archive_info']['hashes']['sha256']}"
        for package in sorted(packages, key=lambda package: package["metadata"]["name"].lower())
    ]


def main() -> None:
    """Asks pip what it would install, and keeps versions and hashes."""
    site = closure([f"consilience[{','.join(sorted(SITE))}]"]) - {"consilience"}
    files = {
        "requirements.lock": ("Every package that a site needs", site),
        "deploy/build.lock": ("What builds the wheel", closure(["build", "hatchling"])),
    }
    made_for = f"Python {sys.version_info.major}.{sys.version_info.minor} on {sys.platform} {platform.machine()}"
    for name, (title, packages) in files.items():
        header = [f"# {title}, for {made_for}.", f"# Made by `make lock`; pip install --require-hashes -r {name}"]
        (ROOT / name).write_text("\n".join([*header, *locked_lines(packages)]) + "\n")


if __name__ == "__main__":
    main()
