"""Images in a folder, with a folder in it for each class where they have labels."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from consilience.base.errors import ConsilienceError

KINDS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")


def is_pictures(folder: Path) -> bool:
    """Whether a folder holds images, itself or in folders in it."""
    return folder.is_dir() and bool(_files(folder))


def picture_count(folder: Path) -> int:
    """Images in a folder; none where there is no folder, or something else in it, too, that data are read from."""
    return len(_files(folder)) if folder.is_dir() and not any(folder.rglob("*.parquet")) else 0


def read_pictures(folder: Path, side: int = 0) -> tuple[NDArray[np.float32], NDArray[np.str_]]:
    """Images (samples, 3, height, width) in [-1, 1], in the order of their names; and the folder that each is in.

    They are brought to `side` x `side` pixels; with 0 they must all be of one size.
    """
    x = read_pixels(folder, side).astype(np.float32)
    x *= np.float32(2 / 255)
    x -= 1
    return x, np.array([file.parent.name for file in _files(folder)])


def read_pixels(folder: Path, side: int = 0, channels: int = 3) -> NDArray[np.uint8]:
    """Images (samples, channels, height, width) as bytes, in the order of their names: grey with one channel."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ConsilienceError("images need more packages: pip install 'consilience[vision]'.") from error
    files = _files(folder)
    x: NDArray[np.uint8] | None = None
    for number, file in enumerate(files):
        try:
            with Image.open(file) as opened:
                picture = opened.convert("RGB" if channels == 3 else "L")
        except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
            raise ConsilienceError(f"{file} is no image that can be read: {error}. Remove it.") from error
        if side and picture.size != (side, side):
            picture = picture.resize((side, side), resample=Image.Resampling.BILINEAR)
        pixels = np.asarray(picture).reshape(picture.height, picture.width, -1).transpose(2, 0, 1)
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


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.suffix.lower() in KINDS and file.is_file())
