"""Error messages for rows that a model cannot read: where, and what to do."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from consilience.agents.protocol import Agent
from consilience.base.errors import ConsilienceError
from consilience.base.rows import Array, Rows, count

_ABOUT_WORDS = re.compile(r"could not convert string|dtype|categor|non-?numeric|'?str'? ", re.IGNORECASE)
_ABOUT_GAPS = re.compile(r"\bnan\b|infinity|\binf\b|missing value|too large for dtype", re.IGNORECASE)
_ABOUT_FOLDS = re.compile(r"n_splits|number of splits|\bfolds?\b|members in (?:each|any) class", re.IGNORECASE)
FILL = "Fill the gaps first, such as with SimpleImputer in a pipeline, or leave these rows out."
_LONGEST = 40
"""Letters of a value that a message shows."""


class UnreadableRows(ConsilienceError):
    """A model cannot read the rows that an agent was given."""


@contextmanager
def rows_called(what: str) -> Iterator[None]:
    """Within it, errors about unreadable rows begin with what the rows are, such as "the shared data"."""
    try:
        yield
    except UnreadableRows as error:
        raise ConsilienceError(f"{what}: {error}") from (error.__cause__ or error)


@contextmanager
def explained(who: str, model: str, rows: Rows, own: Rows, label: str = "") -> Iterator[None]:
    """Within it, an error of a model becomes a message that says what is wrong with the rows, if that is known.

    Args:
        who: How messages call the agent.
        model: What its model is called.
        rows: The rows that the model reads, as it takes them.
        own: The agent's own rows, which it can read; or the same `rows`.
        label: The column of its labels, if they came from one.
    """
    try:
        yield
    except ConsilienceError:
        raise
    except Exception as error:
        why = "" if rows is own else different_columns(rows, own, label)
        if not why and _ABOUT_WORDS.search(str(error)):
            why = _words(model, rows, str(error))
        if not why and _ABOUT_GAPS.search(str(error)):
            why = _no_gaps(model, rows)
        if not why and _ABOUT_FOLDS.search(str(error)):
            why = (
                f"{model} splits its {count(rows)} rows into more parts than there are rows, or rows of a class "
                f"({_first_line(error)}). Use fewer folds, such as cv=2, or leave the search out."
            )
        if not why:
            raise
        raise UnreadableRows(f"{who}: {why}") from error


def refuse_gaps(agent: Agent, f: Array, rows: Rows) -> None:
    """Refuses predictions `f` that are not finite because values are missing in `rows`."""
    f = np.asarray(f)
    if f.dtype.kind == "f" and not np.isfinite([f.min(initial=0), f.max(initial=0)]).all():
        why = _no_gaps(agent.kind, rows)
        if why:
            raise UnreadableRows(f"agent {agent.name!r}: {why}")


def different_columns(rows: Rows, own: Rows, label: str = "") -> str:
    """How the columns, or the width, of `rows` differ from those of an agent's own; empty where they do not."""
    if hasattr(rows, "columns") and hasattr(own, "columns"):
        missing = [name for name in own.columns if name not in rows.columns]
        more = [name for name in rows.columns if name not in own.columns]
        if missing:
            return f"there is no column {missing[0]!r}, which the agent's own rows have."
        if label and label in more:
            return f"the column {label!r} holds the labels. Leave it out: rows.drop(columns={label!r})."
        if more:
            return (
                f"the agent's own rows have no column {more[0]!r}. Leave it out if it holds the labels or is no "
                f"feature: rows.drop(columns={more[0]!r})."
            )
        return ""
    shapes = [tuple(getattr(table, "shape", ()))[1:] for table in (rows, own)]
    if shapes[0] == shapes[1] or not all(shapes):
        return ""
    theirs, ours = (str(shape[0]) if len(shape) == 1 else " x ".join(map(str, shape)) for shape in shapes)
    return f"these rows have {theirs} values each, the agent's own {ours}. Give the same features, in the same order."


def in_order(rows: Rows, own: Rows) -> Rows:
    """`rows`, with the columns of a table in the order of the agent's `own` where they are the same columns."""
    if not hasattr(rows, "columns") or not hasattr(own, "columns") or rows.columns.equals(own.columns):
        return rows
    return rows[list(own.columns)] if sorted(map(str, rows.columns)) == sorted(map(str, own.columns)) else rows


def first_gap(rows: Rows) -> str:
    """Where the first value is missing or infinite, as the beginning of a sentence; empty if none is known to be."""
    if hasattr(rows, "iloc"):
        names = list(rows.columns) if rows.ndim == 2 else [rows.name]
        columns = [rows.iloc[:, index] if rows.ndim == 2 else rows for index in range(len(names))]
        gaps = [column.isna().to_numpy() for column in columns]
        infinite = [
            np.isinf(column.to_numpy(np.float64, na_value=np.nan))
            if column.dtype.kind in "iuf"
            else np.zeros(len(rows), dtype=bool)
            for column in columns
        ]
        for name, missing, beyond in zip(names, gaps, infinite, strict=True):
            if missing.any() or beyond.any():
                bad = missing | beyond
                row = int(bad.argmax())
                what = "has no value" if missing[row] else "is infinite"
                return f"the column {name!r} {what} in row {row}{_more_rows(bad)}"
        return ""
    array = rows.detach().cpu().float().numpy() if hasattr(rows, "detach") else rows
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fO":
        return ""
    try:
        bad = ~np.isfinite(array.astype(np.float64))
    except (TypeError, ValueError):  # words among the values
        return ""
    if not bad.any():
        return ""
    row, *position = np.argwhere(bad)[0].tolist()
    what = "an infinite value" if np.isinf(float(array[(row, *position)])) else "no value"
    column = f" in column {', '.join(map(str, position))}" if position else ""
    return f"row {row} has {what}{column}{_more_rows(np.asarray(bad.reshape(len(bad), -1).any(axis=1)))}"


def _more_rows(bad: Array) -> str:
    more = int(bad.sum()) - 1
    return f" (and {more} more row{'s' if more > 1 else ''})" if more else ""


def _no_gaps(model: str, rows: Rows) -> str:
    gap = first_gap(rows)
    if "infinite" in gap:
        return f"{gap}. Correct it, or leave these rows out."
    return f"{gap}, and {model} takes no gaps. {FILL}" if gap else ""


def _words(model: str, rows: Rows, message: str) -> str:
    """The sentence on rows that are texts, or columns that hold words; empty where neither is found."""
    if isinstance(rows, list) or getattr(rows, "ndim", 0) == 1:
        first = next(iter(rows), None)
        if not isinstance(first, str):
            return ""
        return (
            f"the rows are texts, and {model} takes numbers. Put a vectoriser before it: "
            f"make_pipeline(TfidfVectorizer(), {model}(...))."
        )
    columns = _columns_of_words(rows)
    if not columns:
        return ""
    named = next((name for name, words in columns.items() if any(repr(word)[1:-1] in message for word in words)), None)
    name = next(iter(columns)) if named is None else named
    word = next((word for word in columns[name] if repr(word)[1:-1] in message), columns[name][0])
    shown = word if len(word) <= _LONGEST else f"{word[:_LONGEST]}..."
    return (
        f"the column {name!r} holds words ({shown!r}), and {model} takes numbers. Put an encoder before it: "
        f"make_pipeline(make_column_transformer((OneHotEncoder(handle_unknown='ignore'), [{name!r}]), "
        f"remainder='passthrough'), {model}(...)); or leave the column out."
    )


def _columns_of_words(rows: Rows) -> dict[Any, list[str]]:
    """By name, or by number where there are no names, the different words of the columns that hold some."""
    if hasattr(rows, "columns"):
        by_name = {name: rows.iloc[:, index] for index, name in enumerate(rows.columns)}
        columns = {name: column.tolist() for name, column in by_name.items() if column.dtype.kind not in "biufcmM"}
    elif isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype.kind in "OU":
        columns = {number: rows[:, number].tolist() for number in range(rows.shape[1])}
    else:
        return {}
    words = {name: list(dict.fromkeys(v for v in values if _is_word(v))) for name, values in columns.items()}
    return {name: different for name, different in words.items() if different}


def _is_word(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__
