"""The checksums of a finished run."""

import subprocess
import sys
import tracemalloc
from hashlib import sha256
from pathlib import Path

import pytest

from consilience.base.errors import ConsilienceError
from consilience.runtime.checkpoint import checked_files, replace_checked
from consilience.runtime.run import load_run
from tests.fuzz.folders import run_folders


@pytest.fixture
def run(tmp_path: Path) -> Path:
    pytest.importorskip("zenoh", reason="needs consilience[peers]")
    run_folders(tmp_path)
    return tmp_path / "run"


def test_a_run_that_was_changed_afterwards_is_refused_with_the_name_of_the_file(run: Path) -> None:
    assert load_run(run).summary.rounds == 2
    path = run / "summary.json"
    path.write_text(path.read_text().replace('"rounds": 2', '"rounds": 3'))
    with pytest.raises(ConsilienceError, match=r"summary\.json is not as the run left it"):
        load_run(run)


def test_the_usual_program_reads_the_checksums(run: Path) -> None:
    done = subprocess.run(["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=run, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count(": OK") == 3


def test_checksums_name_files_of_their_folder_alone(run: Path) -> None:
    (run / "SHA256SUMS").write_text("00" * 32 + "  ../secret\n")
    with pytest.raises(ConsilienceError, match="is damaged"):
        checked_files(run)


def test_a_run_of_an_earlier_version_has_none(run: Path) -> None:
    (run / "SHA256SUMS").unlink()
    assert checked_files(run) == {} and load_run(run).summary.rounds == 2


@pytest.mark.parametrize("name", ["SHA256SUMS", "metrics.parquet", "summary.json"])
def test_a_file_of_700_megabytes_fills_no_memory(run: Path, name: str) -> None:
    """It is sparse: on the disk it takes nothing."""
    if name == "summary.json":
        (run / "SHA256SUMS").unlink()
    with (run / name).open("r+b") as file:
        file.truncate(700_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(ConsilienceError, match=r"is not read|is not as the run left it"):
            load_run(run)
        assert tracemalloc.get_traced_memory()[1] < 300_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("moment", [1, 2, 3, 4])
def test_a_process_killed_while_it_replaces_the_summary_leaves_a_finished_run(run: Path, moment: int) -> None:
    """It is killed before the first file is put into its place, or the second, or the third; or not at all."""
    code = f"""
import os, signal
from dataclasses import replace
from pathlib import Path
from consilience.runtime.checkpoint import replace_checked
from consilience.runtime.run import load_run
there, turn = Path.replace, iter(range(1, 10))
def put(path, target):
    if next(turn) == {moment}:
        os.kill(os.getpid(), signal.SIGKILL)
    return there(path, target)
run = load_run(Path({str(run)!r}))
Path.replace = put
replace_checked(Path({str(run)!r}), "summary.json", replace(run.summary, title="a newer summary").to_json().encode())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == (0 if moment == 4 else -9), done.stderr
    newer = moment > 2
    assert (load_run(run).summary.title == "a newer summary") is newer
    data = (run / "summary.json").read_bytes()
    replace_checked(run, "summary.json", data)
    assert (
        checked_files(run)["summary.json"] == sha256(data).hexdigest()
        and (run / "SHA256SUMS").read_text().count("summary.json") == 1
    )
