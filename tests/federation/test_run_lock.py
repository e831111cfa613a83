"""A run folder belongs to one run, and a signing key signs one run with each federation file."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from consilience.base.errors import ConsilienceError
from consilience.federation.run_lock import USED, lock_run_folder
from consilience.federation.site import load_site


@pytest.fixture
def agreed(site: Path):
    return load_site(site).federation


def test_a_run_goes_on_in_its_folder(agreed, tmp_path):
    key = tmp_path / "key"
    for _ in range(2):
        lock_run_folder(tmp_path / "run", agreed, key)
    assert list(json.loads((tmp_path / USED).read_text())) == [agreed.identity().hex()]


def test_a_key_signs_no_second_run_with_the_same_federation_file(agreed, tmp_path):
    lock_run_folder(tmp_path / "run", agreed, tmp_path / "key")
    with pytest.raises(ConsilienceError, match="in another folder"):
        lock_run_folder(tmp_path / "second", agreed, tmp_path / "key")
    assert not (tmp_path / "second" / "federation.toml").exists()
    lock_run_folder(tmp_path / "second", replace(agreed, epoch=agreed.epoch + 1), tmp_path / "key")


def test_a_folder_of_another_run_or_with_something_else_is_refused(agreed, tmp_path):
    lock_run_folder(tmp_path / "run", agreed, tmp_path / "key")
    with pytest.raises(ConsilienceError, match="another federation file; it differs in epoch"):
        lock_run_folder(tmp_path / "run", replace(agreed, epoch=agreed.epoch + 1), tmp_path / "key")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.doc").touch()
    with pytest.raises(ConsilienceError, match="holds something else"):
        lock_run_folder(tmp_path / "full", agreed, tmp_path / "key")


@pytest.mark.parametrize("damaged", ["{", "[]", '{"a": 1}'])
def test_a_damaged_list_of_used_epochs_begins_nothing(agreed, tmp_path, damaged):
    (tmp_path / USED).write_text(damaged)
    with pytest.raises(ConsilienceError, match="is damaged"):
        lock_run_folder(tmp_path / "run", agreed, tmp_path / "key")
