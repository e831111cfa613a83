"""Samples in a question to a peer, as bytes: an array of numbers, or the columns of a table.

Their form follows from the shared data, which all members have: nothing that a peer sends can change it.
"""

import json
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any, final

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows
from consilience.data.columns import read_columns
from consilience.federation.peers.untrusted_input import InvalidInput, strict
from consilience.tasks.protocol import Array

if TYPE_CHECKING:
    import pandas as pd

LARGEST = 1_000_000
"""Bytes of the samples in a question, at most."""
SLACK = 1e6
"""Numbers in a sample may be larger than the largest of the shared data by this factor."""
MOST_ROWS = 1000
"""Rows of a table in one question, at most."""


class QuestionError(InvalidInput):
    """Why a question or an answer is not accepted. Its text is one of a few and holds nothing that a peer wrote."""


def sample_format(shared: Rows) -> "ArrayFormat | TableFormat":
    """The wire format of samples such as the shared ones."""
    if hasattr(shared, "iloc"):
        return TableFormat(shared)
    if not isinstance(shared, np.ndarray) or shared.dtype.kind not in "fiub":
        raise ConsilienceError(
            "a collective prediction is for samples of numbers, or rows of a table; these sites share something else."
        )
    return ArrayFormat(shared)


@final
class ArrayFormat:
    """Arrays of the shape and the type of the shared data, in a known number of bytes."""

    def __init__(self, shared: Array) -> None:
        self.shape, self.dtype = shared.shape[1:], shared.dtype.newbyteorder("<")
        self.sample_bytes = prod(self.shape) * self.dtype.itemsize
        self.at_once = LARGEST // max(1, self.sample_bytes)
        """Samples in one question, at most."""
        self.largest_number = np.inf
        """Numbers in samples are not larger than this."""
        floats = shared.dtype.kind == "f"
        self.largest_number = SLACK * float(np.nanmax(np.abs(shared), initial=1.0)) if floats else np.inf
        if not self.at_once:
            raise ConsilienceError(f"a sample has {self.sample_bytes} bytes; a question holds at most {LARGEST}.")

    def batches(self, samples: Array) -> Iterator[Array]:
        """The samples in batches, each of which fits into a question."""
        if samples.shape[1:] != self.shape:
            raise ConsilienceError(f"a sample has the shape {samples.shape[1:]}, one of the shared data {self.shape}.")
        return (samples[start : start + self.at_once] for start in range(0, len(samples), self.at_once))

    def encode(self, samples: Array) -> bytes:
        """Samples as bytes."""
        return np.ascontiguousarray(samples, dtype=self.dtype).tobytes()

    @strict
    def decode(self, data: bytes, rows: int) -> Array:
        """The samples in some bytes, which must be `rows`; a QuestionError if they are anything else."""
        if not 0 < rows <= self.at_once or len(data) != rows * self.sample_bytes:
            raise QuestionError("wrong length")
        x = np.frombuffer(data, dtype=self.dtype).reshape(rows, *self.shape)
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            raise QuestionError("values that are not finite")
        return x.astype(self.dtype.newbyteorder("="))

    def in_range(self, samples: Array) -> bool:
        """Whether a model can be expected to take the samples: 3e38 is a number, and overflows in most of them."""
        return self.largest_number == np.inf or bool((np.abs(samples) <= self.largest_number).all())


@final
class TableFormat:
    """The columns of a table that are features, as JSON: numbers, words, and null for gaps.

    Columns that only number the rows, or have one value, stay at home; a peer has them as gaps.
    """

    def __init__(self, shared: "pd.DataFrame") -> None:
        self.names = [str(name) for name in shared.columns]
        columns = read_columns(shared)
        self.sent = [column.name for column in columns if column.used]
        self.numbers = {name for name in self.sent if shared[name].dtype.kind in "iufb"}
        """Columns that travel as numbers; of all others, the values are words."""
        largest = [float(shared[name].abs().max()) for name in self.numbers if shared[name].dtype.kind != "b"]
        self.largest_number = SLACK * max([1.0, *(number for number in largest if np.isfinite(number))])

    def batches(self, samples: "pd.DataFrame") -> "Iterator[pd.DataFrame]":
        """The samples in batches, each of which fits into a question."""
        rest = [samples[self.sent]]
        while rest:
            batch = rest.pop()
            if len(batch) <= MOST_ROWS and len(self.encode(batch)) <= LARGEST:
                yield batch
            elif len(batch) == 1:
                raise ConsilienceError(f"a row of the samples has more than the {LARGEST} bytes of a question.")
            else:
                half = len(batch) // 2
                rest += [batch.iloc[half:], batch.iloc[:half]]

    def encode(self, samples: "pd.DataFrame") -> bytes:
        """Samples as bytes."""
        columns = {name: [self._value(name, value) for value in samples[name]] for name in self.sent}
        return json.dumps(columns, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

    @strict
    def decode(self, data: bytes, rows: int) -> "pd.DataFrame":
        """The samples in some bytes, which must be `rows`; a QuestionError if they are anything else."""
        import pandas as pd

        if not 0 < rows <= MOST_ROWS:
            raise QuestionError("wrong length")
        try:
            columns = json.loads(data, parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise QuestionError("not a table") from None
        if not isinstance(columns, dict) or list(columns) != self.sent:
            raise QuestionError("not the columns of the shared data")
        for name, values in columns.items():
            if not isinstance(values, list) or len(values) != rows:
                raise QuestionError("columns of the wrong length")
            if not all(value is None or type(value) in self._types(name) for value in values):
                raise QuestionError("values of the wrong kind")
        words = {name: np.array(columns.get(name, [None] * rows), dtype=object) for name in self.names}
        return pd.DataFrame(words | {name: _floats(columns[name]) for name in self.names if name in self.numbers})

    def in_range(self, samples: "pd.DataFrame") -> bool:
        """Whether a model can be expected to take the samples."""
        numbers = samples[[name for name in self.sent if name in self.numbers]].to_numpy(np.float64, na_value=np.nan)
        return bool((np.isnan(numbers) | (np.abs(numbers) <= self.largest_number)).all())

    def _types(self, name: str) -> tuple[type, ...]:
        return (int, float) if name in self.numbers else (str,)

    def _value(self, name: str, value: Any) -> float | str | None:
        if value is None or value != value:  # a gap
            return None
        if name not in self.numbers:
            return str(value)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise ConsilienceError(
                f"the column {name!r} of the samples holds {str(value)[:40]!r}; in the shared data it has numbers."
            ) from None


def _floats(values: list[Any]) -> Array:
    """Numbers with NaN for gaps."""
    try:
        numbers = np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
    except OverflowError:  # a whole number beyond every float
        raise QuestionError("values that are not finite") from None
    if np.isinf(numbers).any():
        raise QuestionError("values that are not finite")
    return numbers


def _no_number(word: str) -> float:
    raise ValueError(word)
