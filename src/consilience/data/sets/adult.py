"""Adult: people of the US census of 1994, and whether they earn more than 50,000 dollars a year."""

import numpy as np

from consilience.data import hub
from consilience.data.catalogue import SOURCES
from consilience.data.datasets import Dataset, Request, Size, dataset


@dataset("adult", Size(32561, 2, 100))
def adult(request: Request) -> Dataset:
    """Numbers standardised over everybody, words as one column for each; what is not known ("?") is a word, too.

    `education` is left out, as `education.num` says the same, and `fnlwgt`, which is no property of a person.
    """
    import pandas as pd

    with hub.dataset_rows("adult", request.data_dir) as rows:
        table = rows.to_pandas()
    label = SOURCES["adult"].label
    y = table[label].astype(str).str.strip().eq(">50K").to_numpy(dtype=np.int64)
    features = table.drop(columns=[label, "education", "fnlwgt"], errors="ignore")
    numbers = features.select_dtypes("number").astype(np.float64)
    scaled = (numbers - numbers.mean()) / numbers.std(ddof=0).replace(0, 1)
    words = pd.get_dummies(features.drop(columns=list(numbers)).astype(str), dtype=np.float64)
    x = pd.concat([scaled, words], axis=1).to_numpy(dtype=np.float32)
    return Dataset(x, y, ("at most 50K", "more than 50K"))
