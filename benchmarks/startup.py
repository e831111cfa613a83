"""Start-up: help, import, and the first round of the default."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.timing import ranged, table, turns


def run() -> str:
    """The section on the start."""
    seconds = turns(
        {
            "python alone": lambda: _python("-c", "pass"),
            "import consilience": lambda: _python("-c", "import consilience"),
            "consilience --help": lambda: _python("-m", "consilience", "--help"),
            "import torch, sklearn.ensemble": lambda: _python("-c", "import torch, sklearn.ensemble"),
            "first round of the default": _first_round,
        },
        clock=time.perf_counter,
    )
    rows = [[what, ranged(taken, unit="s")] for what, taken in seconds.items()]
    return (
        "## Start\n\nWhole processes, the start of Python included. The first round of the default needs torch and "
        "scikit-learn.\n\n" + table(["what", "wall time"], rows)
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
