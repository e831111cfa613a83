"""Data from somebody's own files: npz, npy, csv, parquet, a folder of images. Nothing in them is executed."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from consilience.base.errors import ConsilienceError
from consilience.base.files import reading
from consilience.base.rows import Array, Rows
from consilience.data.arrays import read_array, read_arrays
from consilience.data.columns import chosen_columns
from consilience.data.csv_files import read_csv
from consilience.data.parquet import read_parquet

if TYPE_CHECKING:
    import pandas as pd

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")


def picture_count(folder: Path) -> int:
    """The number of images in a folder; 0 if it does not exist, or holds parquet files as well."""
    return len(_files(folder)) if folder.is_dir() and not any(folder.rglob("*.parquet")) else 0


def csv_files(folder: Path) -> list[Path]:
    """The csv files of a folder, one for each agent, in the order of their names; none if it holds images as well."""
    files = sorted(file for file in folder.glob("*") if file.suffix.lower() == ".csv") if folder.is_dir() else []
    return [] if files and picture_count(folder) else files


def read_pictures(folder: Path, side: int = 0) -> tuple[NDArray[np.float32], NDArray[np.str_]]:
    """Images (samples, 3, height, width) in [-1, 1], in the order of their names; and the folder that each is in.

    They are brought to `side` x `side` pixels; with 0 they must all be of one size.
    """
    return scaled(read_pixels(folder, side)), np.array([file.parent.name for file in _files(folder)])


def read_pixels(folder: Path, side: int = 0, channels: int = 3) -> NDArray[np.uint8]:
    """Images (samples, channels, height, width) as bytes, in the order of their names: grey with one channel."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ConsilienceError("images need more packages: pip install 'consilience[vision]'.") from error
    files, size = _files(folder), (side, side) if side else None
    x: NDArray[np.uint8] | None = None
    for number, file in enumerate(files):
        try:
            with Image.open(file) as opened:
                pixels = pixels_of(opened, channels, size)
        except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
            raise ConsilienceError(f"{file} is no image that can be read: {error}. Remove it.") from error
        x = np.empty((len(files), *pixels.shape), dtype=np.uint8) if x is None else x
        if pixels.shape != x.shape[1:]:
            raise ConsilienceError(
                f"{file} has {pixels.shape[2]}x{pixels.shape[1]} pixels, {files[0].name} {x.shape[3]}x{x.shape[2]}. "
                "Set side, the height and width to which all images are brought."
            )
        x[number] = pixels
    if x is None:
        raise ConsilienceError(f"{folder} holds no images. Known kinds: {', '.join(PICTURES)}.")
    return x


def pixels_of(picture: Any, channels: int, size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
    """A Pillow image as bytes (channels, height, width), brought to `size` (width, height) if there is one."""
    picture = picture.convert("RGB" if channels == 3 else "L")
    if size and picture.size != size:
        picture = picture.resize(size, resample=2)  # bilinear, over all pixels covered
    return np.atleast_3d(np.asarray(picture)).transpose(2, 0, 1)


def scaled(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Bytes as numbers in [-1, 1]."""
    x = np.multiply(pixels, np.float32(2 / 255), dtype=np.float32)
    x -= 1
    return x


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.suffix.lower() in PICTURES and file.is_file())


KINDS = (".npz", ".npy", ".csv", ".parquet")


def read_features(
    path: Path,
    columns: Sequence[str] = (),
    *,
    table: bool | None = None,
    side: int = 0,
    words: Sequence[str] = (),
) -> tuple[Rows, list[str]]:
    """Samples without labels, and the names of a table's columns.

    An array, or `x` of an npz file; the columns of a table; or the images in a folder, brought to `side` pixels. Of a
    table the given `columns` are used, in their order, or all. It stays a table if `table` is true, becomes an array in
    single precision if that is false, and else it does if it holds nothing but numbers. The columns `words` of a csv
    file are texts, whatever they look like.
    """
    if path.suffix.lower() == ".npy":
        return _numbers(read_array(path), path), []
    if path.suffix.lower() == ".npz":
        return _numbers(_member(path, "x"), path), []
    if path.is_dir():
        return read_pictures(path, side)[0], []
    rows = read_table(path, words)
    wanted = list(columns or rows.columns)
    return _rows(rows, wanted, path, table), wanted


def read_labelled(
    path: Path,
    label: str,
    classes: tuple[str, ...],
    columns: Sequence[str] = (),
    *,
    task: str = "classification",
    table: bool | None = None,
    side: int = 0,
) -> tuple[Rows, Array]:
    """Samples and labels: `x` and `y` of an npz file; a table with a column `label`, or several with commas between for
    several labels or values a sample; or a folder that has one for each class, with its images.

    Of a table the given `columns` are used, in their order (those of the shared data), or all but the labels. Classes
    become numbers in the order of `classes`; without these, labels stay as they are.
    """
    if path.suffix.lower() == ".npz":
        x, y = _numbers(_member(path, "x"), path), _member(path, "y")
        check_lengths(path, x=len(x), y=len(y))
        return x, _labels(y, task, classes, path)
    if path.is_dir():
        x, y = read_pictures(path, side)
        return x, _labels(y, task, classes, path)
    return labelled_table(read_table(path), path, label, classes, columns, task=task, table=table)


def labelled_table(
    rows: "pd.DataFrame",
    path: Path,
    label: str,
    classes: tuple[str, ...],
    columns: Sequence[str] = (),
    *,
    task: str = "classification",
    table: bool | None = None,
) -> tuple[Rows, Array]:
    """Samples and labels, as `read_labelled` gives them, of a table that was read from `path`."""
    names = split_names(label)
    wanted = list(columns or [name for name in rows.columns if name not in names])
    labels = chosen_columns(rows, names, path)
    y = (labels[names[0]] if len(names) == 1 else labels).to_numpy()
    return _rows(rows, wanted, path, table), _labels(y, task, classes, path)


def read_table(path: Path, words: Sequence[str] = ()) -> "pd.DataFrame":
    """A csv or parquet file as it is; in a csv file a question mark is a missing value, too."""
    return read_table_and_notes(path, words)[0]


def read_table_and_notes(path: Path, words: Sequence[str] = ()) -> "tuple[pd.DataFrame, list[str]]":
    """A csv or parquet file, and a sentence on everything unusual about how it was read."""
    if path.suffix.lower() not in KINDS:
        raise ConsilienceError(
            f"{path}: unknown kind of file. Known: {', '.join(KINDS)}, or a folder of images. "
            "Save a spreadsheet as csv."
        )
    if path.suffix.lower() == ".npy":
        raise ConsilienceError(f"{path} holds an array without labels. Put x and y into one file with numpy.savez.")
    with reading(path):
        table, notes = read_csv(path, words) if path.suffix.lower() == ".csv" else (read_parquet(path), [])
    if not len(table):
        raise ConsilienceError(f"{path} holds a header ({', '.join(map(str, table.columns))[:200]}) and no rows.")
    _check_finite(table, path)
    return table, notes


def row_name(path: Path, row: int) -> str:
    """A row for a message: its line in a csv file, where the header is line 1; in other files its number from 0."""
    return f"line {row + 2}" if path.suffix.lower() == ".csv" else f"row {row}"


def check_lengths(path: Path, **lengths: int) -> None:
    """Refuses arrays of a file that do not have the same number of rows."""
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ConsilienceError(f"{path}: the arrays do not have the same number of rows: {told}.")


def split_names(label: str) -> list[str]:
    """Names of columns with commas between.

    >>> split_names("even, prime")
    ['even', 'prime']
    """
    return [name.strip() for name in label.split(",")]


def _labels(y: Array, task: str, classes: tuple[str, ...], path: Path) -> Array:
    if not classes:
        return y
    if task == "classification":
        return _class_numbers(y, classes, path)
    y = y.reshape(len(y), -1)
    if y.shape[1] != len(classes):
        raise ConsilienceError(
            f"{path}: {y.shape[1]} columns of labels, but {len(classes)} are agreed on: {', '.join(classes)}. "
            "Name them in `label`, with commas between."
        )
    try:
        values = y.astype(np.float32)
    except (TypeError, ValueError):
        raise ConsilienceError(f"{path}: some labels are no numbers.") from None
    if not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0][0])
        raise ConsilienceError(f"{path}: the label in {row_name(path, row)} is missing. Remove that row.")
    return values


def _class_numbers(y: Array, classes: tuple[str, ...], path: Path) -> Array:
    """Labels given as class names or as numbers 0, 1, ... in the order of the classes."""
    if np.issubdtype(y.dtype, np.number):
        values = y.astype(np.float64)
        good = (values == np.floor(values)) & (values >= 0) & (values < len(classes))
        numbers = np.where(good, values, 0).astype(np.int64)
    else:
        number_of = {name: number for number, name in enumerate(classes)}
        matches = [number_of.get(str(value), -1) for value in y]
        numbers = np.array(matches, dtype=np.int64)
        good = numbers >= 0
    if not good.all():
        row = int((~good).argmax())
        raise ConsilienceError(
            f"{path}: the label {y[row]!r} in {row_name(path, row)} is no class. Use the names {', '.join(classes)}, "
            f"or numbers 0 to {len(classes) - 1}."
        )
    return numbers


def _member(path: Path, name: str) -> Array:
    arrays = read_arrays(path, [name])
    if name not in arrays:
        raise ConsilienceError(f"{path} holds no array {name!r}. Save it with numpy.savez.")
    return arrays[name]


def _rows(table: "pd.DataFrame", columns: list[str], path: Path, stays: bool | None) -> Rows:
    """The columns as a table, or as an array in single precision."""
    table = chosen_columns(table, columns, path)
    words = [name for name in columns if table[name].dtype.kind not in "iuf"]
    if stays or (stays is None and (words or table.isna().to_numpy().any())):
        return table
    if words:
        raise ConsilienceError(
            f"{path}: the column {words[0]!r} holds no numbers, but the shared data do there. Encode it as "
            "numbers at every site."
        )
    return _numbers(table.to_numpy(np.float32), path, columns)


def _check_finite(table: "pd.DataFrame", path: Path) -> None:
    """Refuses infinite numbers; gaps are NaN."""
    for name in table.columns:
        values = table[name]
        infinite = np.isinf(values.to_numpy(np.float64, na_value=np.nan)) if values.dtype.kind == "f" else np.zeros(0)
        if infinite.any():
            raise ConsilienceError(
                f"{path}: {row_name(path, int(infinite.argmax()))} has an infinite value in the column {str(name)!r}. "
                "Correct it, or leave it empty."
            )


def _numbers(x: Array, path: Path, columns: Sequence[str] = ()) -> Array:
    if not x.ndim:
        raise ConsilienceError(f"{path}: x is one number. It must have a row for each sample.")
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        row, *position = np.argwhere(~np.isfinite(x))[0].tolist()
        where = f" in the column {columns[position[0]]!r}" if columns else f" at {position}" if position else ""
        raise ConsilienceError(
            f"{path}: {row_name(path, row)} has a missing or infinite value{where}. Fill it in beforehand."
        )
    return x
