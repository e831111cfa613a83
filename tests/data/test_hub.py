"""Real datasets: whole, in the right order, the same from the cache, and a clear sentence when they are not there."""

import importlib.util
import io
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from consilience import ConsilienceError
from consilience.data import hub
from consilience.data.datasets import Dataset, Request
from consilience.data.loading import load as load_request

needs_datasets = pytest.mark.skipif(
    importlib.util.find_spec("datasets") is None, reason="datasets is not installed (consilience[vision])"
)
CENTRES = ("bcn", "vidir_molemax", "vidir_modern", "rosendahl", "msk4", "vienna_dias")


def load(name: str, data_dir: Path | None = None, **request: int) -> Dataset:
    found = load_request(name, Request(data_dir, **request))
    assert isinstance(found, Dataset)
    return found


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CONSILIENCE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def few(data_dir, tmp_path):
    """The first 40 training and 20 test images of CIFAR-10, as a folder of their own."""
    target = tmp_path / "few" / "cifar10" / "data"
    target.mkdir(parents=True)
    for part, rows in (("train", 40), ("test", 20)):
        source = sorted((data_dir / "cifar10" / "data").glob(f"{part}-*.parquet"))[0]
        pq.write_table(pq.read_table(source).slice(0, rows), target / f"{part}-00000-of-00001.parquet")
    return tmp_path / "few"


@needs_datasets
def test_all_of_cifar10_is_found_and_the_first_of_each_class_decoded(data_dir):
    data = load("cifar10", data_dir, limit=20)
    assert data.x.shape == (200, 3, 32, 32)
    assert data.x.dtype == np.float32
    assert (data.x.min(), data.x.max()) == (-1, 1)
    assert np.bincount(data.y).tolist() == [20] * 10
    assert data.classes[:3] == ("airplane", "automobile", "bird")
    assert data.groups is None


@needs_datasets
def test_train_and_test_are_merged_in_their_order_without_loss(few):
    from PIL import Image

    data = load("cifar10", few)
    tables = [pq.read_table(few / "cifar10" / "data" / f"{part}-00000-of-00001.parquet") for part in ("train", "test")]
    rows = [row for table in tables for row in table.to_pylist()]
    assert len(rows) == 60
    assert data.y.tolist() == [row["label"] for row in rows]
    pixels = np.stack([np.asarray(Image.open(io.BytesIO(row["img"]["bytes"]))) for row in rows]).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(np.rint((data.x + 1) * 127.5), pixels)
    stored = hub.images("cifar10", few)
    assert (stored.x.dtype, stored.y.dtype) == (np.uint8, np.int64)
    np.testing.assert_array_equal(stored.x, pixels)


@needs_datasets
def test_grey_images_become_colour_and_others_are_resized_by_means_of_pixels(few):
    from PIL import Image

    path = few / "cifar10" / "data" / "train-00000-of-00001.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    grey, content = Image.open(io.BytesIO(rows[0]["img"]["bytes"])).convert("L"), io.BytesIO()
    grey.save(content, "PNG")
    rows[0]["img"]["bytes"] = content.getvalue()
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    whole, small = hub.images("cifar10", few).x, hub.images("cifar10", few, side=16).x
    np.testing.assert_array_equal(whole[0], np.stack([np.asarray(grey)] * 3))
    for before, after in zip(whole, small, strict=True):
        picture = Image.fromarray(before.transpose(1, 2, 0)).resize((16, 16), Image.Resampling.BILINEAR)
        np.testing.assert_array_equal(after, np.asarray(picture).transpose(2, 0, 1))


@needs_datasets
@pytest.mark.parametrize("local", [True, False])
def test_a_local_folder_is_read_offline_and_unpacked_files_are_removed(few, cache, local, monkeypatch):
    import datasets

    real = datasets.load_dataset
    seen: list[tuple[bool, Path]] = []

    def watched(place: str, cache_dir: str) -> object:
        seen.append((datasets.config.HF_HUB_OFFLINE, Path(cache_dir)))
        return real(str(few / "cifar10"), cache_dir=cache_dir)

    monkeypatch.setattr(datasets, "load_dataset", watched)
    monkeypatch.setattr(hub, "reachable", lambda: True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    load("cifar10", few if local else None)
    ((offline, scratch),) = seen
    assert offline == local
    assert cache in scratch.parents
    assert not scratch.exists()


@needs_datasets
def test_a_second_start_reads_the_cache_and_gives_the_same(few, cache, monkeypatch):
    before = load("cifar10", few)
    assert [path.suffix for folder in cache.iterdir() for path in folder.iterdir()] == [".npy"] * 5
    monkeypatch.setattr(hub, "_decode", lambda *_: pytest.fail("decoded again"))
    after = load("cifar10", few)
    np.testing.assert_array_equal(before.x, after.x)
    np.testing.assert_array_equal(before.y, after.y)
    assert before.classes == after.classes


@needs_datasets
def test_changed_files_another_size_and_damage_are_decoded_again(few, cache):
    before = load("cifar10", few)
    assert load("cifar10", few, side=16).x.shape == (60, 3, 16, 16)
    assert len(load("cifar10", few, limit=1).y) == 10
    assert len(list(cache.iterdir())) == 3
    for path in cache.glob("*/x.npy"):
        path.write_bytes(path.read_bytes()[:5000])
    np.testing.assert_array_equal(load("cifar10", few).x, before.x)
    part = few / "cifar10" / "data" / "train-00000-of-00001.parquet"
    pq.write_table(pq.read_table(part).slice(0, 10), part)
    assert len(load("cifar10", few).y) == 30


@needs_datasets
def test_the_cache_is_mapped_and_its_folder_is_made(few, tmp_path, monkeypatch):
    monkeypatch.setenv("CONSILIENCE_CACHE", str(tmp_path / "not" / "yet" / "there"))
    assert isinstance(hub.images("cifar10", few).x, np.memmap)
    monkeypatch.setenv("HOME", "/home/me")
    for value, place in (("~/kept", "/home/me/kept"), ("", "/home/me/.cache/consilience")):
        monkeypatch.setenv("CONSILIENCE_CACHE", value)
        assert hub.cache_folder() == Path(place)


@needs_datasets
def test_a_renamed_file_is_a_changed_one(few, cache):
    note = few / "cifar10" / "note.txt"
    note.write_text("hello")
    load("cifar10", few)
    note.rename(few / "cifar10" / "memo.txt")
    load("cifar10", few)
    assert len(list(cache.iterdir())) == 2


@needs_datasets
@pytest.mark.parametrize("array", ["x", "y", "classes", "groups"])
def test_objects_in_the_cache_are_not_unpickled_but_decoded_again(few, cache, array):
    before = load("cifar10", few)
    (place,) = cache.iterdir()
    np.save(place / f"{array}.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    after = load("cifar10", few)
    np.testing.assert_array_equal(after.x, before.x)
    np.testing.assert_array_equal(after.y, before.y)


@needs_datasets
def test_two_processes_may_decode_at_once(few, cache, monkeypatch):
    """The second finds the folder of the first in its place, and uses it."""
    real = hub._decode
    between: list[Dataset] = []

    def slower(*arguments):
        monkeypatch.setattr(hub, "_decode", real)
        between.append(load("cifar10", few))
        return real(*arguments)

    monkeypatch.setattr(hub, "_decode", slower)
    data = load("cifar10", few)
    np.testing.assert_array_equal(data.x, between[0].x)
    assert len(list(cache.iterdir())) == 1


@needs_datasets
def test_a_place_in_the_cache_that_is_taken_by_something_else_is_named(few, cache, monkeypatch):
    load("cifar10", few)
    (place,) = cache.iterdir()
    shutil.rmtree(place)
    real = hub._decode

    def meanwhile(*arguments):
        place.mkdir()
        (place / "x.npy").write_text("no array")
        return real(*arguments)

    monkeypatch.setattr(hub, "_decode", meanwhile)
    with pytest.raises(ConsilienceError, match=r"cannot keep decoded images in .*cache: Directory not empty"):
        load("cifar10", few)


@needs_datasets
def test_a_local_folder_needs_no_network_and_leaves_no_trace(few, cache, monkeypatch):
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("reached for the network"))
    from datasets import config

    online = config.HF_HUB_OFFLINE
    load("cifar10", few)
    assert online == config.HF_HUB_OFFLINE
    assert len(list(cache.iterdir())) == 1


@needs_datasets
def test_a_fifth_of_cifar100(data_dir):
    data = load("cifar100", data_dir, limit=2)
    assert data.x.shape == (200, 3, 32, 32)
    assert np.bincount(data.y).tolist() == [2] * 100
    assert (data.classes[0], data.classes[-1]) == ("apple", "worm")


@needs_datasets
def test_six_centres_of_fed_isic(data_dir):
    data = load("fed-isic2019", data_dir, limit=4)
    assert data.x.shape[1:] == (3, 64, 64)
    assert -1 <= data.x.min() < -0.9
    assert 0.9 < data.x.max() <= 1
    assert data.group_names == CENTRES
    assert set(data.groups) == set(range(6))
    assert len(data.classes) == 8
    counts = np.array([np.bincount(data.y[data.groups == centre], minlength=8) for centre in range(6)])
    assert counts.max() == 4
    assert (counts.sum(axis=0) >= 4).all()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("cifar10", "cifar10 was looked for in .*copy https://huggingface.co/datasets/uoft-cs/cifar10 there"),
        ("cifar100", "cifar100 and .*cifar100-fifth"),
        ("fed-isic2019", "flwrlabs/fed-isic2019"),
    ],
)
def test_missing_data_say_where_to_get_them_and_where_they_were_looked_for(tmp_path, name, says):
    with pytest.raises(ConsilienceError, match=says):
        load(name, tmp_path)


@needs_datasets
def test_without_a_network_there_is_one_sentence_and_no_retry(tmp_path):
    """The program itself, with a hub whose port on this machine is closed."""
    words = [sys.executable, "-m", "consilience", "run", "cifar10"]
    surroundings = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "CONSILIENCE_"))}
    surroundings |= {"HF_ENDPOINT": "http://127.0.0.1:9", "CONSILIENCE_CACHE": str(tmp_path / "cache")}
    surroundings |= {"HF_HOME": str(tmp_path / "hub"), "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(words, cwd=tmp_path, env=surroundings, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout + done.stderr == (
        "error: cannot read uoft-cs/cifar10 (http://127.0.0.1:9 cannot be reached). Without a network, copy "
        "https://huggingface.co/datasets/uoft-cs/cifar10 into a folder cifar10 and name the folder around it in the "
        "environment variable CONSILIENCE_DATA.\n"
    )


@needs_datasets
def test_without_a_folder_the_hub_is_asked_and_its_refusal_explained(monkeypatch):
    import datasets

    monkeypatch.setattr(hub, "reachable", lambda: True)
    asked: list[str] = []

    def refuse(name: str, cache_dir: str) -> None:
        asked.append(name)
        raise ConnectionError("no route to the hub")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(
        ConsilienceError,
        match=r"\(ConnectionError: no route to the hub\)\. Without a network, .* variable CONSILIENCE_DATA\.$",
    ):
        load("cifar10")
    assert asked == ["uoft-cs/cifar10"]


@needs_datasets
def test_what_comes_from_the_hub_is_kept_too(few, monkeypatch):
    import datasets

    real = datasets.load_dataset
    monkeypatch.setattr(hub, "reachable", lambda: True)
    monkeypatch.setattr(
        datasets, "load_dataset", lambda name, cache_dir: real(str(few / "cifar10"), cache_dir=cache_dir)
    )
    before = load("cifar10")
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: pytest.fail("asked again"))
    np.testing.assert_array_equal(load("cifar10").x, before.x)


@needs_datasets
def test_a_folder_that_is_something_else(few):
    shutil.copytree(few / "cifar10", few / "cifar100")
    with pytest.raises(ConsilienceError, match="lacks the columns fine_label"):
        load("cifar100", few)
    (few / "cifar10" / "data" / "test-00000-of-00001.parquet").write_bytes(b"not parquet")
    with pytest.raises(ConsilienceError, match=r"cannot read .*cifar10 \(.*\)\. Copy https://.*cifar10 there again\.$"):
        load("cifar10", few)


def test_without_the_packages_for_images(few, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConsilienceError, match=r"pip install 'consilience\[vision\]'"):
        load("cifar10", few)


def test_a_cache_that_cannot_be_written(few, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("CONSILIENCE_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(ConsilienceError, match="CONSILIENCE_CACHE"):
        load("cifar10", few)
