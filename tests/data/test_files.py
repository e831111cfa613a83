"""Data from a site's own files."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from consilience.data.files import read_features, read_labelled
from consilience.errors import ConsilienceError

CLASSES = ("healthy", "ill")


@pytest.fixture
def table() -> pd.DataFrame:
    return pd.DataFrame({"age": [50, 61, 47], "label": ["ill", "healthy", "ill"], "pressure": [1.5, 1.25, 2.0]})


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_table_columns_are_taken_in_the_order_of_the_shared_data(
    table: pd.DataFrame, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / f"data.{kind}"
    table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
    x, y = read_labelled(path, "label", CLASSES, ["pressure", "age"])
    np.testing.assert_array_equal(x, np.array([[1.5, 50], [1.25, 61], [2.0, 47]], dtype=np.float32))
    assert y.tolist() == [1, 0, 1]


def test_labels_may_be_numbers(table: pd.DataFrame, tmp_path: Path) -> None:
    table.assign(label=[1, 0, 1]).to_csv(tmp_path / "data.csv", index=False)
    x, y = read_labelled(tmp_path / "data.csv", "label", CLASSES, [])
    assert x.shape == (3, 2) and y.tolist() == [1, 0, 1]


def test_arrays(tmp_path: Path) -> None:
    x, y = np.ones((4, 2, 2), dtype=np.float32), np.array([0, 1, 1, 0])
    np.savez(tmp_path / "data.npz", x=x, y=y)
    np.save(tmp_path / "data.npy", x)
    np.testing.assert_array_equal(read_labelled(tmp_path / "data.npz", "", CLASSES, [])[1], y)
    for name in ("data.npz", "data.npy"):
        np.testing.assert_array_equal(read_features(tmp_path / name)[0], x)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": ["ill", "unwell", "ill"]}, "'unwell' in row 1 is no class"),
        ({"label": [0, 2, 1]}, "2.* in row 1 is no class"),
        ({"label": [0, 0.5, 1]}, "0.5.* in row 1 is no class"),
        ({"age": [50, None, 47]}, "row 1 has a missing"),
        ({"age": ["old", "old", "young"]}, "column 'age' holds no numbers"),
    ],
)
def test_a_wrong_cell_is_named(
    table: pd.DataFrame, change: dict[str, list[object]], message: str, tmp_path: Path
) -> None:
    table.assign(**change).to_csv(tmp_path / "data.csv", index=False)  # type: ignore[arg-type]
    with pytest.raises(ConsilienceError, match=message):
        read_labelled(tmp_path / "data.csv", "label", CLASSES, ["age", "pressure"])


def test_a_wrong_file_is_named(table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_csv(tmp_path / "data.csv", index=False)
    with pytest.raises(ConsilienceError, match="has no column 'diagnosis'"):
        read_labelled(tmp_path / "data.csv", "diagnosis", CLASSES, ["age"])
    with pytest.raises(ConsilienceError, match="unknown kind of file"):
        read_features(tmp_path / "data.xlsx")
    with pytest.raises(ConsilienceError, match="cannot be read"):
        read_features(tmp_path / "missing.csv")
    np.savez(tmp_path / "other.npz", z=np.ones(3))
    with pytest.raises(ConsilienceError, match="holds no array 'x'"):
        read_features(tmp_path / "other.npz")


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "evil.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ConsilienceError, match="cannot be read"):
        read_features(tmp_path / "evil.npy")
