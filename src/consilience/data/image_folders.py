"""Images in a folder, with a folder in it for each class where they have labels."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consilience.base.errors import ConsilienceError

KINDS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")


def picture_count(folder: Path) -> int:
    """The number of images in a folder; 0 if it does not exist, or holds parquet files as well."""
    return len(_files(folder)) if folder.is_dir() and not any(folder.rglob("*.parquet")) else 0


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
        raise ConsilienceError(f"{folder} holds no images. Known kinds: {', '.join(KINDS)}.")
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
    return sorted(file for file in folder.rglob("*") if file.suffix.lower() in KINDS and file.is_file())
