"""Adult: people of the US census of 1994, and whether they earn more than 50,000 dollars a year."""

from typing import TYPE_CHECKING

import numpy as np

from consilience.data import hub
from consilience.data.catalogue import SOURCES
from consilience.data.columns import Column
from consilience.data.datasets import Dataset, RawSteps, Request, Size, dataset
from consilience.data.preprocess import CategoryFeatures, NumberFeature, TablePreprocessing

if TYPE_CHECKING:
    import pandas as pd

UNKNOWN = "?"
"""What stands in the table where something is not known: a gap, as this is in other files."""
EXAMPLES = 64
"""Raw rows that are kept, on which an exported model is compared with its agent."""


@dataset("adult", Size(32561, 2, 100))
def adult(request: Request) -> Dataset:
    """Numbers standardised over everybody, words as one column for each; what is not known ("?") is a word, too.

    `education` is left out, as `education.num` says the same, and `fnlwgt`, which is no property of a person.
    """
    with hub.dataset_rows("adult", request.data_dir) as rows:
        table = rows.to_pandas()
    label = SOURCES["adult"].label
    y = table[label].astype(str).str.strip().eq(">50K").to_numpy(dtype=np.int64)
    features = table.drop(columns=[label, "education", "fnlwgt"], errors="ignore").replace(UNKNOWN, None)
    preprocessing = _preprocessing(features)
    raw = RawSteps(
        (preprocessing,), features[:EXAMPLES], "Rows are those of the census table.", tuple(features.columns)
    )
    return Dataset(preprocessing(features), y, ("at most 50K", "more than 50K"), raw=raw)


def _preprocessing(features: "pd.DataFrame") -> TablePreprocessing:
    """Numbers standardised; a feature of zeros and ones for each word."""
    numbers = features.select_dtypes("number").astype(np.float64)
    medians, means, deviations = numbers.median(), numbers.mean(), numbers.std(ddof=0).replace(0, 1)
    names = [str(name) for name in features.columns]
    scaled = tuple(
        NumberFeature(name, float(medians[name]), float(means[name]), float(deviations[name]))
        for name in names
        if name in numbers
    )
    words = {
        name: tuple("missing" if word == UNKNOWN else word for word in sorted(features[name].fillna(UNKNOWN).unique()))
        for name in names
        if name not in numbers
    }
    columns = tuple(
        Column(name, "category", action=f"0 or 1 for each of {len(words[name])} values")
        if name in words
        else Column(name, "number", action="scaled")
        for name in names
    )
    categories = tuple(CategoryFeatures(name, values) for name, values in words.items())
    return TablePreprocessing(columns, scaled, categories, words=tuple(words))
