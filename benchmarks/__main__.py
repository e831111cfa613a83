"""Runs the benchmarks that are named, or all of them; all together write docs/results/speed.md."""

import os
import platform
import sys
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from benchmarks.timing import TURNS

PARTS = ("beside", "rounds", "limits", "training", "grouped", "privacy", "trust", "startup", "exchange", "backbones")
PAGE = Path("docs") / "results" / "speed.md"


def main() -> None:
    """Prints every section as it is measured."""
    chosen = sys.argv[1:] or PARTS
    unknown = [name for name in chosen if name not in PARTS]
    if unknown:
        sys.exit(f"unknown benchmark {unknown[0]!r}. Known: {', '.join(PARTS)}.")
    began, load = time.perf_counter(), os.getloadavg()[0]
    sections = []
    for name in chosen:
        sections.append(import_module(f"benchmarks.{name}").run())
        print(sections[-1], flush=True)
    if tuple(chosen) == PARTS:
        PAGE.write_text("\n".join([_head(time.perf_counter() - began, load), *sections]))
        print(f"Written: {PAGE}")


def _head(seconds: float, load: float) -> str:
    """The top of the page. `load` is how many other programs wanted to run when it began."""
    return (
        "# How fast it is\n\n"
        f"`make bench` measures this and writes this page: {os.cpu_count()} cores ({_processor()}), Python "
        f"{platform.python_version()}, torch {version('torch')}, NumPy {version('numpy')}, in {seconds / 60:.0f} "
        f"minutes; load {load:.1f} when it began. Things to compare take turns in one run: 1.2 (1.1-1.4) is the median "
        f"and the range over {TURNS} turns after a first one, or over the rounds of a run where it says so.\n"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
