"""What the columns of a table hold: numbers, categories, dates, texts, identifiers or a single value."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.options import hint

if TYPE_CHECKING:
    import pandas as pd

TYPES = ("number", "category", "date", "text")
"""Kinds that a user may ask for."""
KINDS = (*TYPES, "identifier", "constant")
MOST_CATEGORIES = 30
"""Values of a category that get a feature of their own; the rarest share one."""
_FEW = 10
"""Rows below which different values do not make a column an identifier."""
_MOSTLY = 0.9
"""Share of numbers above which a column of words is a column of numbers with some words in it."""
_IDENTIFIER = re.compile(r"(^|.*[_\s.-])(id|ids|uuid|guid|mrn|nr|no|key|index)$|^unnamed: \d+$|.*[a-z]Id$|.*[a-z]ID$")
_DATES = {
    "ISO8601": (r"\d{4}-\d{2}-\d{2}([T ].*)?", "year-month-day"),
    "%Y/%m/%d": (r"\d{4}/\d{1,2}/\d{1,2}", "year/month/day"),
    "%d.%m.%Y": (r"\d{1,2}\.\d{1,2}\.\d{4}", "day.month.year"),
    "%d/%m/%Y": (r"\d{1,2}/\d{1,2}/\d{4}", "day/month/year"),
    "%m/%d/%Y": (r"\d{1,2}/\d{1,2}/\d{4}", "month/day/year"),
    "%d-%m-%Y": (r"\d{1,2}-\d{1,2}-\d{4}", "day-month-year"),
}
"""Formats of dates, each with a pattern and a name."""
DATE_FORMATS = tuple(_DATES)


@dataclass(frozen=True)
class Column:
    """One column of a table: what it holds and what is done with it."""

    name: str
    kind: str
    """One of `KINDS`."""
    gaps: int = 0
    """Missing values."""
    used: bool = True
    """Whether it is a feature."""
    action: str = ""
    """What is done with it, in words."""
    asked: bool = False
    """Whether the user chose the kind: then values of another kind are gaps, and not errors."""
    date_format: str = ""
    """The format of dates that are texts; empty for other columns."""

    def line(self, more_gaps: str = "") -> str:
        """One line on the column, without its name; `more_gaps` follows the number of gaps."""
        gaps = "no gaps" if not self.gaps else "1 gap" if self.gaps == 1 else f"{self.gaps} gaps"
        return f"{self.kind}, {gaps}{more_gaps}" + (f": {self.action}" if self.action else "")

    def read_otherwise(self, action: str) -> "Column":
        """The same column where something other than `data/preprocess.py` reads it."""
        return replace(self, used=True, action=action, asked=True)


def read_columns(
    table: "pd.DataFrame", types: Mapping[str, str] | None = None, drop: Sequence[str] = ()
) -> tuple[Column, ...]:
    """The columns of a table in their order.

    Args:
        table: Rows as pandas reads them.
        types: Kinds that the user asks for, by column; they overrule what the values look like.
        drop: Columns that the user does not want as features.
    """
    names = [str(name) for name in table.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConsilienceError(f"several columns are called {twice!r}. Give each a name of its own.")
    for setting, columns in (("types", types or {}), ("drop", drop)):
        for name in columns:
            if name not in names:
                raise ConsilienceError(
                    f"data.{setting} names the column {name!r}. {hint(name, names)}The columns are {', '.join(names)}."
                )
    return tuple(_column(table[name], (types or {}).get(str(name), ""), str(name) in drop) for name in table.columns)


def chosen_columns(table: "pd.DataFrame", names: Sequence[str], where: object = "the table") -> "pd.DataFrame":
    """The columns of these names, in this order; an error that names the table if some are missing."""
    missing = [name for name in names if name not in table.columns]
    if missing:
        has = ", ".join(map(str, table.columns))
        raise ConsilienceError(f"{where} has no column {', '.join(map(repr, missing))}. It has: {has}.")
    return table[list(names)]


def brief_list(words: Sequence[str], most: int = 12) -> str:
    """The first words, and how many more there are.

    >>> brief_list(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def plain_values(values: "pd.Series[Any]", column: Column) -> "pd.Series[Any]":
    """The values of a column as its kind has them: floats with NaN for gaps, or texts.

    Numbers and dates become floats (dates as days since 1970); categories and texts become strings. A value of another
    kind is an error, or a gap where the user asked for the kind.
    """
    import pandas as pd

    if column.kind in ("category", "text"):
        gap = "missing" if column.kind == "category" else ""
        words = values.map(_word, na_action="ignore") if values.dtype.kind in "fc" else values
        return words.astype(object).where(values.notna(), gap).astype(str)
    if column.kind == "date":
        dates = _dates(values, column.date_format)
        plain = (dates - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    else:
        single = pd.to_numeric(values, errors="coerce").astype(np.float32)  # as arrays of numbers have them
        plain = single.astype(np.float64).where(np.isfinite(single))
    unread = (plain.isna() & values.notna()).to_numpy()
    if unread.any() and not column.asked:
        row = int(unread.argmax())
        raise ConsilienceError(
            f"the table cannot be read as the shared data are: the column {column.name!r} holds {column.kind}s, and "
            f"row {row} has {str(values.iloc[row])!r}. Correct it, or empty the cell: then it is a gap."
        )
    return plain


def is_identifier(values: "pd.Series[Any]") -> bool:
    """Whether the values seem to identify rows and nothing else."""
    return _kind(values)[0] == "identifier"


def holds_texts(values: "pd.Series[Any]") -> bool:
    """Whether there are values, and all of them are texts."""
    present = values.dropna()
    return bool(len(present)) and all(isinstance(value, str) for value in present)


def words_among_numbers(values: "pd.Series[Any]") -> "list[int]":
    """The numbers of the rows with words, in a column of numbers with few words; empty for other columns."""
    import pandas as pd

    if values.dtype.kind in "iufbM" or not _is_words(values):
        return []
    present = values.notna().to_numpy()
    numbers = pd.to_numeric(values.astype(object).where(present), errors="coerce").notna().to_numpy()
    words = np.flatnonzero(present & ~numbers)
    return words.tolist() if len(words) and numbers.sum() >= _MOSTLY * present.sum() else []


def _column(values: "pd.Series[Any]", asked: str, dropped: bool) -> Column:
    kind, date_format = _kind(values)
    if asked == "date":
        date_format = date_format or _date_format(values, most=True)
    kind, name = asked or kind, str(values.name)
    gaps = int(values.isna().sum())
    if asked in ("number", "date"):
        gaps = int(plain_values(values, Column(name, asked, asked=True, date_format=date_format)).isna().sum())
    reason = {
        "identifier": "not used: every value is different",
        "constant": "not used: it has no values" if gaps == len(values) else "not used: it has one value only",
    }.get(kind, "")
    reason = "not used: left out by data.drop" if dropped else reason
    return Column(
        name=name,
        kind=kind,
        gaps=gaps,
        used=not reason,
        action=reason or _action(values, kind, gaps, date_format),
        asked=bool(asked),
        date_format=date_format if kind == "date" else "",
    )


def _action(values: "pd.Series[Any]", kind: str, gaps: int, date_format: str) -> str:
    filled = "; gaps become the median and are marked" if gaps else ""
    if kind == "number":
        return f"scaled{filled}"
    if kind == "date":
        written = f" (read as {_DATES[date_format][1]})" if date_format else ""
        return f"days since 1970, scaled{written}{filled}"
    if kind == "text":
        return "tf-idf of its words"
    different = int(values.nunique()) + bool(gaps)
    rare = f"; the rarest of {different} share one" if different > MOST_CATEGORIES else ""
    return f"0 or 1 for each of {min(different, MOST_CATEGORIES)} values{rare}" + (
        "; gaps are one of them" * bool(gaps)
    )


def _kind(values: "pd.Series[Any]") -> tuple[str, str]:
    """The kind of a column by its values, and how its dates are written."""
    present = values.dropna()
    different = int(present.nunique()) if _is_hashable(present) else len(present)
    if different == 0 or (different == 1 and len(present) == len(values) and len(values) > 1):
        return "constant", ""
    if values.dtype.kind == "M":
        return "date", ""
    if values.dtype.kind in "iufb":
        return ("identifier" if _is_numbering(values) else "number"), ""
    date_format = _date_format(values)
    if date_format:
        return "date", date_format
    words = present.astype(str).map(lambda text: len(text.split()))
    if words.mean() >= 3 and (different > len(present) / 2 or different > MOST_CATEGORIES):
        return "text", ""
    if different == len(present) >= _FEW and not words_among_numbers(values):
        return "identifier", ""
    return "category", ""


def _is_numbering(values: "pd.Series[Any]") -> bool:
    """Whether different whole numbers only number the rows: the name says so, or they are consecutive."""
    present = values.dropna()
    if values.dtype.kind not in "iuf" or len(values) < _FEW or not present.is_unique or not (present % 1 == 0).all():
        return False
    return (
        bool(_IDENTIFIER.match(str(values.name)) or _IDENTIFIER.match(str(values.name).lower()))
        or int(present.max()) - int(present.min()) == len(present) - 1
    )


def _date_format(values: "pd.Series[Any]", most: bool = False) -> str:
    """How the dates of a column are written, if all of its texts are dates (or `most` of them); otherwise empty."""
    if not _is_words(values):
        return ""
    texts = values.dropna().astype(str).str.strip()
    for date_format, (form, _) in _DATES.items():
        fits = texts.str.fullmatch(form)
        if len(texts) and (fits.mean() >= 0.5 if most else fits.all()):
            read = _dates(texts[fits], date_format)
            if read.notna().mean() >= (0.5 if most else 1):
                return date_format
    return ""


def _dates(values: "pd.Series[Any]", date_format: str) -> "pd.Series[Any]":
    """Dates without a time zone; NaT for other values."""
    import pandas as pd

    form: dict[str, Any] = {"format": date_format} if date_format and values.dtype.kind != "M" else {}
    texts = values if values.dtype.kind == "M" else values.astype(object).where(values.notna(), None)
    if not form and values.dtype.kind != "M":
        form = {"format": "ISO8601"}
    read = pd.to_datetime(texts, errors="coerce", utc=True, **form)
    return pd.Series(read, index=values.index).dt.tz_localize(None)


def _is_words(values: "pd.Series[Any]") -> bool:
    """Whether a column holds texts, categories or objects, and no numbers, dates or flags."""
    return values.dtype.kind not in "iufbMmc"


def _is_hashable(values: "pd.Series[Any]") -> bool:
    return not any(isinstance(value, list | dict | np.ndarray) for value in values.iloc[:1])


def _word(value: float) -> str:
    """A number as a category: 1.0, which is how pandas reads 1 in a column with gaps, is 1."""
    return str(int(value)) if value == int(value) else str(value)
