"""Images and news from the Hugging Face hub, or from a local folder in its layout."""

from dataclasses import replace

import numpy as np

from consilience.data import hub
from consilience.data.catalogue import SOURCES
from consilience.data.datasets import Dataset, RawScale, RawSteps, Request, Size, dataset
from consilience.data.files import scaled
from consilience.data.partitions import first_of_each

BYTES = RawScale(np.array([127.5]), np.array([127.5]), "Pixels are bytes, as image files have them.", 255)


def _register(name: str, size: Size) -> None:
    @dataset(name, size, sizes=True)
    def images(request: Request) -> Dataset:
        """Images scaled from bytes to [-1, 1], or as bytes where that is asked for."""
        writers = request.agents or 10 if name == "femnist" else 0
        data = hub.images(name, request.data_dir, request.limit, request.side, writers)
        if request.as_bytes:
            return data
        return replace(data, x=scaled(data.x), raw=BYTES)


for _name, _size in {
    "cifar10": Size(60000, 10, 3072),
    "cifar100": Size(60000, 100, 3072),
    "fed-isic2019": Size(23247, 48, 12288),
    "pacs": Size(9991, 28, 37632),
    "mnist": Size(70000, 10, 784),
    "fashion-mnist": Size(70000, 10, 784),
    "femnist": Size(5000, 62, 784),
    "svhn": Size(99289, 10, 3072),
    "tiny-imagenet": Size(110000, 200, 12288),
}.items():
    _register(_name, _size)


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
