"""CSV files as people have them: other separators than commas, decimal commas, and encodings other than UTF-8."""

import csv
import io
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from consilience.base.errors import ConsilienceError

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
REPEATED = "columns are called"
"""Part of a sentence on columns of one name."""
_HEAD = 65536
"""Bytes by which separator and encoding are recognised."""
_COMMA_NUMBER = r"\s*[+-]?\d+(,\d+)?\s*"


def read_csv(path: Path, words: Sequence[str] = ()) -> "tuple[pd.DataFrame, list[str]]":
    """The table in a file, and a sentence on everything unusual about how it was read.

    A question mark is a missing value, too. The columns `words` are read as texts, whatever they look like.
    """
    import pandas as pd

    encoding = _encoding(path)
    head = _head(path, encoding)
    separator = _separator(head)
    how: dict[str, Any] = {"sep": separator, "na_values": ["?"], "encoding": encoding}
    how["dtype"] = dict.fromkeys(words, str)
    try:
        table = pd.read_csv(path, **how)
    except pd.errors.EmptyDataError:
        raise ConsilienceError(f"{path} is empty.") from None
    except pd.errors.ParserError as error:
        if not (counts := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))):
            raise
        raise ConsilienceError(
            f"{path}: line {counts[2]} has {counts[3]} values, and the lines before it have {counts[1]}. Values that "
            "hold a separator belong in quotation marks."
        ) from None
    names, *first = [*islice(csv.reader(head, delimiter=separator), 2)] or [[]]
    if first and len(first[0]) > len(names):  # pandas would take the first column for an index
        raise ConsilienceError(f"{path}: the rows have more values than the header has names. Name every column.")
    notes = [f"{path.name} is read as {_SHOWN[encoding]}."] if encoding != "utf-8-sig" else []
    if separator != ",":
        decimal = any(_has_decimal_commas(table[name]) for name in table.columns)
        table = pd.read_csv(path, **how, decimal=",") if decimal else table
        comma = " and numbers have a decimal comma" if decimal else ""
        notes.append(f"{path.name}: columns are separated by {SEPARATORS[separator]}{comma}.")
    for name in dict.fromkeys(name for name in names if name and names.count(name) > 1):
        others = ", ".join(repr(f"{name}.{number}") for number in range(1, names.count(name)))
        notes.append(
            f"{path.name}: {names.count(name)} {REPEATED} {name!r}; the first keeps the name, and the "
            f"{'other is' if names.count(name) == 2 else 'others are'} read as {others}."
        )
    return table, notes


_SHOWN = {
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
    "cp1252": "Latin-1 (Windows-1252)",
    "latin-1": "Latin-1",
}


def _encoding(path: Path) -> str:
    """UTF-8 with or without a mark at the start, UTF-16, or else Latin-1, in which every byte is a character."""
    with path.open("rb") as file:
        start = file.read(_HEAD)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    if len(start) > 3 and start[1::2].count(0) > len(start) / 4:
        return "utf-16-le"
    if len(start) > 3 and start[::2].count(0) > len(start) / 4:
        return "utf-16-be"
    for encoding in ("utf-8-sig", "cp1252"):
        try:
            with path.open(encoding=encoding, newline="") as text:
                while text.read(_HEAD):
                    pass
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"


def _head(path: Path, encoding: str) -> list[str]:
    with path.open(encoding=encoding, newline="") as file:
        return list(islice(io.StringIO(file.read(_HEAD), newline=""), 50))


def _separator(head: list[str]) -> str:
    """The separator by which the first rows have the same number of values, more than one; commas if in doubt."""
    best, most = ",", 1
    for separator in SEPARATORS:
        widths = [len(row) for row in csv.reader(head[:-1] if len(head) > 2 else head, delimiter=separator) if row]
        if widths and len(set(widths)) == 1 and widths[0] > most:
            best, most = separator, widths[0]
    return best


def _has_decimal_commas(values: "pd.Series[Any]") -> bool:
    """Whether a column holds nothing but numbers with commas in them."""
    if values.dtype.kind in "iufb":
        return False
    texts = values.dropna().astype(str)
    return bool(len(texts) and texts.str.fullmatch(_COMMA_NUMBER).all() and texts.str.contains(",").any())
