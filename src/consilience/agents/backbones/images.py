"""Images of any kind as pixels from 0 to 255."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows, count, sample_x

_EDGE = 1e-3
"""Fractions may be this far outside of [-1, 1]."""


def size_of_images(who: str, rows: Rows, side: int) -> tuple[int, int]:
    """Height and width of images; an error for rows that are no images, or of several sizes where no side is given."""
    if hasattr(rows, "iloc"):
        raise ConsilienceError(
            f"{who}: the backbone takes images, and the rows are those of a table. Use one for texts, such as minilm, "
            "or another model."
        )
    if isinstance(rows, np.ndarray | Tensor) and (rows.ndim in (3, 4) or str(rows.dtype) != "object"):
        dtype = str(rows.dtype).removeprefix("torch.")
        if dtype != "uint8" and not dtype.startswith("float"):
            raise ConsilienceError(f"{who}: images as {dtype} are not read. Give bytes, or fractions in [-1, 1].")
        height, width, channels = _layout(tuple(rows.shape)) if rows.ndim in (3, 4) else (0, 0, 0)
        if channels in (1, 3):
            return height, width
        raise ConsilienceError(
            f"{who}: a row of the shape {tuple(rows.shape[1:])} is no image. Give (3, height, width), "
            "(height, width, 3) or (height, width)."
        )
    if not count(rows):
        return side, side
    sizes: dict[tuple[int, int], int] = {}
    for number in range(count(rows)):
        image = _picture(rows, number)
        if isinstance(image, str):
            raise ConsilienceError(
                f"{who}: the backbone takes images, and row {number} is a text. Use one for texts, such as minilm."
            )
        height, width = _size(image)
        if not height:
            raise ConsilienceError(f"{who}: row {number} is a {type(image).__name__} and no image.")
        sizes.setdefault((height, width), number)
        if len(sizes) > 1 and not side:
            (first, _), (second, row) = list(sizes.items())[:2]
            raise ConsilienceError(
                f"{who}: row 0 is an image of {first[1]}x{first[0]} pixels, row {row} one of {second[1]}x{second[0]}. "
                "Say with side=... to which size all are brought."
            )
    return next(iter(sizes))


def pixels_of(rows: Rows, side: int = 0) -> Tensor:
    """Images as pixels from 0 to 255 (rows, 3, height, width): bytes as they are, fractions from [-1, 1].

    Images of several sizes are brought to `side` x `side`.
    """
    if isinstance(rows, np.ndarray | Tensor):
        return _scaled(torch.as_tensor(np.ascontiguousarray(rows)) if isinstance(rows, np.ndarray) else rows)
    images = [_picture(rows, number) for number in range(count(rows))]
    if side:
        images = [_resized(image, side) for image in images]
    return torch.cat([_scaled(torch.from_numpy(_array(image)[None])) for image in images])


def _scaled(x: Tensor) -> Tensor:
    """Images with three channels, which come second, from 0 to 255."""
    x = x.unsqueeze(1) if x.ndim == 3 else x
    if x.shape[1] not in (1, 3):
        x = x.permute(0, 3, 1, 2)
    if x.dtype != torch.uint8:
        low, high = x.aminmax() if len(x) else (torch.zeros(()), torch.zeros(()))
        if not (low >= -1 - _EDGE and high <= 1 + _EDGE):
            raise ConsilienceError(
                f"images as fractions lie in [-1, 1], and these go from {float(low):.3g} to {float(high):.3g}. Give "
                "bytes (uint8) from 0 to 255, or scale them."
            )
        x = (x + 1) * 127.5
    return x.float().expand(-1, 3, -1, -1)


def _layout(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Height, width and channels."""
    if len(shape) == 3:
        return shape[1], shape[2], 1
    return (shape[2], shape[3], shape[1]) if shape[1] in (1, 3) else (shape[1], shape[2], shape[3])


def _picture(rows: Rows, number: int) -> Any:
    """One image of a list, a torch Dataset, or a Hugging Face Dataset with one column of images."""
    row = sample_x(rows[number])
    if isinstance(row, Mapping):
        images = [value for value in row.values() if hasattr(value, "convert")]
        return images[0] if len(images) == 1 else row
    return row


def _size(image: Any) -> tuple[int, int]:
    if hasattr(image, "convert"):
        return int(image.size[1]), int(image.size[0])
    shape = tuple(getattr(image, "shape", ()))
    return _layout((1, *shape))[:2] if len(shape) in (2, 3) else (0, 0)


def _array(image: Any) -> np.ndarray[Any, Any]:
    """One image as (3, height, width), or as it is where it is an array."""
    if hasattr(image, "convert"):
        return np.ascontiguousarray(np.asarray(image.convert("RGB")).transpose(2, 0, 1))
    return np.asarray(image)


def _resized(image: Any, side: int) -> Any:
    """Pillow images brought to a size; arrays are brought to it by the encoder where all have one."""
    if hasattr(image, "convert"):
        return image.convert("RGB").resize((side, side), resample=2)
    x = _scaled(torch.from_numpy(np.asarray(image)[None]))
    sized = torch.nn.functional.interpolate(x, (side, side), mode="bilinear", antialias=side < x.shape[2])
    return sized[0].round().to(torch.uint8).numpy()
