"""Where a run may write, in messages that fit Python and the command line alike."""

from pathlib import Path

import pytest

from consilience import ConsilienceError
from consilience.runtime.run import claim_folder, last_folder, next_folder


def refusal(action) -> str:
    """The message, which names no flag of the command line."""
    with pytest.raises(ConsilienceError) as error:
        action()
    assert "--" not in str(error.value)
    return str(error.value)


def run_in(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "config.toml").write_text("")
    return path


def test_a_new_or_an_empty_folder_is_claimed_and_left_empty(tmp_path):
    assert claim_folder(tmp_path / "new" / "deep", resume=False) == tmp_path / "new" / "deep"
    assert [one.name for one in (tmp_path / "new" / "deep").iterdir()] == [".lock"]
    assert claim_folder(tmp_path / "new" / "deep", resume=False).is_dir()
    assert claim_folder(tmp_path / "new" / "deep", resume=True).is_dir(), "scripts resume in a folder that they make"


def test_what_is_there_is_kept_unless_one_resumes_or_overwrites(tmp_path):
    path = run_in(tmp_path / "run")
    assert refusal(lambda: claim_folder(path, resume=False)) == (
        f"{path} already holds something and is not overwritten. Resume it, overwrite it, or choose another folder."
    )
    assert claim_folder(path, resume=True) == path
    assert sorted(file.name for file in path.iterdir()) == [".lock", "config.toml"]
    assert claim_folder(path, resume=False, overwrite=True) == path
    assert [one.name for one in path.iterdir()] == [".lock"]


def test_only_runs_are_replaced(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    assert refusal(lambda: claim_folder(tmp_path, resume=False, overwrite=True)) == (
        f"{tmp_path} does not look like a run (no config.toml), so it is not replaced."
    )
    assert (tmp_path / "thesis.txt").exists()


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    message = f"{tmp_path / 'file'} is a file, not a folder. Choose another folder."
    assert refusal(lambda: claim_folder(tmp_path / "file", resume=False)) == message


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_run(tmp_path, monkeypatch):
    def full(self, *_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "touch", full)
    assert refusal(lambda: claim_folder(tmp_path / "run", resume=False)) == (
        f"cannot write to {tmp_path / 'run'}: No space left on device. Choose a folder you may write to."
    )
    (tmp_path / "file").write_text("")
    assert "cannot write to" in refusal(lambda: claim_folder(tmp_path / "file" / "below", resume=False))


def test_runs_without_a_name_are_numbered(tmp_path):
    assert next_folder(tmp_path / "nowhere", "digits") == tmp_path / "nowhere" / "digits-1"
    for name in ("digits-1", "digits-10", "digits-9", "digits-mlp-30", "digits-old", "other-77"):
        (tmp_path / name).mkdir()
    assert next_folder(tmp_path, "digits") == tmp_path / "digits-11"
    assert last_folder(tmp_path, "digits") == tmp_path / "digits-10"
    assert next_folder(tmp_path, "new") == tmp_path / "new-1"


def test_there_may_be_nothing_to_resume(tmp_path):
    message = f"there is no run {tmp_path / 'digits'}-... to resume. Name its folder."
    assert refusal(lambda: last_folder(tmp_path, "digits")) == message
