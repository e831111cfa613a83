"""Start-up: help, import, and the first round of the default."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.timing import interleaved, table, verdict

GOALS = {"import consilience": 0.2, "consilience --help": 0.3, "first round of the default": 3.0}


def run() -> str:
    """The section on the start."""
    seconds = interleaved(
        {
            "import consilience": lambda: _python("-c", "import consilience"),
            "consilience --help": lambda: _python("-m", "consilience", "--help"),
            "python alone": lambda: _python("-c", "pass"),
        },
        repeats=9,
    )
    seconds |= interleaved(
        {
            "first round of the default": _first_round,
            "import torch, sklearn.ensemble": lambda: _python("-c", "import torch, sklearn.ensemble"),
        },
        repeats=3,
    )
    rows = [
        [what, f"{taken:.2f} s", f"under {GOALS[what]} s: {verdict(taken < GOALS[what])}" if what in GOALS else "-"]
        for what, taken in seconds.items()
    ]
    return (
        "## Start\n\nWhole processes, the start of Python included. The first round of the default needs torch and "
        "scikit-learn; what importing them alone takes is below it.\n\n"
        + table(["what", "median", "goal reached"], rows)
    )


def _python(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def _first_round() -> None:
    """From the command to the first checkpoint of the first of the three runs."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "consilience", "run", "--out", str(out)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while process.poll() is None and not list(out.glob("**/checkpoint/round-00001*")):
            time.sleep(0.005)
        process.terminate()
        process.wait()
