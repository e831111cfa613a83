"""Runs the benchmarks that are named, or all that are left; when all are there it writes docs/results/speed.md.

Every section is kept in the folder `.bench` as soon as it is measured, so that `make bench` goes on where it stopped.
"""

import os
import platform
import shutil
import sys
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from benchmarks.timing import TURNS

SECTIONS = ("beside", "rounds", "limits", "training", "grouped", "privacy", "trust", "startup", "exchange", "backbones")
PAGE, KEPT = Path("docs") / "results" / "speed.md", Path(".bench")


def main() -> None:
    """Prints every section as it is measured."""
    chosen = sys.argv[1:] or [name for name in SECTIONS if not _kept(name).exists()]
    unknown = [name for name in chosen if name not in SECTIONS]
    if unknown:
        sys.exit(f"unknown benchmark {unknown[0]!r}. Known: {', '.join(SECTIONS)}.")
    KEPT.mkdir(exist_ok=True)
    for name in chosen:
        began, load = time.perf_counter(), os.getloadavg()[0]
        text = import_module(f"benchmarks.{name}").run()
        text += f"\n({time.perf_counter() - began:.0f} s, load {load:.1f})\n"
        _kept(name).write_text(text)
        print(text, flush=True)
    if all(_kept(name).exists() for name in SECTIONS):
        PAGE.write_text("\n".join([_head(), *(_kept(name).read_text() for name in SECTIONS)]))
        shutil.rmtree(KEPT)
        print(f"Written: {PAGE}")


def _kept(name: str) -> Path:
    return KEPT / f"{name}.md"


def _head() -> str:
    """The top of the page."""
    return (
        "# Speed\n\n"
        "For everybody who asks how long a run will take, and how this compares with other libraries. You will know "
        "what each part of a round costs on one machine, and how near that is to what the machine can do.\n\n"
        f"`make bench` measures this and writes this page: {os.cpu_count()} cores ({_processor()}), Python "
        f"{platform.python_version()}, torch {version('torch')}, NumPy {version('numpy')}. Things to compare take "
        f"turns in one run: 1.2 (1.1-1.4) is the median and the range over {TURNS} turns after a first one, or over "
        "the rounds of a run where it says so. Below each table are the time it took and the load when it began, the "
        "number of programs that wanted to run: above the number of cores, wall times are too long, and CPU times a "
        "little.\n"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
