"""AG News: text as counts of hashed words, so that nothing has to be learnt from anybody's text."""

import numpy as np

from consilience.data import hub
from consilience.data.catalogue import SOURCES
from consilience.data.datasets import Dataset, RawSteps, Request, Size, dataset
from consilience.data.partitions import first_of_each

CLASSES = ("World", "Sports", "Business", "Sci/Tech")
EXAMPLES = 64
"""Texts that are kept, on which an exported model is compared with its agent."""


@dataset("ag-news", Size(127600, 4, 1024), sizes=True)
def ag_news(request: Request) -> Dataset:
    """News items in four classes: (samples, features) of unit length, where `side` is the number of features."""
    from sklearn.feature_extraction.text import HashingVectorizer

    source = SOURCES["ag-news"]
    with hub.dataset_rows("ag-news", request.data_dir) as rows:
        y = np.asarray(rows.with_format("numpy")[source.label][:], dtype=np.int64)
        if request.limit:
            chosen = first_of_each(y, request.limit)
            rows, y = rows.select(chosen), y[chosen]
        texts = list(rows[source.image])
    words = HashingVectorizer(n_features=request.side or source.side, alternate_sign=False, stop_words="english")
    x = words.transform(texts).toarray().astype(np.float32)
    raw = RawSteps((words,), texts[:EXAMPLES], "Samples are the texts of news items.", (source.image,))
    return Dataset(x, y, CLASSES, raw=raw)
