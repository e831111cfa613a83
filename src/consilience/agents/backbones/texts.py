"""Texts of any kind as a list."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows


def texts_of(who: str, rows: Rows) -> list[str]:
    """A list or an array of texts, or the one column of a table that holds texts."""
    column: Any = rows
    if hasattr(rows, "iloc"):
        column = rows if rows.ndim == 1 else rows[_text_column(who, {str(n): rows[n] for n in rows.columns})]
        column = column.fillna("") if hasattr(column, "fillna") else column
    elif hasattr(rows, "column_names"):
        column = rows[_text_column(who, {name: rows[:1][name] for name in rows.column_names})]
    elif isinstance(rows, Mapping):
        column = rows[_text_column(who, dict(rows))]
    texts = column.tolist() if hasattr(column, "tolist") else list(column)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            shape = tuple(np.shape(text)) if hasattr(text, "shape") or isinstance(text, list) else ()
            what = f"an array of the shape {shape}" if shape else f"a {type(text).__name__}"
            raise ConsilienceError(
                f"{who}: the backbone takes texts, and row {number} is {what}. Use a backbone for images, such as "
                "efficientnet-lite0, or another model."
            )
    return texts


def _text_column(who: str, columns: dict[str, Any]) -> str:
    """The name of the only column that holds texts."""
    names = [name for name, values in columns.items() if isinstance(next(iter(values), None), str)]
    if len(names) != 1:
        held = ", ".join(names) if names else "none"
        raise ConsilienceError(
            f"{who}: the backbone reads one column of texts, and of the table's {len(columns)} columns {held} hold "
            "such. Leave out the others, with data.drop."
        )
    return names[0]
