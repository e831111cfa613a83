"""Crossed shared data: more rows for agents to agree on, made by everyone from the shared rows and the seed.

Tables are crossed column by column, images by a rectangle, texts sentence by sentence. Nothing of it is sent.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from consilience.base.crossed_rows import CrossedRows
from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows, as_rows, count, take
from consilience.core.crossed import coins, crossed, pairs, rectangles
from consilience.data.columns import Column, read_columns
from consilience.tasks.protocol import Array

_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def crossed_rows(shared: Rows, number: int, seed: int, columns: Sequence[Column] = ()) -> Rows:
    """`number` crossed rows of the kind of the shared ones; an error that says why for data that cannot be crossed.

    Args:
        shared: The shared rows.
        number: How many to make.
        seed: The seed; with the same shared rows and seed everyone makes the same.
        columns: What the columns of a table or an array hold, where that is known.
    """
    shared = as_rows(shared)
    problem = why_not(shared, columns)
    if problem:
        raise ConsilienceError(f"the shared data cannot be crossed: {problem}. Set crossed=0.")
    a, b = pairs(count(shared), number, seed)
    if hasattr(shared, "detach"):
        import torch

        return torch.from_numpy(_arrays(shared.detach().cpu().numpy(), a, b, seed))
    if hasattr(shared, "iloc"):
        return _table(shared, a, b, seed, columns)
    if isinstance(shared, np.ndarray) and shared.dtype.kind in "biuf":
        return _arrays(shared, a, b, seed)
    texts = _texts([str(text) for text in shared], a, b, seed)
    return np.array(texts, dtype=shared.dtype) if isinstance(shared, np.ndarray) else texts


def why_not(shared: Rows, columns: Sequence[Column] = ()) -> str:
    """Why these rows cannot be crossed; empty if they can."""
    if count(shared) < 2:
        return "there are fewer than two of them"
    if hasattr(shared, "iloc"):
        used = [column for column in _columns(shared, columns) if column.used]
        alone = len(used) == 1 and used[0].kind != "text"
        return f"their only column that is used, {used[0].name!r}, is no text" if alone else ""
    shape = tuple(getattr(shared, "shape", ()))
    if shape and (hasattr(shared, "detach") or getattr(getattr(shared, "dtype", None), "kind", "") in set("biuf")):
        if len(shape) == 2 and shape[1] > 1:
            return "they are sparse" if hasattr(shared, "tocsr") else ""
        images = len(shape) in (3, 4) and min(_image_sides(shape)) > 1
        return "" if images else f"a row of the shape {shape[1:]} is neither an image nor several numbers"
    plain = isinstance(shared, list | np.ndarray)
    return "" if plain and _are_texts(shared) else f"they are a {type(shared).__name__}, no array, table or texts"


def crossed_in_features(shared: Rows, number: int, seed: int) -> CrossedRows:
    """The shared rows and `number` crossed ones, of which every agent makes the features from those of the shared."""
    a, b = pairs(count(shared), number, seed)
    own = np.arange(count(shared))
    keys = np.concatenate([np.zeros_like(own), np.arange(number)])
    return CrossedRows(shared, np.concatenate([own, a]), np.concatenate([own, b]), keys, seed)


def _arrays(x: Array, a: Array, b: Array, seed: int) -> Array:
    """By column, or for images by rectangles, which are the same in all channels."""
    if x.ndim == 2:
        return crossed(x, a, b, coins(len(a), x.shape[1], seed))
    inside = rectangles(len(a), *_image_sides(x.shape), seed)
    if x.ndim == 4:
        inside = inside[..., None] if _channels_last(x.shape) else inside[:, None]
    return np.where(inside, x[b], x[a])


def _channels_last(shape: tuple[int, ...]) -> bool:
    return shape[-1] in (1, 3) and shape[1] not in (1, 3)


def _image_sides(shape: tuple[int, ...]) -> tuple[int, int]:
    """Height and width of images (rows, height, width) with channels, if any, before or after."""
    last = len(shape) == 4 and _channels_last(shape)
    return (shape[1], shape[2]) if last else (shape[-2], shape[-1])


def _columns(table: Any, columns: Sequence[Column]) -> Sequence[Column]:
    return columns or read_columns(table if table.ndim == 2 else table.to_frame())


def _table(table: Any, a: Array, b: Array, seed: int, columns: Sequence[Column]) -> Any:
    """Each column from one of two rows, with its type; where there is but one column of texts, by sentences."""
    import pandas as pd

    used = [column for column in _columns(table, columns) if column.used]
    if len(used) == 1:
        made = take(table, a).reset_index(drop=True)
        own = table if table.ndim == 1 else table[used[0].name]
        values = pd.Series(_texts(own.astype(str).tolist(), a, b, seed), dtype=own.dtype, name=own.name)
        return values if table.ndim == 1 else made.assign(**{used[0].name: values})
    from_b = coins(len(a), table.shape[1], seed)
    index = np.where(from_b, b[:, None], a[:, None])
    return pd.concat([table.iloc[index[:, at], at].reset_index(drop=True) for at in range(table.shape[1])], axis=1)


def _are_texts(rows: Any) -> bool:
    return all(isinstance(row, str) for row in rows)


def _texts(texts: list[str], a: Array, b: Array, seed: int) -> list[str]:
    """The k-th sentence of one of two texts by a coin, for all k; of texts of one sentence each, the k-th half."""
    from consilience.core.streams import stream

    draw, parts = stream(seed, "crossed texts"), [_SENTENCE.split(text.strip()) for text in texts]
    made = []
    for first, second in zip(a.tolist(), b.tolist(), strict=True):
        own, other = parts[first], parts[second]
        if max(len(own), len(other)) == 1:
            own, other = _halves(own[0]), _halves(other[0])
        longest = max(len(own), len(other))
        from_b = draw.integers(0, 2, longest, dtype=np.bool_)
        sentences = [(other if from_b[k] else own)[k : k + 1] for k in range(longest)]
        made.append(" ".join(sentence for chosen in sentences for sentence in chosen) or own[0])
    return made


def _halves(text: str) -> list[str]:
    words = text.split()
    return [" ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])]
