"""Small data, agents and networks that many tests use."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from numpy.typing import NDArray

from consilience.runtime.callbacks import Callback

settings.register_profile("no deadline", deadline=None)  # a busy machine is no fault
settings.load_profile("no deadline")

FEATURES, CLASSES = 6, 3


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that take minutes come first."""
    items.sort(key=lambda item: item.get_closest_marker("minutes") is None)


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
    """Real data beside the checkout, or beside a folder around it; tests that need them skip without."""
    places = [folder / "shared" / "data" for folder in Path(__file__).parents[2:]]
    for place in places:
        if place.is_dir():
            return place
    pytest.skip(f"no real data at {places[0]}")


@pytest.fixture
def real_data(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program reads the real data, and writes nothing beside them."""
    pytest.importorskip("datasets")
    monkeypatch.setenv("CONSILIENCE_DATA", str(data_dir))
    monkeypatch.setenv("CONSILIENCE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch and BLAS with one thread, as in a run; several make small models slower."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
    torch.set_num_threads(before)


class Hears(Callback):
    """Passes the run and every event to a function."""

    def __init__(self, function):
        self.handle = function


def slowness() -> float:
    """How many times longer than alone things take on this machine now: deadlines of the tests are stretched by it."""
    return min(20.0, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


def root(command: str) -> None:
    """Runs a command that needs root; skips the test where that cannot be."""
    program = command.split()[0]
    if os.geteuid() or shutil.which(program) is None:
        pytest.skip(f"`{command}` needs root and the program {program}")
    done = subprocess.run(command.split(), capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"`{command}` is not possible here: {done.stderr.strip()}")


@contextmanager
def namespaces() -> Iterator[Callable[[int], list[str]]]:
    """Makes so many network namespaces, 10.199.0.1, .2, ... on a bridge, which stands in one more namespace."""
    made: list[str] = []

    def make(count: int) -> list[str]:
        tag = f"cns{os.getpid()}"
        switch = f"{tag}-switch"
        root(f"ip netns add {switch}")
        made.append(switch)
        root(f"ip -n {switch} link add bridge type bridge")
        root(f"ip -n {switch} link set bridge up")
        for number in range(1, count + 1):
            name = f"{tag}-{number}"
            root(f"ip netns add {name}")
            made.append(name)
            root(f"ip -n {switch} link add port{number} type veth peer name uplink netns {name}")
            root(f"ip -n {switch} link set port{number} master bridge up")
            root(f"ip -n {name} addr add 10.199.0.{number}/24 dev uplink")
            root(f"ip -n {name} link set uplink up")
            root(f"ip -n {name} link set lo up")
        return made

    try:
        yield make
    finally:
        for name in reversed(made):
            subprocess.run(["ip", "netns", "delete", name], check=True)


@pytest.fixture
def networks() -> Iterator[Callable[[int], list[str]]]:
    """See `namespaces`."""
    with namespaces() as make:
        yield make


@pytest.fixture
def image_folder(tmp_path: Path) -> Path:
    """A tiny vision transformer with random weights and its image processor, as Hugging Face stores them."""
    import torch

    transformers = pytest.importorskip("transformers", reason="needs consilience[vision]")
    tiny = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    config = transformers.ViTConfig(**tiny, image_size=16, patch_size=8)
    transformers.ViTModel(config).save_pretrained(tmp_path / "vit")
    processor = {"image_processor_type": "ViTImageProcessor", "size": {"height": 16, "width": 16}}
    processor |= {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.25, 0.25, 0.25]}
    (tmp_path / "vit" / "preprocessor_config.json").write_text(json.dumps(processor))
    return tmp_path / "vit"
