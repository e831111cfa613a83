"""Files: failures name the file, and a folder is one process's own."""

import subprocess
import sys

import pytest

from consilience import ConsilienceError
from consilience.base.files import lock_folder, reading, write_atomically


def test_a_failure_names_the_file_and_sentences_stay_as_they_are(tmp_path):
    with pytest.raises(ConsilienceError, match=r"model\.bin cannot be read: no magic number\.$"), reading("model.bin"):
        raise ValueError("no magic number")
    with pytest.raises(ConsilienceError, match="cannot be read: IndexError"), reading(tmp_path):
        raise IndexError
    with pytest.raises(ConsilienceError, match=r"^too large$"), reading(tmp_path):
        raise ConsilienceError("too large")


def test_a_file_is_replaced_whole(tmp_path):
    write_atomically(tmp_path / "file", b"one")
    write_atomically(tmp_path / "file", b"two", memoryview(b" three"))
    assert (tmp_path / "file").read_bytes() == b"two three"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_a_folder_that_this_process_has_locked_is_refused_to_others(tmp_path):
    lock_folder(tmp_path)
    lock_folder(tmp_path)
    program = "import sys; from pathlib import Path; from consilience.base.files import lock_folder; "
    program += "lock_folder(Path(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert f"another process works in {tmp_path}. Wait until it has ended" in done.stderr
