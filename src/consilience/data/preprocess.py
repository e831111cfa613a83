"""Tables with words, gaps, categories and dates as numbers, for models that take only those."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from consilience.errors import ConsilienceError

if TYPE_CHECKING:
    import pandas as pd

MOST_WORDS = 30
"""Different words of a column that get a column of their own; the rarest share one."""


@final
@dataclass(frozen=True)
class TablePreprocessing:
    """A table in, numbers out (rows, features). It is fitted to the table of the shared data: the same everywhere."""

    columns: tuple[str, ...]
    dates: tuple[str, ...]
    """Columns that are taken as days since 1970."""
    pipeline: Any
    """A fitted ColumnTransformer."""

    def __call__(self, table: "pd.DataFrame") -> NDArray[np.float32]:
        """Gaps filled, numbers scaled, words as zeros and ones."""
        missing = [name for name in self.columns if name not in table.columns]
        if missing:
            raise ConsilienceError(f"the table has no column {missing[0]!r}. It needs {', '.join(self.columns)}.")
        try:
            return np.asarray(self.pipeline.transform(_plain(table[list(self.columns)], self.dates)), dtype=np.float32)
        except ValueError as error:
            raise ConsilienceError(
                f"the table cannot be read as the shared data are: {error}. Are there words in a column of numbers?"
            ) from error


def table_preprocessing(shared: "pd.DataFrame") -> TablePreprocessing:
    """Numbers: gaps become the median, and a column says where they were; then mean 0 and deviation 1. Words: a column
    of zeros and ones for each, missing ones among them. Dates: days, as numbers. All as in the table `shared`.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    columns = tuple(str(name) for name in shared.columns)
    dates = tuple(name for name in columns if shared[name].dtype.kind == "M")
    numbers = [name for name in columns if shared[name].dtype.kind in "iufbM"]
    words = [name for name in columns if name not in numbers]
    fill = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    encode = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=MOST_WORDS, sparse_output=False)
    steps = [("numbers", make_pipeline(fill, StandardScaler()), numbers), ("words", encode, words)]
    return TablePreprocessing(columns, dates, ColumnTransformer(steps).fit(_plain(shared, dates)))


def _plain(table: "pd.DataFrame", dates: tuple[str, ...]) -> "pd.DataFrame":
    """Dates as days; yes and no as numbers; words as text, missing ones as a word of their own."""
    import pandas as pd

    plain: dict[str, Any] = {}
    for name in table.columns:
        column = table[name]
        if name in dates:
            plain[name] = (pd.to_datetime(column) - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
        elif column.dtype.kind == "b":
            plain[name] = column.astype(np.float64)
        elif column.dtype.kind in "iuf":
            plain[name] = column
        else:
            plain[name] = column.astype(object).where(column.notna(), "missing").astype(str)
    return pd.DataFrame(plain, index=table.index)
