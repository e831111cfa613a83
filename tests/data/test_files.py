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
    table.assign(label=[1.0, 0.0, 1.0]).to_csv(tmp_path / "data.csv", index=False)
    x, y = read_labelled(tmp_path / "data.csv", "label", CLASSES, [])
    np.testing.assert_array_equal(x, np.array([[50, 1.5], [61, 1.25], [47, 2.0]], dtype=np.float32))
    assert x.dtype == np.float32
    assert y.tolist() == [1, 0, 1]
    assert y.dtype == np.int64


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_shared_data_are_all_columns_of_a_table_or_those_that_are_named(
    table: pd.DataFrame, kind: str, tmp_path: Path
) -> None:
    path, table = tmp_path / f"data.{kind}", table.drop(columns="label")
    table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
    x, columns = read_features(path)
    assert columns == ["age", "pressure"]
    np.testing.assert_array_equal(x, np.array([[50, 1.5], [61, 1.25], [47, 2.0]], dtype=np.float32))
    x, columns = read_features(path, ("pressure",))
    assert columns == ["pressure"]
    np.testing.assert_array_equal(x, np.array([[1.5], [1.25], [2.0]], dtype=np.float32))


def test_arrays(tmp_path: Path) -> None:
    x, y = np.ones((4, 2, 2), dtype=np.float32), np.array([0, 1, 1, 0])
    np.savez(tmp_path / "data.npz", x=x, y=y)
    np.save(tmp_path / "data.npy", x)
    got_x, got_y = read_labelled(tmp_path / "data.npz", "", CLASSES, [])
    np.testing.assert_array_equal(got_x, x)
    np.testing.assert_array_equal(got_y, y)
    for name in ("data.npz", "data.npy"):
        found, columns = read_features(tmp_path / name)
        np.testing.assert_array_equal(found, x)
        assert columns == []


def test_class_names_may_be_an_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.ones((3, 1)), y=np.array(["ill", "healthy", "ill"]))
    assert read_labelled(tmp_path / "data.npz", "", CLASSES, [])[1].tolist() == [1, 0, 1]


def test_whole_numbers_need_not_be_finite(tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", np.arange(4)[:, None])
    assert read_features(tmp_path / "data.npy")[0].tolist() == [[0], [1], [2], [3]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"label": ["ill", "unwell", "ill"]},
            r"data.csv: the label 'unwell' in row 1 is no class.* healthy, ill, or .* 0 to 1",
        ),
        ({"label": [0, 2, 1]}, "data.csv: the label .*2.* in row 1 is no class"),
        ({"label": [0, 0.5, 1]}, "data.csv: the label .*0.5.* in row 1 is no class"),
        ({"label": [0, -1, 1]}, "data.csv: the label .*-1.* in row 1 is no class"),
        ({"age": [50, None, 47]}, "data.csv: row 1 has a missing"),
        ({"age": [50, 61, np.inf]}, "data.csv: row 2 has a missing or infinite"),
        ({"age": ["old", "old", "young"]}, "data.csv: the column 'age' holds no numbers"),
    ],
)
def test_a_wrong_cell_is_named(
    table: pd.DataFrame, change: dict[str, list[object]], message: str, tmp_path: Path
) -> None:
    table.assign(**change).to_csv(tmp_path / "data.csv", index=False)  # type: ignore[arg-type]
    with pytest.raises(ConsilienceError, match=message):
        read_labelled(tmp_path / "data.csv", "label", CLASSES, ["age", "pressure"])


def test_a_missing_column_is_named(table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_csv(tmp_path / "data.csv", index=False)
    with pytest.raises(ConsilienceError, match=r"data.csv has no column 'diagnosis'. It has: age, label, pressure"):
        read_labelled(tmp_path / "data.csv", "diagnosis", CLASSES, ["age"])
    with pytest.raises(ConsilienceError, match=r"data.csv has no column 'height'"):
        read_labelled(tmp_path / "data.csv", "label", CLASSES, ["age", "height"])
    with pytest.raises(ConsilienceError, match=r"data.csv has no column 'height'"):
        read_features(tmp_path / "data.csv", ["height"])


@pytest.mark.parametrize("name", ["data.npy", "data.npz"])
def test_a_missing_value_in_an_array_is_named(name: str, tmp_path: Path) -> None:
    x = np.ones((5, 2, 2))
    x[3, 0, 1] = np.nan
    np.save(tmp_path / name, x) if name == "data.npy" else np.savez(tmp_path / name, x=x, y=np.zeros(5, int))
    with pytest.raises(ConsilienceError, match=rf"{name}: row 3 has a missing or infinite value"):
        read_features(tmp_path / name)
    if name == "data.npz":
        with pytest.raises(ConsilienceError, match=r"data.npz: row 3 has a missing"):
            read_labelled(tmp_path / name, "", CLASSES, [])


def test_a_wrong_label_in_an_array_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.ones((3, 1)), y=np.array([0, 1, 7]))
    with pytest.raises(ConsilienceError, match=r"data.npz: the label .*7.* in row 2 is no class"):
        read_labelled(tmp_path / "data.npz", "", CLASSES, [])


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConsilienceError, match=r"data.xlsx: unknown kind of file. Known: .npz, .npy, .csv, .parquet"):
        read_features(tmp_path / "data.xlsx")
    for name in ("missing.csv", "missing.parquet", "missing.npy", "missing.npz"):
        with pytest.raises(ConsilienceError, match=rf"{name} cannot be read"):
            read_features(tmp_path / name)
    np.savez(tmp_path / "other.npz", z=np.ones(3))
    with pytest.raises(ConsilienceError, match=r"other.npz holds no array 'x'"):
        read_features(tmp_path / "other.npz")
    np.savez(tmp_path / "half.npz", x=np.ones(3))
    with pytest.raises(ConsilienceError, match=r"half.npz holds no array 'y'"):
        read_labelled(tmp_path / "half.npz", "", CLASSES, [])


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    evil = np.array([{"a": 1}], dtype=object)
    np.save(tmp_path / "evil.npy", evil, allow_pickle=True)
    np.savez(tmp_path / "evil.npz", x=evil, y=evil)
    for name in ("evil.npy", "evil.npz"):
        with pytest.raises(ConsilienceError, match=rf"{name} cannot be read: it holds objects"):
            read_features(tmp_path / name)
