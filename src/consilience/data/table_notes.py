"""Notes on a table before a run: one line for each column, and warnings about what may go wrong."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from consilience.base.rows import Array
from consilience.data.columns import Column, brief_list, is_identifier, plain_values, read_columns, words_among_numbers
from consilience.data.csv_files import REPEATED

if TYPE_CHECKING:
    import pandas as pd

MOST_LINES = 40
"""Up to this number, each column has a line of its own; beyond, columns that are read alike share one."""
GIVES_AWAY = 0.98
"""Balanced accuracy, or squared correlation, from which a single column seems to hold the label."""
_MOST_ROWS = 4000
"""Rows that are used to test whether a column gives the label away."""
_FEWEST_ROWS = 20
_SHOWN = 4
"""Values of a category that a warning shows."""


def column_lines(columns: Sequence[Column], gaps: Mapping[str, str] | None = None) -> list[str]:
    """One line for each column: its name, what it holds, the number of gaps, and what is done with it.

    Args:
        columns: The columns of a table.
        gaps: More on a column's gaps than their number, by the column's name.
    """
    lines = {column.name: column.line((gaps or {}).get(column.name, "")) for column in columns}
    if len(columns) <= MOST_LINES:
        return [f"{name}: {line}" for name, line in lines.items()]
    alike: dict[str, list[str]] = {}
    for name, line in lines.items():
        alike.setdefault(line, []).append(name)
    return [f"{_listed(names)}: {line}" for line, names in alike.items()]


def apart(notes: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits the notes on how a file was read: notes, and warnings about columns of the same name."""
    return [text for text in notes if REPEATED not in text], [text for text in notes if REPEATED in text]


def table_warnings(
    table: "pd.DataFrame",
    columns: Sequence[Column],
    y: Array | None = None,
    task: str = "",
    prefix: str | None = "data.",
    row_name: Callable[[int], str] = "row {}".format,
) -> list[str]:
    """One line for each thing about a table that may make results wrong.

    Args:
        table: The rows as they were read.
        columns: What its columns hold.
        y: Labels as the task has them; without them no column is suspected of giving the label away.
        task: The task of these labels.
        prefix: What stands before `types` and `drop` where they are set; None where there are no such settings.
        row_name: What a row is called.
    """
    warnings = []
    for column in columns:
        values, name = table[column.name], column.name
        leave_out = "leave it out" if prefix is None else f'leave it out: {prefix}drop=["{name}"]'
        words = words_among_numbers(values)
        if words:
            text, more = str(values.iloc[words[0]]), f" and {len(words) - 1} more" if len(words) > 1 else ""
            is_asked = column.asked and column.kind == "number"
            read_as = "is read as numbers, and every other value is a gap" if is_asked else f"is read as {column.kind}"
            advice = "" if prefix is None else f", or set {prefix}types.{name}=number to read it as a gap"
            warnings.append(
                f"{name} holds numbers, but {row_name(words[0])} has {text!r}{more}: the column {read_as}."
                + ("" if is_asked else f" Correct it{advice}.")
            )
        if column.used and column.asked and is_identifier(values):
            warnings.append(
                f"{name} has a different value in every row: a model that uses it may learn single rows by it. If it "
                f"only tells rows apart, {leave_out}."
            )
        if y is not None and column.used and column.kind not in ("text", "identifier", "constant"):
            share = predicts_alone(values, column, y, task)
            if share >= GIVES_AWAY:
                warnings.append(
                    f"{name} alone predicts the label almost perfectly ({100 * share:.1f} %). If it is not known "
                    f"before the label is, {leave_out}."
                )
    return warnings


def notes_on_rows(
    shared: "pd.DataFrame", tables: "Mapping[str, pd.DataFrame]", labels: Mapping[str, Array], task: str
) -> tuple[list[str], list[str]]:
    """One line for each column, and warnings, where organisations read the rows with programs of their own.

    Args:
        shared: The shared rows.
        tables: The rows of each organisation that has the same columns, by its name.
        labels: Their labels, as the task has them.
        task: The task of these labels.
    """
    columns = [column.read_otherwise("") for column in read_columns(shared)]
    warnings = table_warnings(shared, columns, prefix=None)
    for who, table in tables.items():
        warnings += [f"{who}: {text}" for text in table_warnings(table, columns, labels[who], task, None)]
    known = [column for column in columns if column.kind not in ("identifier", "constant")]
    return column_lines(columns), warnings + differing_columns(known, tables)


def predicts_alone(values: "pd.Series[Any]", column: Column, y: Array, task: str) -> float:
    """How well a column alone predicts the label on rows that were not used to learn it: 1 is perfect.

    Classes: the balanced accuracy of the most frequent class of each category, or of a small tree. Of several labels
    the one that is predicted best. Values: the squared correlation, of numbers and dates.
    """
    rows = np.unique(np.linspace(0, len(y) - 1, min(len(y), _MOST_ROWS)).astype(int))
    if len(rows) < _FEWEST_ROWS:
        return 0.0
    labels = np.asarray(y)[rows].reshape(len(rows), -1)
    plain = plain_values(values.iloc[rows], column)
    is_category = column.kind == "category"
    if task == "regression" and is_category:
        return 0.0
    if task == "regression":
        return max(_squared_correlation(plain.to_numpy(np.float64), target) for target in labels.T)
    codes = np.unique(plain.to_numpy(str), return_inverse=True)[1] if is_category else plain.to_numpy(np.float64)
    return max(_balanced_accuracy(codes, label.astype(np.int64), is_category) for label in labels.T)


def _squared_correlation(x: Array, y: Array) -> float:
    known = np.isfinite(x)
    if known.sum() < _FEWEST_ROWS or x[known].std() == 0 or y[known].std() == 0:
        return 0.0
    return float(np.corrcoef(x[known], y[known])[0, 1] ** 2)


def _balanced_accuracy(x: Array, y: Array, is_category: bool) -> float:
    """Each half of the rows is predicted from the other; classes count equally."""
    classes = int(y.max()) + 1
    if len(np.unique(y)) < 2:
        return 0.0
    half = np.random.default_rng(0).permutation(len(y)) % 2 == 0
    predicted = np.empty_like(y)
    for fit, test in ((half, ~half), (~half, half)):
        if is_category:
            counts = np.zeros((int(x.max()) + 1, classes))
            np.add.at(counts, (x[fit], y[fit]), 1)
            unseen = counts.sum(axis=1) == 0
            counts[unseen] = counts.sum(axis=0)
            predicted[test] = counts.argmax(axis=1)[x[test]]
        else:
            from sklearn.tree import DecisionTreeClassifier

            tree = DecisionTreeClassifier(max_leaf_nodes=max(8, 2 * classes), random_state=0)
            filled = np.nan_to_num(x, nan=np.nanmin(x, initial=0.0) - 1.0)[:, None]
            predicted[test] = tree.fit(filled[fit], y[fit]).predict(filled[test])
    there = np.unique(y)
    return float(np.mean([(predicted[y == label] == label).mean() for label in there]))


def differing_columns(columns: Sequence[Column], tables: "Mapping[str, pd.DataFrame]") -> list[str]:
    """Warnings about columns that one organisation fills in differently from all others.

    They have no values there, or no value in common with the others (a category), or all numbers lie below or above
    all of the others', as with another unit.

    Args:
        columns: What the columns hold.
        tables: The rows of each organisation, by its name.
    """
    import pandas as pd

    warnings = []
    for column in columns:
        if not column.used or column.kind == "text" or len(tables) < 2:
            continue
        present = {who: table[column.name].dropna() for who, table in tables.items()}
        plain = {who: plain_values(values, column).dropna() for who, values in present.items()}
        for number, (who, own) in enumerate(plain.items()):
            rest = [values for other, values in plain.items() if other != who and len(values)]
            if not rest:
                continue
            others = pd.concat(rest, ignore_index=True)
            if not len(own):
                warnings.append(f"{column.name} has no values at {who}, but elsewhere it has.")
            elif number == 1 == len(plain) - 1:
                continue  # of two, one differs from the other as the other from it
            elif column.kind == "category":
                if not set(own) & set(others) and len(own) > 1:
                    warnings.append(
                        f"{column.name}: no value at {who} ({_some(own)}) occurs elsewhere ({_some(others)}). "
                        "Is it written in the same way?"
                    )
            elif len(own) > 4 and len(others) > 4 and (own.min() > others.max() or own.max() < others.min()):
                unit = "the same dates" if column.kind == "date" else "the same unit"
                own, others = present[who], pd.concat([v for w, v in present.items() if w != who], ignore_index=True)
                warnings.append(f"{column.name}: {_range(own)} at {who}, {_range(others)} elsewhere. Is it {unit}?")
    return warnings


def class_warnings(labels: Mapping[str, Array], classes: Sequence[str]) -> list[str]:
    """Warnings about agents whose training rows all have the same class; one warning if there is one class only, or
    nearly one for each row."""
    if len(classes) == 1:
        return [f"there is one class only, {classes[0]}: nothing can be learned."]
    rows = sum(map(len, labels.values()))
    if rows and len(classes) > rows / 2:
        return [f"{rows} rows have {len(classes)} classes: nothing can be learned. For values set task=regression."]
    kinds = {who: np.unique(y) for who, y in labels.items() if len(y)}
    return [
        f"agent {who} has rows of one class only: {classes[int(own[0])]}."
        for who, own in kinds.items()
        if len(own) == 1
    ]


def _range(values: "pd.Series[Any]") -> str:
    low, high = values.min(), values.max()
    return f"{low} to {high}" if isinstance(low, str) or values.dtype.kind == "M" else f"{low:g} to {high:g}"


def _some(values: "pd.Series[Any]") -> str:
    return brief_list(list(dict.fromkeys(values)), _SHOWN)


def _listed(names: Sequence[str]) -> str:
    if len(names) <= _SHOWN:
        return ", ".join(names)
    return f"{len(names)} columns ({names[0]}, {names[1]} ... {names[-1]})"
