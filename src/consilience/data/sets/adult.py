"""Adult: people of the US census of 1994, and whether they earn more than 50,000 dollars a year."""

from pathlib import Path
from tempfile import TemporaryDirectory

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

    source = SOURCES["adult"]
    folder = hub.local_folder("adult", source, request.data_dir) if request.data_dir else None
    with TemporaryDirectory() as scratch, hub.hugging_face(offline=folder is not None) as library:
        table = hub.rows_of(library, source, folder, Path(scratch) / "tables").to_pandas()
    y = table[source.label].astype(str).str.strip().eq(">50K").to_numpy(dtype=np.int64)
    features = table.drop(columns=[source.label, "education", "fnlwgt"], errors="ignore")
    numbers = features.select_dtypes("number").astype(np.float64)
    scaled = (numbers - numbers.mean()) / numbers.std(ddof=0).replace(0, 1)
    words = pd.get_dummies(features.drop(columns=list(numbers)).astype(str), dtype=np.float64)
    x = pd.concat([scaled, words], axis=1).to_numpy(dtype=np.float32)
    return Dataset(x, y, ("at most 50K", "more than 50K"))
