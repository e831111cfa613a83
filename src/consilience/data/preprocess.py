"""Tables with words, texts, gaps, categories and dates as numbers, for models that take only those."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from consilience.base.errors import ConsilienceError
from consilience.base.options import Options, from_table, option, to_table
from consilience.base.rows import Rows
from consilience.data.columns import (
    DATE_FORMATS,
    KINDS,
    MOST_CATEGORIES,
    Column,
    brief_list,
    chosen_columns,
    holds_texts,
    plain_values,
    read_columns,
)

if TYPE_CHECKING:
    import pandas as pd

MOST_WORDS = 2000
"""Different words of all texts of a column that become features: the most frequent ones."""
LARGEST = 20_000_000
"""Bytes of stored preprocessing that are still read."""
_NUMBERS = ("number", "date", "identifier", "constant")
"""Kinds of columns that become one feature."""
_WORD = r"(?u)\b\w\w+\b"
"""What a vectoriser takes for a word."""


@dataclass(frozen=True)
class StoredColumn(Options):
    """What stored preprocessing says of a column that it needs."""

    name: str = option(meaning="its name")
    kind: str = option(meaning="what it holds", one_of=KINDS)
    action: str = option("", "what is done with it, in words")
    asked: bool = option(False, "whether the user chose the kind: then values of another kind are gaps")
    date_format: str = option("", "how dates are written that are texts", one_of=("", *DATE_FORMATS))
    words: bool = option(False, "whether all of its values are texts, so that a file's reader leaves them as they are")


@dataclass(frozen=True)
class NumberFeature(Options):
    """A number or a date as one feature; where gaps are marked, as two."""

    column: str = option(meaning="the column")
    median: float = option(meaning="what a gap becomes")
    mean: float = option(meaning="of the values, gaps filled")
    deviation: float = option(meaning="of the values, gaps filled", above=0)
    marked: bool = option(False, "whether a feature of its own marks gaps")
    mark_mean: float = option(0.0, "of the marks")
    mark_deviation: float = option(1.0, "of the marks", above=0)


@dataclass(frozen=True)
class CategoryFeatures(Options):
    """A category as zeros and ones, one for each value."""

    column: str = option(meaning="the column")
    values: tuple[str, ...] = option(meaning="values with a feature of their own, in their order")
    rare: bool = option(False, "whether all other values share one more feature")


@dataclass(frozen=True)
class TextFeatures(Options):
    """A text as the tf-idf of its words."""

    column: str = option(meaning="the column")
    words: tuple[str, ...] = option(meaning="the vocabulary, in its order", at_least=1)
    idf: tuple[float, ...] = option(meaning="the weight of each word")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not len(self.words) == len(set(self.words)) == len(self.idf) or not np.isfinite(self.idf).all():
            raise ConsilienceError(f"the words of {self.column!r} do not have one weight each.")


@dataclass(frozen=True)
class _Stored(Options):
    columns: tuple[StoredColumn, ...] = option(meaning="columns that a table must have", at_least=1)
    numbers: tuple[NumberFeature, ...] = option((), "features of numbers and dates")
    categories: tuple[CategoryFeatures, ...] = option((), "features of categories")
    texts: tuple[TextFeatures, ...] = option((), "features of texts")


@final
@dataclass(frozen=True)
class TablePreprocessing:
    """A raw table in, numbers out (rows, features). It is fitted to the shared data: the same everywhere.

    It holds numbers and words alone, so it can be stored as text (`to_json`).
    """

    columns: tuple[Column, ...]
    """All columns of the table it was fitted to, in their order; those that are not used may be missing elsewhere."""
    numbers: tuple[NumberFeature, ...] = ()
    categories: tuple[CategoryFeatures, ...] = ()
    texts: tuple[TextFeatures, ...] = ()
    words: tuple[str, ...] = ()
    """Columns that hold nothing but texts: "01" in a file stays "01" there."""

    @property
    def needed(self) -> list[str]:
        """Names of the columns that a table must have."""
        return [column.name for column in self.columns if column.used]

    @property
    def meanings(self) -> dict[str, str]:
        """What each needed column holds and what is done with it, in words."""
        values = {feature.column: feature.values for feature in self.categories}
        shown = {name: f" ({brief_list(known)})" for name, known in values.items()}
        used = [column for column in self.columns if column.used]
        return {column.name: f"{column.kind}: {column.action}{shown.get(column.name, '')}" for column in used}

    def __call__(self, table: Rows) -> NDArray[np.float32]:
        """Gaps filled, numbers scaled, categories as zeros and ones, texts as tf-idf.

        Columns are found by name, in whatever order; those of an array are in the order of `columns`.
        """
        plain = _plain(self.table(table), self.columns)
        blocks = _scaled(plain, self.numbers)
        blocks += [_one_hot(plain[feature.column], feature) for feature in self.categories]
        blocks += [_tf_idf(plain[feature.column], feature) for feature in self.texts]
        return np.asarray(np.hstack(blocks), dtype=np.float32)

    def table(self, rows: Rows) -> "pd.DataFrame":
        """Rows as a table with the columns that are needed, and no others."""
        import pandas as pd

        if not hasattr(rows, "iloc"):
            rows = pd.DataFrame(np.asarray(rows), columns=[column.name for column in self.columns])
        return chosen_columns(rows, self.needed)

    def to_json(self) -> bytes:
        """Everything that it needs to read tables, as numbers and words."""
        used = (column for column in self.columns if column.used)
        columns = tuple(
            StoredColumn(own.name, own.kind, own.action, own.asked, own.date_format, own.name in self.words)
            for own in used
        )
        stored = _Stored(columns, self.numbers, self.categories, self.texts)
        return json.dumps(to_table(stored), ensure_ascii=False, allow_nan=False, indent=1).encode()


def stored_preprocessing(data: bytes, where: str) -> TablePreprocessing:
    """The preprocessing that `to_json` wrote; an error if the file `where` holds anything else."""
    if len(data) > LARGEST:
        raise ConsilienceError(f"{where} has more than {LARGEST} bytes and is not read.")
    try:
        table = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConsilienceError(f"{where} cannot be read ({error}).") from None
    stored = from_table(_Stored, table, where)
    kinds = {column.name: column.kind for column in stored.columns}
    fitting: list[tuple[str, tuple[str, ...]]] = [(feature.column, _NUMBERS) for feature in stored.numbers]
    fitting += [(feature.column, ("category",)) for feature in stored.categories]
    fitting += [(feature.column, ("text",)) for feature in stored.texts]
    known = sorted(kinds) == sorted(name for name, _ in fitting) and len(kinds) == len(stored.columns)
    if not known or not all(kinds[name] in allowed for name, allowed in fitting):
        raise ConsilienceError(f"{where}: the columns and their features do not fit. Export the model again.")
    columns = tuple(
        Column(own.name, own.kind, action=own.action, asked=own.asked, date_format=own.date_format)
        for own in stored.columns
    )
    words = tuple(column.name for column in stored.columns if column.words)
    return TablePreprocessing(columns, stored.numbers, stored.categories, stored.texts, words)


def table_preprocessing(shared: Rows, columns: Sequence[Column] = ()) -> TablePreprocessing:
    """Preprocessing fitted to the shared rows.

    Numbers: gaps become the median, and a feature marks them; then mean 0 and deviation 1. Dates: days, as numbers.
    Categories: a feature of zeros and ones for each value, gaps among them. Texts: tf-idf of their words.

    Args:
        shared: The shared rows, as a table; or as an array, of the given `columns`.
        columns: What the columns hold, where that is known from elsewhere; by default it is read from `shared`.
    """
    import pandas as pd

    if not hasattr(shared, "iloc"):
        shared = pd.DataFrame(np.asarray(shared), columns=[column.name for column in columns])
    columns = tuple(_without_words(column, shared) for column in columns or read_columns(shared))
    used = [column for column in columns if column.used]
    if not used:
        raise ConsilienceError(
            "no column of the table can be used as a feature: "
            + "; ".join(f"{column.name} ({column.action})" for column in columns)
            + '. Say what a column holds: data.types.age=number for a run, types.age = "number" in a site.toml.'
        )
    plain = _plain(shared, columns)
    return TablePreprocessing(
        columns,
        _numbers(plain[[column.name for column in used if column.kind not in ("category", "text")]]),
        tuple(_categories(plain[column.name]) for column in used if column.kind == "category"),
        tuple(_texts(plain[column.name]) for column in used if column.kind == "text"),
        tuple(column.name for column in used if holds_texts(shared[column.name])),
    )


def _numbers(plain: "pd.DataFrame") -> tuple[NumberFeature, ...]:
    """Medians, means and deviations of columns of numbers, and of the marks of their gaps."""
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import StandardScaler

    names = [str(name) for name in plain.columns]
    if not names:
        return ()
    fill = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    scale = StandardScaler().fit(np.asarray(fill.fit_transform(plain.to_numpy(np.float64))))
    medians, means, deviations = fill.statistics_.tolist(), scale.mean_.tolist(), scale.scale_.tolist()
    marks = dict(zip(fill.indicator_.features_.tolist(), range(len(names), len(means)), strict=True))
    features = []
    for index, name in enumerate(names):
        feature = NumberFeature(name, medians[index], means[index], deviations[index])
        if index in marks:
            mark = marks[index]
            feature = replace(feature, marked=True, mark_mean=means[mark], mark_deviation=deviations[mark])
        features.append(feature)
    return tuple(features)


def _categories(plain: "pd.Series[Any]") -> CategoryFeatures:
    """The values of a category that get a feature of their own."""
    from sklearn.preprocessing import OneHotEncoder

    encode = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=MOST_CATEGORIES)
    encode.fit(plain.to_numpy(object).reshape(-1, 1))
    [rare] = encode.infrequent_categories_
    own = [str(value) for value in encode.categories_[0] if rare is None or value not in set(rare)]
    return CategoryFeatures(str(plain.name), tuple(own), rare is not None)


def _texts(plain: "pd.Series[Any]") -> TextFeatures:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorise = TfidfVectorizer(max_features=MOST_WORDS, sublinear_tf=True, token_pattern=_WORD).fit(plain)
    words = tuple(str(word) for word in vectorise.get_feature_names_out())
    return TextFeatures(str(plain.name), words, tuple(vectorise.idf_.tolist()))


def _scaled(plain: "pd.DataFrame", features: Sequence[NumberFeature]) -> list[NDArray[np.float64]]:
    """(x - mean) / deviation of all numbers, then of all marks."""
    scaled, marks = [], []
    for feature in features:
        x = plain[feature.column].to_numpy(np.float64)
        gap = np.isnan(x)
        scaled.append((np.where(gap, feature.median, x) - feature.mean) / feature.deviation)
        if feature.marked:
            marks.append((gap - feature.mark_mean) / feature.mark_deviation)
    return [column[:, None] for column in scaled + marks]


def _one_hot(plain: "pd.Series[Any]", feature: CategoryFeatures) -> NDArray[np.float64]:
    """A one in the column of each value; of a value that is not known, in that of the rare ones, or nowhere."""
    width = len(feature.values) + feature.rare
    places = {value: index for index, value in enumerate(feature.values)}
    other = len(feature.values) if feature.rare else -1
    index = np.array([places.get(value, other) for value in plain], dtype=np.intp)
    block = np.zeros((len(plain), width))
    known = np.flatnonzero(index >= 0)
    block[known, index[known]] = 1.0
    return block


def _tf_idf(plain: "pd.Series[Any]", feature: TextFeatures) -> NDArray[np.float64]:
    """tf-idf by the known words and their weights."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorise = TfidfVectorizer(vocabulary=list(feature.words), sublinear_tf=True, token_pattern=_WORD)
    vectorise.idf_ = np.array(feature.idf)
    return np.asarray(vectorise.transform(plain).toarray())


def _without_words(column: Column, shared: "pd.DataFrame") -> Column:
    """A column of texts cannot be used if the shared data hold no words in it."""
    if column.kind != "text" or not column.used:
        return column
    if any(re.search(_WORD, text) for text in plain_values(shared[column.name], column)):
        return column
    return replace(column, used=False, action="not used: the shared data hold no words in it")


def _plain(table: "pd.DataFrame", columns: Sequence[Column]) -> "pd.DataFrame":
    import pandas as pd

    plain = {column.name: plain_values(table[column.name], column) for column in columns if column.used}
    return pd.DataFrame(plain, index=table.index)
