"""Writes requirements.lock: every package that a site needs, with its version and the hashes of what pip would install.

The hashes are those of this platform and Python; run it where the sites run: make lock.
"""

import json
import re
import subprocess
import sys
import tempfile
from importlib.metadata import requires, version
from pathlib import Path

ROOT = Path(__file__).parent.parent


def closure(name: str, extras: set[str]) -> set[str]:
    """The packages that `name` with `extras` needs, itself left out, as they are installed here."""
    from packaging.requirements import Requirement

    found: set[str] = set()
    waiting = [(name, extras)]
    while waiting:
        package, wanted = waiting.pop()
        for text in requires(package) or []:
            one = Requirement(text)
            marked = one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in {"", *wanted})
            key = re.sub(r"[-_.]+", "-", one.name).lower()
            if marked and key not in found:
                found.add(key)
                waiting.append((key, set(one.extras)))
    return found


def main() -> None:
    """Asks pip what it would install, and keeps versions and hashes."""
    pins = sorted(f"{name}=={version(name).partition('+')[0]}" for name in closure("consilience", {"peers"}))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed", "--no-deps"]
        subprocess.run([*command, "--report", str(report), *pins], check=True)
        installed = json.loads(report.read_text())["install"]
    lines = [
        "# Every package that a site needs. Made by `make lock`; install with: pip install --require-hashes -r ..."
    ]
    for one in sorted(installed, key=lambda found: found["metadata"]["name"].lower()):
        hashes = one["download_info"]["archive_info"]["hashes"]
        name, number = one["metadata"]["name"], one["metadata"]["version"]
        lines.append(f"{name}=={number} --hash=sha256:{hashes['sha256']}")
    (ROOT / "requirements.lock").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
