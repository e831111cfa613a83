"""The heart patients of four hospitals."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from consilience import ConsilienceError
from consilience.data.datasets import Dataset, Request
from consilience.data.loading import load as load_request


def load(name: str, data_dir: Path | None = None, limit: int = 0) -> Dataset:
    found = load_request(name, Request(data_dir, limit))
    assert isinstance(found, Dataset)
    return found


def test_heart_patients_of_four_hospitals_as_in_flamby(data_dir):
    data = load("heart-disease", data_dir)
    assert data.x.shape == (740, 10)
    assert np.bincount(data.groups).tolist() == [303, 261, 46, 130]
    assert [int(data.y[data.groups == hospital].sum()) for hospital in range(4)] == [139, 98, 45, 101]
    assert data.group_names == ("cleveland", "hungarian", "switzerland", "va")
    assert (data.x.dtype, data.y.dtype, data.groups.dtype) == (np.float32, np.int64, np.int64)
    np.testing.assert_allclose(data.x.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(data.x.std(axis=0), 1, atol=1e-5)
    assert len(load("heart-disease", data_dir, limit=10).y) == 4 * 20 - 9


def test_the_files_of_uci_give_the_same_patients(data_dir, tmp_path):
    table = pd.read_csv(data_dir / "heart-disease" / "heart_disease.csv")
    folder = tmp_path / "heart-disease"
    folder.mkdir()
    for hospital, part in table.groupby("hospital"):
        part.drop(columns="hospital").to_csv(
            folder / f"processed.{hospital}.data", header=False, index=False, na_rep="?"
        )
    ours, theirs = load("heart-disease", tmp_path), load("heart-disease", data_dir)
    np.testing.assert_array_equal(ours.x, theirs.x)
    np.testing.assert_array_equal(ours.y, theirs.y)
    np.testing.assert_array_equal(ours.groups, theirs.groups)


def test_a_table_of_patients_that_lacks_columns_is_refused(data_dir, tmp_path):
    table = pd.read_csv(data_dir / "heart-disease" / "heart_disease.csv")
    (tmp_path / "heart-disease").mkdir()
    table.drop(columns=["chol", "hospital"]).to_csv(tmp_path / "heart-disease" / "heart_disease.csv", index=False)
    with pytest.raises(ConsilienceError, match=r"heart-disease/heart_disease.csv lacks the columns chol, hospital\."):
        load("heart-disease", tmp_path)


def test_heart_data_without_a_folder():
    with pytest.raises(ConsilienceError, match=r"looked for nowhere.*CONSILIENCE_DATA"):
        load("heart-disease")


def test_missing_files_say_where_to_get_them_and_where_they_were_looked_for(tmp_path):
    with pytest.raises(ConsilienceError, match=r"looked for in .*heart-disease. Put processed.cleveland.data.*uci.edu"):
        load("heart-disease", tmp_path)
