"""Features on disk: computed once for each set of rows and each backbone, whoever asks for them."""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from consilience.base.errors import ConsilienceError
from consilience.base.files import cache_folder, one_at_a_time, write_atomically
from consilience.tasks.protocol import Array

LARGEST = 4 * 2**30
"""Bytes of all features that are kept; those read longest ago are removed first."""
FEWEST = 64
"""Rows of a set that is kept on disk."""
_NAME = "features"
Watch = Callable[[str, int, int], None]
"""Is told of a backbone's name, the rows whose features are computed, and all rows of the set."""
_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Within it, `watch` is told how far the features of a set of rows are."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def watching() -> Watch | None:
    """Who is told, if anybody."""
    return _watch.get()


def cached_features(key: str, rows: int, compute: Callable[[], Array]) -> Array:
    """The features under `key`, read from disk or computed and put there; another process is waited for.

    Args:
        key: What they depend on: backbone and rows.
        rows: How many rows there are; a few are not worth a file.
        compute: Computes them.
    """
    if rows < FEWEST:
        return compute()
    path = cache_folder() / "features" / f"{hashlib.sha256(key.encode()).hexdigest()}.safetensors"
    stored = _read(path, rows)
    if stored is not None:
        return stored
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with one_at_a_time(path.with_suffix(".lock")):
            stored = _read(path, rows)  # another process was faster
            if stored is None:
                stored = compute()
                write_atomically(path, save({_NAME: np.ascontiguousarray(stored)}))
                path.chmod(0o600)
                _tidy(path.parent)
    except OSError as error:
        raise ConsilienceError(
            f"cannot keep features in {path.parent}: {error.strerror or error}. Name a folder you may write to, with "
            "room, in the environment variable CONSILIENCE_CACHE."
        ) from error
    return stored


def _read(path: Path, rows: int) -> Array | None:
    """Stored features; a damaged file is computed again."""
    try:
        features = load_file(path)[_NAME]
    except (OSError, KeyError, SafetensorError):
        return None
    if features.ndim != 2 or len(features) != rows:
        return None
    with suppress(OSError):
        os.utime(path)  # so that it is not the first to be removed
    return features


def _tidy(folder: Path) -> None:
    """Removes what was read longest ago, until the rest is small enough."""
    files = sorted(folder.glob("*.safetensors"), key=lambda file: file.stat().st_mtime)
    total = sum(file.stat().st_size for file in files)
    for file in files[:-1]:
        if total <= LARGEST:
            return
        total -= file.stat().st_size
        with suppress(OSError):
            file.unlink()
            file.with_suffix(".lock").unlink(missing_ok=True)
