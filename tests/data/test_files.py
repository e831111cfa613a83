"""Data from a site's own files."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from consilience.base.errors import ConsilienceError
from consilience.data.files import read_features, read_labelled

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
            r"data.csv: the label 'unwell' in line 3 is no class.* healthy, ill, or .* 0 to 1",
        ),
        ({"label": [0, 2, 1]}, "data.csv: the label .*2.* in line 3 is no class"),
        ({"label": [0, 0.5, 1]}, "data.csv: the label .*0.5.* in line 3 is no class"),
        ({"label": [0, -1, 1]}, "data.csv: the label .*-1.* in line 3 is no class"),
        ({"age": [50, None, 47]}, "data.csv: line 3 has a missing or infinite value in the column 'age'"),
        ({"age": [50, 61, np.inf]}, "data.csv: line 4 has an infinite value in the column 'age'"),
        ({"age": ["old", "old", "young"]}, "data.csv: the column 'age' holds no numbers"),
    ],
)
def test_a_wrong_cell_is_named(
    table: pd.DataFrame, change: dict[str, list[object]], message: str, tmp_path: Path
) -> None:
    table.assign(**change).to_csv(tmp_path / "data.csv", index=False)  # type: ignore[arg-type]
    with pytest.raises(ConsilienceError, match=message):
        read_labelled(tmp_path / "data.csv", "label", CLASSES, ["age", "pressure"], table=False)


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
    with pytest.raises(ConsilienceError, match=r"x.npy holds an array without labels. Put x and y into one file"):
        read_labelled(tmp_path / "x.npy", "label", CLASSES)
    (tmp_path / "empty.csv").touch()
    with pytest.raises(ConsilienceError, match=r"empty.csv is empty.$"):
        read_features(tmp_path / "empty.csv")
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


def test_a_table_with_words_and_gaps_stays_a_table(table: pd.DataFrame, tmp_path: Path) -> None:
    mixed = table.assign(smoker=["yes", None, "no"], pressure=["1.5", "?", "2.0"])
    mixed.to_csv(tmp_path / "data.csv", index=False)
    x, y = read_labelled(tmp_path / "data.csv", "label", CLASSES)
    assert list(x.columns) == ["age", "pressure", "smoker"]
    assert x["pressure"].isna().tolist() == [False, True, False], "a question mark is a gap"
    assert y.tolist() == [1, 0, 1]
    found, columns = read_features(tmp_path / "data.csv", ["age"], table=True)
    assert list(found.columns) == columns == ["age"]


def test_labels_of_other_tasks(table: pd.DataFrame, tmp_path: Path) -> None:
    table.assign(even=[0, 1, 1], prime=[1, 1, 0]).to_csv(tmp_path / "data.csv", index=False)
    path, names = tmp_path / "data.csv", ("even", "prime")
    x, y = read_labelled(path, "even, prime", names, ["age"], task="multilabel")
    assert y.tolist() == [[0, 1], [1, 1], [1, 0]]
    assert x.shape == (3, 1)
    _, y = read_labelled(path, "pressure", ("pressure",), ["age"], task="regression")
    assert y.tolist() == [[1.5], [1.25], [2.0]]
    with pytest.raises(ConsilienceError, match=r"data.csv: 1 columns of labels, but 2 are agreed on: even, prime"):
        read_labelled(path, "even", names, task="multilabel")
    with pytest.raises(ConsilienceError, match=r"data.csv: some labels are no numbers"):
        read_labelled(path, "label", ("pressure",), ["age"], task="regression")
    table.assign(pressure=[1.5, None, 2.0]).to_csv(path, index=False)
    with pytest.raises(ConsilienceError, match=r"data.csv: the label in line 3 is missing"):
        read_labelled(path, "pressure", ("pressure",), ["age"], task="regression")


def test_a_folder_of_images(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for folder, shade in (("ill", 255), ("healthy", 0)):
        (tmp_path / folder).mkdir()
        for number in range(2):
            image.new("RGB", (4, 4), (shade, 0, 255)).save(tmp_path / folder / f"{number}.png")
    (tmp_path / "notes.txt").write_text("no image")
    x, y = read_labelled(tmp_path, "", CLASSES)
    assert x.shape == (4, 3, 4, 4)
    assert y.tolist() == [0, 0, 1, 1]
    assert x[:, :, 0, 0].tolist() == [[-1, -1, 1], [-1, -1, 1], [1, -1, 1], [1, -1, 1]]
    assert read_features(tmp_path / "ill", side=2)[0].shape == (2, 3, 2, 2)
    with pytest.raises(ConsilienceError, match=r"the label .*healthy.* in row 0 is no class"):
        read_labelled(tmp_path, "", ("no", "yes"))
    image.new("RGB", (6, 4)).save(tmp_path / "ill" / "wide.png")
    with pytest.raises(ConsilienceError, match=r"wide.png has 6x4 pixels, 0.png 4x4. Set side"):
        read_features(tmp_path)
    (tmp_path / "ill" / "wide.png").write_bytes(b"no image at all")
    with pytest.raises(ConsilienceError, match=r"wide.png is no image that can be read"):
        read_features(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConsilienceError, match="holds no images"):
        read_features(tmp_path / "empty")


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("age,label\n")
    with pytest.raises(ConsilienceError, match=r"data.csv holds a header \(age, label\) and no rows"):
        read_labelled(tmp_path / "data.csv", "label", ())


@pytest.mark.parametrize("labels", [299, 310])
def test_labels_must_be_as_many_as_rows(labels: int, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.ones((300, 2)), y=np.zeros(labels, int))
    with pytest.raises(ConsilienceError, match=rf"data.npz: .* same number of rows: x has 300, y has {labels}"):
        read_labelled(tmp_path / "data.npz", "", ())


def test_an_infinite_value_is_named_by_row_and_column(table: pd.DataFrame, tmp_path: Path) -> None:
    table.assign(pressure=[1.0, np.inf, 2.0], age=["old", None, "young"]).to_csv(tmp_path / "data.csv", index=False)
    with pytest.raises(ConsilienceError, match=r"data.csv: line 3 has an infinite value in the column 'pressure'"):
        read_labelled(tmp_path / "data.csv", "label", ())
