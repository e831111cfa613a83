"""Real datasets: images from the Hugging Face hub or a local folder in its layout, and the UCI heart patients."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consilience.base.errors import ConsilienceError
from consilience.data.catalogue import SOURCES, Source
from consilience.data.parquet import check_parquet
from consilience.data.partition import first_of_each

Array = NDArray[Any]


HEART = "heart-disease"
HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
_FEATURES = ["age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak"]
_DROPPED = ["slope", "ca", "thal"]
_COLUMNS = [*_FEATURES, *_DROPPED, "num"]


SAVED = ("dataset_info.json", "dataset_dict.json")
"""Files of a folder that `save_to_disk` wrote."""
_STORED = ("x", "y", "classes", "groups", "group_names")
"""Arrays that are kept of a decoded dataset."""


@dataclass(frozen=True)
class Images:
    """Decoded images (samples, channels, side, side) as bytes, mapped from the cache; labels; hospitals, if any."""

    x: Array
    y: Array
    classes: tuple[str, ...]
    groups: Array | None
    group_names: tuple[str, ...]


def images(
    name: str,
    data_dir: str | Path | None = None,
    limit: int | None = None,
    side: int | None = None,
    groups: int = 0,
) -> Images:
    """The images of `name`, train and test part merged, in the order of the files.

    With `data_dir` from a folder in it, with no network; else from the hub. `limit` keeps the first so many of each
    class (and hospital) before anything is decoded, and `groups` those groups, such as writers, that have the most
    samples, where the files name no hospitals of their own. Decoded images are kept in the folder CONSILIENCE_CACHE
    (default ~/.cache/consilience) until the files change; a copy from the hub is taken not to change.
    """
    source = SOURCES[name]
    side = side or source.side
    folder = local_folder(name, source, data_dir) if data_dir else None
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
    return Images(
        x=np.load(cached / "x.npy", mmap_mode="r", allow_pickle=False),
        y=stored["y"],
        classes=tuple(stored["classes"].tolist()),
        groups=stored["groups"] if source.group else None,
        group_names=tuple(stored["group_names"].tolist()),
    )


def cache_folder() -> Path:
    """Where decoded images are kept."""
    return Path(os.environ.get("CONSILIENCE_CACHE") or "~/.cache/consilience").expanduser()


@dataclass(frozen=True)
class Patients:
    """Standardised features, labels and hospitals of heart patients, and by what the features were standardised."""

    x: Array
    y: Array
    hospitals: Array
    mean: Array
    deviation: Array
    columns: tuple[str, ...]


def heart_patients(data_dir: str | Path | None = None) -> Patients:
    """740 patients of four hospitals: ten features, whether the heart is diseased, and the hospital's number.

    As in FLamby (du Terrail et al., 2022), `slope`, `ca` and `thal` are dropped, then patients with a value missing;
    that leaves 303, 261, 46 and 130. Features are standardised with the mean and deviation over all 740 patients,
    so hospitals are taken to agree on these twenty numbers. Reads `heart_disease.csv`, or UCI's own four files.
    """
    import pandas as pd

    where = Path(data_dir) / HEART if data_dir else None
    files = [f"processed.{hospital}.data" for hospital in HOSPITALS]
    if where and (where / "heart_disease.csv").is_file():
        table = pd.read_csv(where / "heart_disease.csv")
    elif where and all((where / file).is_file() for file in files):
        tables = [pd.read_csv(where / file, names=_COLUMNS, na_values="?") for file in files]
        table = pd.concat(one.assign(hospital=h) for one, h in zip(tables, HOSPITALS, strict=True))
    else:
        looked = f"in {where}" if where else "nowhere, as no folder for data was named"
        raise ConsilienceError(
            f"the {HEART} data were looked for {looked}. Put {', '.join(files)} of "
            f"https://archive.ics.uci.edu/dataset/45/heart+disease into a folder {HEART}, "
            "and name the folder around it in the environment variable CONSILIENCE_DATA."
        )
    missing = [column for column in [*_COLUMNS, "hospital"] if column not in table]
    if missing:
        raise ConsilienceError(f"{where}/heart_disease.csv lacks the columns {', '.join(missing)}.")
    table = table.drop(columns=_DROPPED).dropna()
    features = table[_FEATURES].to_numpy(dtype=np.float64)
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    x = ((features - mean) / deviation).astype(np.float32)
    y = (table["num"].to_numpy() > 0).astype(np.int64)
    groups = table["hospital"].map({hospital: number for number, hospital in enumerate(HOSPITALS)})
    return Patients(x, y, groups.to_numpy(dtype=np.int64), mean, deviation, tuple(_FEATURES))


def local_folder(name: str, source: Source, data_dir: str | Path) -> Path:
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
    """Whether all arrays are there and can be read; what is damaged is removed, to be decoded again."""
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
        y, groups, group_names = _column(rows, source.label), np.zeros(len(rows), dtype=np.int64), source.group_names
        if source.group and group_names:
            groups = _column(rows, source.group)
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
                picture = row[source.image].convert("RGB" if source.channels == 3 else "L")
                if picture.size != (side, side):
                    picture = picture.resize((side, side), resample=2)  # bilinear, over all pixels covered
                x[number] = np.atleast_3d(np.asarray(picture)).transpose(2, 0, 1)
        except OSError as error:
            raise ConsilienceError(
                f"an image of {folder or source.hub} cannot be decoded: {error}. Copy the dataset again."
            ) from error
        names = getattr(rows.features[source.label], "names", None) or source.classes
    arrays = {"x": x, "y": y, "groups": groups, "classes": np.array(names, dtype=np.str_)}
    return arrays | {"group_names": np.array(group_names, dtype=np.str_)}


def _largest_groups(rows: Any, y: Array, column: str, most: int) -> tuple[Any, Array, Array, tuple[str, ...]]:
    """The rows of those groups that have the most, in the order of the groups' names."""
    found = np.asarray(rows.with_format("numpy")[column][:]).astype(np.str_)
    names, counts = np.unique(found, return_counts=True)
    largest = np.sort(names[np.argsort(-counts, kind="stable")[: most or len(names)]])
    chosen = np.flatnonzero(np.isin(found, largest))
    return rows.select(chosen), y[chosen], np.searchsorted(largest, found[chosen]), tuple(largest.tolist())


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


def rows_of(library: Any, source: Source, folder: Path | None, scratch: Path) -> Any:
    """Train and test part, or whatever the parts are called, one after the other."""
    place = str(folder or source.hub)
    inside = str(folder / source.config) if folder and source.config else place
    address = f"https://huggingface.co/datasets/{source.hub}"
    try:
        config = {"name": source.config} if source.config and not folder else {}
        if folder:
            check_files(library, Path(inside), scratch)
        found = library.load_dataset(inside, cache_dir=str(scratch), **config)
        parts = {"valid": "validation"}  # how the library calls the files of a local copy
        rows = library.concatenate_datasets([found[p] if p in found else found[parts[p]] for p in source.parts])
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
        raise ConsilienceError(f"cannot read {place} ({reason}). {advice}") from error
    missing = [c for c in (source.image, source.label, source.group) if c and c not in rows.column_names]
    if missing:
        raise ConsilienceError(f"{place} lacks the columns {', '.join(missing)}; it is no copy of {address}.")
    return rows


def check_files(library: Any, folder: Path, scratch: Path | None = None) -> None:
    """Refuses a Hugging Face folder that names files outside of it, and parquet files in it that are too large.

    Its README may name files, and so do the lists that `save_to_disk` writes. Links in the hub's own cache are
    followed.
    """
    if any((folder / name).is_file() for name in SAVED):
        parts = json.loads(_text(folder / SAVED[1]))["splits"] if (folder / SAVED[1]).is_file() else ["."]
        check_inside(folder, parts)
        for part in parts:
            states = json.loads(_text(folder / part / "state.json"))
            names = [str(file["filename"]) for file in states["_data_files"]]
            check_inside(folder, [f"{part}/{name}" for name in names])
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
    """Refuses images that are no part of the dataset, but files outside of `folder` of which it has the paths."""
    for batch in rows.with_format("arrow").select_columns([column]).iter(1000):
        cells = batch[column].combine_chunks()
        if cells.type.num_fields:  # bytes and path; a column of bytes alone has no paths
            paths = cells.field("path").filter(cells.field("bytes").is_null())
            check_inside(folder, filter(None, paths.to_pylist()))


def _text(path: Path) -> str:
    if path.stat().st_size > 10_000_000:
        raise ConsilienceError(f"{path} is too large to be a list of files.")
    return path.read_text(encoding="utf-8")


def _column(rows: Any, name: str) -> Array:
    return np.asarray(rows.with_format("numpy")[name][:], dtype=np.int64)


def reachable() -> bool:
    """Whether the hub answers. One request tells; the library itself would try again for half a minute, and say so."""
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
