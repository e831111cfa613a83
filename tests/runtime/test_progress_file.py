"""A file for those who watch a run."""

from pathlib import Path

from consilience.runtime.progress_file import read_quickly, write_quickly


def test_a_file_for_those_who_watch_follows_no_link_either(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep")
    (tmp_path / ".now.json.part").symlink_to(precious)
    write_quickly(tmp_path / "now.json", {"round": 3})
    assert precious.read_text() == "keep" and read_quickly(tmp_path / "now.json") == {"round": 3}
