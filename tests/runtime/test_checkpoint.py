"""Checkpoints are whole or not there."""

import os
from pathlib import Path

import numpy as np
import pytest

from consilience import ConsilienceError
from consilience.base.files import write_atomically
from consilience.runtime import checkpoint

ARRAYS = {"a/weight": np.arange(6, dtype=np.float32).reshape(2, 3).T, "step": np.array(7.0), "none": np.zeros((0, 2))}


def test_what_is_written_is_read_with_shapes_and_types(tmp_path):
    checkpoint.write(tmp_path, 3, ARRAYS)
    number, arrays, damaged = checkpoint.read(tmp_path)
    assert (number, damaged) == (3, [])
    for key, value in ARRAYS.items():
        np.testing.assert_array_equal(arrays[key], value)
        assert arrays[key].shape == value.shape
        assert arrays[key].dtype == value.dtype


def test_only_the_last_two_are_kept(tmp_path):
    for number in range(1, 5):
        checkpoint.write(tmp_path, number, ARRAYS)
    assert sorted(path.name[:11] for path in tmp_path.iterdir()) == ["round-00003", "round-00004"]


@pytest.mark.parametrize("harm", ["truncate", "flip", "empty"])
def test_the_one_before_stands_in_for_a_damaged_one(tmp_path, harm):
    checkpoint.write(tmp_path, 1, ARRAYS)
    checkpoint.write(tmp_path, 2, ARRAYS)
    [last] = tmp_path.glob("round-00002*")
    data = bytearray(last.read_bytes())
    data[-3] ^= 1
    last.write_bytes({"truncate": bytes(data[: len(data) // 2]), "flip": bytes(data), "empty": b""}[harm])
    number, arrays, damaged = checkpoint.read(tmp_path)
    assert number == 1
    assert damaged == [last.name]
    np.testing.assert_array_equal(arrays["a/weight"], ARRAYS["a/weight"])


def test_nothing_readable_is_an_error_that_names_the_files(tmp_path):
    checkpoint.write(tmp_path, 1, ARRAYS)
    [only] = tmp_path.glob("round-*")
    only.write_bytes(b"x")
    with pytest.raises(ConsilienceError, match=r"round-00001.*damaged"):
        checkpoint.read(tmp_path)


def test_a_half_written_file_is_no_checkpoint(tmp_path):
    (tmp_path / ".round-00009.0000.safetensors.part").write_bytes(b"half")
    assert checkpoint.read(tmp_path) == (0, {}, [])


def test_the_number_of_the_newest_is_known_without_reading_it(tmp_path):
    assert checkpoint.last_round(tmp_path) == 0
    for number in (2, 11):
        checkpoint.write(tmp_path, number, ARRAYS)
    assert checkpoint.last_round(tmp_path) == 11
    assert checkpoint.read(tmp_path)[0] == 11


def test_parts_are_the_arrays_below_a_name():
    arrays = {"own/a/x": 1, "own/b/x": 2, "own": 3}
    assert checkpoint.with_prefix(arrays, "own/") == {"a/x": 1, "b/x": 2}


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("file", b"old")]


def test_a_temporary_file_is_a_new_one_and_no_link_is_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep")
    (tmp_path / f".out.{os.getpid()}.part").symlink_to(precious)
    write_atomically(tmp_path / "out", b"new")
    assert precious.read_text() == "keep" and (tmp_path / "out").read_bytes() == b"new"
    assert not (tmp_path / "out").is_symlink()


def test_names_are_brought_to_the_disk_after_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: (synced.append(str(Path(f"/proc/self/fd/{handle}").readlink())), fsync(handle))
    )
    write_atomically(tmp_path / "out", b"new")
    assert synced[-1] == str(tmp_path) and len(synced) == 2
