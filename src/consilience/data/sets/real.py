"""Real data from the Hugging Face hub, or a local folder in its layout; and the UCI heart patients."""

import numpy as np

from consilience.data import hub
from consilience.data.datasets import Dataset, RawScale, Request, Size, dataset

BYTES = RawScale(np.array([127.5]), np.array([127.5]), "Pixels are bytes, as image files have them.", 255)


def _register(name: str, size: Size) -> None:
    @dataset(name, size, sizes=True)
    def images(request: Request) -> Dataset:
        """Images scaled from bytes to [-1, 1]."""
        writers = request.agents or 10 if name == "femnist" else 0
        found = hub.images(name, request.data_dir, request.limit, request.side, writers)
        x = np.multiply(found.x, np.float32(2 / 255), dtype=np.float32)
        x -= 1
        return Dataset(x, found.y, found.classes, found.groups, found.group_names, scale=BYTES)


for _name, _size in {
    "cifar10": Size(60000, 10, 3072),
    "cifar100": Size(60000, 100, 3072),
    "fed-isic2019": Size(23247, 48, 12288),
    "mnist": Size(70000, 10, 784),
    "fashion-mnist": Size(70000, 10, 784),
    "femnist": Size(5000, 62, 784),
    "svhn": Size(99289, 10, 3072),
    "tiny-imagenet": Size(110000, 200, 12288),
}.items():
    _register(_name, _size)


@dataset(hub.HEART, Size(740, 8, 13))
def heart_disease(request: Request) -> Dataset:
    """Heart patients of four hospitals."""
    patients = hub.heart_patients(request.data_dir)
    scale = RawScale(
        patients.mean, patients.deviation, "Features are in the units of the UCI tables.", columns=patients.columns
    )
    return Dataset(patients.x, patients.y, ("healthy", "diseased"), patients.hospitals, hub.HOSPITALS, scale=scale)
