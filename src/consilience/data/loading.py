"""A dataset by its name, or the user's own by its path."""

from pathlib import Path

from consilience.data.datasets import DATASETS, Dataset, Request, first_of_classes
from consilience.data.scenario import Scenario
from consilience.data.user_dataset import is_own, read_own


def load(name: str, request: Request | None = None) -> Dataset | Scenario:
    """A dataset, or a scenario where the data come divided among agents.

    Args:
        name: The name of a registered dataset, or the path of a file or folder.
        request: What is asked of it.
    """
    request = request or Request()
    if is_path(name):
        return first_of_classes(read_own(Path(name), request), request.limit)
    data: Dataset | Scenario = DATASETS.find(name)(request)
    return data


def is_path(name: str) -> bool:
    """Whether a dataset is the user's own file or folder. One called as a known dataset is meant by ./NAME."""
    return name not in DATASETS.names() and is_own(name)
