"""What is fuzzed: every reader of something that a peer, a disk or an editor may have damaged."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fuzz.files import keyrings, logs, tables, texts
from tests.fuzz.folders import exported_folders, run_folders, shared_folders, site_folders
from tests.fuzz.peers import from_peers
from tests.fuzz.target import Target

MEMORY = Path("/dev/shm")
"""A folder in memory, where there is one."""


def targets(scratch: Path) -> dict[str, Target]:
    """All targets; files are written into the folder `scratch`."""
    all_targets = from_peers()
    for make in (texts, logs, keyrings, tables, run_folders, site_folders, shared_folders, exported_folders):
        folder = scratch / make.__name__
        folder.mkdir()
        all_targets |= make(folder)
    return all_targets


def with_scratch(use: Callable[[dict[str, Target]], Any]) -> Any:
    """Calls `use` with all targets and a scratch folder of its own, in memory where there is one."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as scratch:
        return use(targets(Path(scratch)))


def kept(folder: Path) -> list[tuple[str, bytes]]:
    """The crashes that were found once: the name of the target, and the input."""
    crashes = []
    for path in sorted(folder.glob("*.json")):
        entry = json.loads(path.read_text())
        crashes.append((entry["target"], bytes.fromhex(entry["input"])))
    return crashes
