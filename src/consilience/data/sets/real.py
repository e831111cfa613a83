"""Images from the Hugging Face hub, or from a local folder in its layout."""

from dataclasses import replace

import numpy as np

from consilience.data import hub
from consilience.data.datasets import Dataset, RawScale, Request, Size, dataset
from consilience.data.image_folders import scaled

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
