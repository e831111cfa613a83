"""Datasets of the Hugging Face hub, or of a local folder in its layout."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.files import cache_folder
from consilience.base.rows import Array
from consilience.data.catalogue import SOURCES, Source
from consilience.data.datasets import Dataset
from consilience.data.files import pixels_of
from consilience.data.parquet import check_parquet
from consilience.data.partitions import first_of_each

SAVED = ("dataset_info.json", "dataset_dict.json")
"""Files of a folder that `save_to_disk` wrote."""
_STORED = ("x", "y", "classes", "groups", "group_names")
"""The arrays of a decoded dataset in the cache."""


def images(
    name: str,
    data_dir: str | Path | None = None,
    limit: int | None = None,
    side: int | None = None,
    groups: int = 0,
) -> Dataset:
    """The images of `name` as bytes, mapped from the cache; train and test part merged, in the order of the files.

    With `data_dir` from a folder in it, with no network; else from the hub. `limit` keeps the first ones of each
    class (and hospital) before anything is decoded, and `groups` those groups, such as writers, that have the most
    samples, where the files name no hospitals of their own. Decoded images are kept in the folder CONSILIENCE_CACHE
    (default ~/.cache/consilience) until the files change; a copy from the hub is taken not to change.
    """
    source = SOURCES[name]
    side = side or source.side
    folder = local_folder(name, data_dir)
    facts = (side, limit, groups) if groups else (side, limit)
    cached = cache_folder() / f"{name}-{side}px-{_fingerprint(folder, source.hub, *facts)}"
    if not _is_whole(cached):
        try:
            cached.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=cached.parent, prefix=".part-") as scratch:
                arrays = _decode(source, folder, limit, side, groups, Path(scratch) / "tables")
                _put(arrays, Path(scratch) / "arrays", cached)
        except OSError as error:
            raise ConsilienceError(
                f"cannot keep decoded images in {cached.parent}: {error.strerror or error}. "
                "Name a folder you may write to, with room, in the environment variable CONSILIENCE_CACHE."
            ) from error
    stored = {key: np.load(cached / f"{key}.npy", allow_pickle=False) for key in _STORED[1:]}
    return Dataset(
        x=np.load(cached / "x.npy", mmap_mode="r", allow_pickle=False),
        y=stored["y"],
        classes=tuple(stored["classes"].tolist()),
        groups=stored["groups"] if source.group else None,
        group_names=tuple(stored["group_names"].tolist()),
    )


def local_folder(name: str, data_dir: str | Path | None) -> Path | None:
    """The folder of a dataset in the folder of real data; None where there is no such folder."""
    if not data_dir:
        return None
    source = SOURCES[name]
    candidates = [Path(data_dir) / folder for folder in source.folders]
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    raise ConsilienceError(
        f"{name} was looked for in {' and '.join(map(str, candidates))}, but there is no such folder: "
        f"copy https://huggingface.co/datasets/{source.hub} there, or, to download it, name no folder for data "
        "(CONSILIENCE_DATA)."
    )


def _fingerprint(folder: Path | None, *facts: object) -> str:
    """Changes when a file of `folder` is added, removed, resized or touched."""
    files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder else []
    about = [(str(f.relative_to(folder or f)), f.stat().st_size, f.stat().st_mtime_ns) for f in files]
    return hashlib.sha256(repr((facts, folder and folder.name, about)).encode()).hexdigest()[:16]


def _is_whole(cached: Path) -> bool:
    """Whether all arrays can be read; a damaged folder is removed, to be decoded again."""
    if not cached.is_dir():
        return False
    try:
        for key in _STORED:
            np.load(cached / f"{key}.npy", mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError):
        shutil.rmtree(cached)
        return False
    return True


def _decode(
    source: Source, folder: Path | None, limit: int | None, side: int, most_groups: int, scratch: Path
) -> dict[str, Array]:
    """Images as bytes, labels, hospitals (zeros where there are none) and the names of classes and hospitals."""
    with hugging_face(offline=folder is not None) as library:
        rows = rows_of(library, source, folder, scratch)
        if not hasattr(rows.features[source.image], "decode"):  # files that say nothing of what their columns hold
            rows = rows.cast_column(source.image, library.Image())
        y, groups, group_names = _column(rows, source.label), np.zeros(len(rows), dtype=np.int64), source.group_names
        if source.group and group_names:
            groups = _group_numbers(rows, source)
        elif source.group:
            rows, y, groups, group_names = _largest_groups(rows, y, source.group, most_groups)
        if limit:
            chosen = first_of_each(np.stack([y, groups]), limit)
            rows, y, groups = rows.select(chosen), y[chosen], groups[chosen]
        x = np.empty((len(y), source.channels, side, side), dtype=np.uint8)
        if folder:
            check_pictures(rows, source.image, folder)
        try:
            for number, row in enumerate(rows.select_columns([source.image])):
                x[number] = pixels_of(row[source.image], source.channels, (side, side))
        except OSError as error:
            raise ConsilienceError(
                f"an image of {folder or source.hub} cannot be decoded: {error}. Copy the dataset again."
            ) from error
        names = getattr(rows.features[source.label], "names", None) or source.classes
    arrays = {"x": x, "y": y, "groups": groups, "classes": np.array(names, dtype=np.str_)}
    return arrays | {"group_names": np.array(group_names, dtype=np.str_)}


def _largest_groups(rows: Any, y: Array, column: str, most: int) -> tuple[Any, Array, Array, tuple[str, ...]]:
    """The rows of those groups that have the most, in the order of the groups' names."""
    owners = np.asarray(rows.with_format("numpy")[column][:]).astype(np.str_)
    names, counts = np.unique(owners, return_counts=True)
    largest = np.sort(names[np.argsort(-counts, kind="stable")[: most or len(names)]])
    chosen = np.flatnonzero(np.isin(owners, largest))
    return rows.select(chosen), y[chosen], np.searchsorted(largest, owners[chosen]), tuple(largest.tolist())


def _put(arrays: dict[str, Array], temporary: Path, cached: Path) -> None:
    """Writes the arrays and moves them into place, all at once. Another process may have been faster."""
    temporary.mkdir()
    for key, array in arrays.items():
        np.save(temporary / f"{key}.npy", array, allow_pickle=False)
    try:
        temporary.rename(cached)
    except OSError:
        if not _is_whole(cached):
            raise


@contextmanager
def dataset_rows(name: str, data_dir: Path | None) -> Iterator[Any]:
    """The rows of a dataset that is not stored decoded, as long as the context lasts."""
    folder = local_folder(name, data_dir)
    with TemporaryDirectory() as scratch, hugging_face(offline=folder is not None) as library:
        yield rows_of(library, SOURCES[name], folder, Path(scratch) / "tables")


def rows_of(library: Any, source: Source, folder: Path | None, scratch: Path) -> Any:
    """Train and test part, or whatever the parts are called, one after the other."""
    where = str(folder or source.hub)
    inside = str(folder / source.config) if folder and source.config else where
    address = f"https://huggingface.co/datasets/{source.hub}"
    try:
        config = {"name": source.config} if source.config and not folder else {}
        if folder:
            check_files(library, Path(inside), scratch)
        loaded = library.load_dataset(inside, cache_dir=str(scratch), **config)
        parts = {"valid": "validation"}  # how the library calls the files of a local copy
        rows = library.concatenate_datasets([loaded[p] if p in loaded else loaded[parts[p]] for p in source.parts])
    except ConsilienceError:
        raise
    except Exception as error:  # the library raises some twenty kinds, its own and others'
        reason = _why_offline() if not folder and library.config.HF_HUB_OFFLINE else ""
        reason = reason or f"{type(error).__name__}: {error}".splitlines()[0]
        advice = (
            f"Copy {address} there again."
            if folder
            else f"Without a network, copy {address} into a folder {source.folders[0]} and name the folder around it "
            "in the environment variable CONSILIENCE_DATA."
        )
        raise ConsilienceError(f"cannot read {where} ({reason}). {advice}") from error
    missing = [c for c in (source.image, source.label, source.group) if c and c not in rows.column_names]
    if missing:
        raise ConsilienceError(f"{where} lacks the columns {', '.join(missing)}; it is no copy of {address}.")
    return rows


def check_files(library: Any, folder: Path, scratch: Path | None = None) -> None:
    """Refuses a Hugging Face folder that names files outside of it, and parquet files in it that are too large.

    Its README may name files, and so do the lists that `save_to_disk` writes. Links in the hub's own cache are
    followed.
    """
    if any((folder / name).is_file() for name in SAVED):
        splits = json.loads(_text(folder / SAVED[1]))["splits"] if (folder / SAVED[1]).is_file() else ["."]
        check_inside(folder, splits)
        for split in splits:
            states = json.loads(_text(folder / split / "state.json"))
            check_inside(folder, [f"{split}/{file['filename']}" for file in states["_data_files"]])
        return
    builder = library.load_dataset_builder(str(folder), cache_dir=scratch and str(scratch))
    paths = [str(path) for files in (builder.config.data_files or {}).values() for path in files]
    check_inside(folder, paths)
    for path in paths:
        if path.endswith(".parquet"):
            check_parquet(Path(path))


def check_inside(folder: Path, paths: Iterable[str]) -> None:
    """Refuses a path that leads out of `folder`, through a link too."""
    homes = [folder.resolve()]
    if folder.resolve().parent.name == "snapshots":
        homes.append(folder.resolve().parents[1] / "blobs")
    for path in paths:
        if not any((folder / path).resolve().is_relative_to(home) for home in homes):
            raise ConsilienceError(f"{folder} names the file {path}, which is outside of it. Copy that file into it.")


def check_pictures(rows: Any, column: str, folder: Path) -> None:
    """Refuses a dataset that refers to image files outside of `folder` by their paths."""
    for batch in rows.with_format("arrow").select_columns([column]).iter(1000):
        cells = batch[column].combine_chunks()
        if cells.type.num_fields:  # bytes and path; a column of bytes alone has no paths
            paths = cells.field("path").filter(cells.field("bytes").is_null())
            check_inside(folder, filter(None, paths.to_pylist()))


def _text(path: Path) -> str:
    if path.stat().st_size > 10_000_000:
        raise ConsilienceError(f"{path} is too large to be a list of files.")
    return path.read_text(encoding="utf-8")


def _group_numbers(rows: Any, source: Source) -> Array:
    """The number of each row's group, which the files may have by name."""
    names = np.asarray(rows.with_format("numpy")[source.group][:])
    if names.dtype.kind in "iu":
        return names.astype(np.int64)
    numbers = {name: number for number, name in enumerate(source.group_names)}
    unknown = sorted(set(names.astype(str).tolist()) - set(numbers))
    if unknown:
        raise ConsilienceError(
            f"the column {source.group!r} holds {unknown[0]!r}; it should hold {', '.join(source.group_names)}. Copy "
            f"https://huggingface.co/datasets/{source.hub} again."
        )
    return np.array([numbers[name] for name in names.astype(str).tolist()], dtype=np.int64)


def _column(rows: Any, name: str) -> Array:
    return np.asarray(rows.with_format("numpy")[name][:], dtype=np.int64)


def reachable() -> bool:
    """Whether the hub answers one request. The library itself would retry for half a minute, and print so."""
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=10)
    except Exception:  # of whichever library sends requests for it
        return False
    return True


def _why_offline() -> str:
    from huggingface_hub import constants

    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    return "the environment variable HF_HUB_OFFLINE is set" if offline else f"{constants.ENDPOINT} cannot be reached"


@contextmanager
def hugging_face(offline: bool) -> Iterator[Any]:
    """The library `datasets`: it reports nothing, prints nothing, and reaches out only when it has to download.

    Where the hub does not answer, what it downloaded before can still be read.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_UPDATE_DOWNLOAD_COUNTS", "0")
    try:
        import datasets
        import PIL.Image  # noqa: F401
        from huggingface_hub import constants
    except ImportError as error:
        raise ConsilienceError("images need more packages: pip install 'consilience[vision]'.") from error
    before = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE, datasets.are_progress_bars_disabled()
    if offline or (not before[0] and not reachable()):
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    datasets.disable_progress_bars()
    try:
        yield datasets
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before[:2]
        if not before[2]:
            datasets.enable_progress_bars()
