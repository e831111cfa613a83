"""Small data and agents that many tests use."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

FEATURES, CLASSES = 6, 3


def blobs(samples: int, seed: int, classes: int = CLASSES) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Well-separated Gaussian classes; their centres do not depend on the seed."""
    centres = np.random.default_rng(99).normal(0, 2, (CLASSES, FEATURES))
    draw = np.random.default_rng(seed)
    y = draw.integers(0, classes, samples)
    return (centres[y] + draw.normal(0, 1, (samples, FEATURES))).astype(np.float32), y


@pytest.fixture
def shared() -> NDArray[np.float32]:
    return blobs(40, seed=1000)[0]


@pytest.fixture
def data_dir() -> Path:
    """Real data beside the checkout; tests that need them skip without."""
    path = Path(__file__).parents[2] / "shared" / "data"
    if not path.is_dir():
        pytest.skip(f"no real data at {path}")
    return path


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch with one thread, as in a run; several make small models slower."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
