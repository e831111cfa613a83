"""Tables with words, texts, gaps, categories and dates as numbers, for models that take only those."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from consilience.data.columns import MOST_CATEGORIES, Column, plain_values, read_columns
from consilience.errors import ConsilienceError
from consilience.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

MOST_WORDS = 2000
"""Different words of all texts of a column that become features: the most frequent ones."""
_WORD = r"(?u)\b\w\w+\b"
"""What a vectoriser takes for a word."""


@final
@dataclass(frozen=True)
class TablePreprocessing:
    """A raw table in, numbers out (rows, features). It is fitted to the shared data: the same everywhere."""

    columns: tuple[Column, ...]
    """All columns of the table it was fitted to, in their order; those that are not used may be missing elsewhere."""
    pipeline: Any
    """A fitted ColumnTransformer of scikit-learn's own parts."""

    @property
    def needed(self) -> list[str]:
        """Names of the columns that a table must have."""
        return [column.name for column in self.columns if column.used]

    def __call__(self, table: Rows) -> NDArray[np.float32]:
        """Gaps filled, numbers scaled, categories as zeros and ones, texts as tf-idf.

        Columns are found by name, in whatever order; those of an array are in the order of `columns`.
        """
        import pandas as pd

        if not hasattr(table, "iloc"):
            table = pd.DataFrame(np.asarray(table), columns=[column.name for column in self.columns])
        missing = [name for name in self.needed if name not in table.columns]
        if missing:
            raise ConsilienceError(f"the table has no column {missing[0]!r}. It needs {', '.join(self.needed)}.")
        return np.asarray(self.pipeline.transform(_plain(table, self.columns)), dtype=np.float32)


def table_preprocessing(shared: Rows, columns: Sequence[Column] = ()) -> TablePreprocessing:
    """Preprocessing fitted to the shared rows.

    Numbers: gaps become the median, and a feature marks them; then mean 0 and deviation 1. Dates: days, as numbers.
    Categories: a feature of zeros and ones for each value, gaps among them. Texts: tf-idf of their words.

    Args:
        shared: The shared rows, as a table; or as an array, of the given `columns`.
        columns: What the columns hold, where that is known from elsewhere; by default it is read from `shared`.
    """
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    if not hasattr(shared, "iloc"):
        shared = pd.DataFrame(np.asarray(shared), columns=[column.name for column in columns])
    columns = tuple(_without_words(column, shared) for column in columns or read_columns(shared))
    used = [column for column in columns if column.used]
    if not used:
        raise ConsilienceError(
            "no column of the table can be used as a feature: "
            + "; ".join(f"{column.name} ({column.action})" for column in columns)
            + ". Overrule it with data.types, such as data.types.age=number."
        )
    numbers = [column.name for column in used if column.kind not in ("category", "text")]
    categories = [column.name for column in used if column.kind == "category"]
    fill = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    encode = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=MOST_CATEGORIES, sparse_output=False)
    steps: list[Any] = [("numbers", make_pipeline(fill, StandardScaler()), numbers), ("words", encode, categories)]
    for place, column in enumerate(used):
        if column.kind == "text":
            vectorise = TfidfVectorizer(max_features=MOST_WORDS, sublinear_tf=True, token_pattern=_WORD)
            steps.append((f"text {place}", vectorise, column.name))
    fitted = ColumnTransformer(steps, sparse_threshold=0).fit(_plain(shared, columns))
    return TablePreprocessing(columns, fitted)


def _without_words(column: Column, shared: "pd.DataFrame") -> Column:
    """A text of which the shared data hold no word cannot be used."""
    if column.kind != "text" or not column.used:
        return column
    if any(re.search(_WORD, text) for text in plain_values(shared[column.name], column)):
        return column
    return replace(column, used=False, action="not used: the shared data hold no words in it")


def _plain(table: "pd.DataFrame", columns: Sequence[Column]) -> "pd.DataFrame":
    """The columns that are used, as numbers and texts."""
    import pandas as pd

    plain = {column.name: plain_values(table[column.name], column) for column in columns if column.used}
    return pd.DataFrame(plain, index=table.index)
