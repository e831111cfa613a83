"""Real datasets: whole, in the right order, the same from the cache, and a clear sentence when they are not there."""

import importlib.util
import io
import shutil
import socket
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from consilience import ConsilienceError
from consilience.data import hub
from consilience.data.datasets import Dataset, Request
from consilience.data.datasets import load as load_request

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


@needs_datasets
def test_a_second_start_reads_the_cache_and_gives_the_same(few, cache, monkeypatch):
    before = load("cifar10", few)
    assert [path.suffix for folder in cache.iterdir() for path in folder.iterdir()] == [".npy"] * 4
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


def test_heart_patients_of_four_hospitals_as_in_flamby(data_dir):
    data = load("heart-disease", data_dir)
    assert data.x.shape == (740, 10)
    assert np.bincount(data.groups).tolist() == [303, 261, 46, 130]
    assert [int(data.y[data.groups == hospital].sum()) for hospital in range(4)] == [139, 98, 45, 101]
    assert data.group_names == ("cleveland", "hungarian", "switzerland", "va")
    assert (data.x.dtype, data.y.dtype, data.groups.dtype) == (np.float32, np.int64, np.int64)
    np.testing.assert_allclose(data.x.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(data.x.std(axis=0), 1, atol=1e-5)
    assert len(load("heart-disease", data_dir, limit=10).y) == 4 * 20 - 9


def test_the_files_of_uci_give_the_same_patients(data_dir, tmp_path):
    table = pd.read_csv(data_dir / "heart-disease" / "heart_disease.csv")
    folder = tmp_path / "heart-disease"
    folder.mkdir()
    for hospital, part in table.groupby("hospital"):
        part.drop(columns="hospital").to_csv(
            folder / f"processed.{hospital}.data", header=False, index=False, na_rep="?"
        )
    ours, theirs = load("heart-disease", tmp_path), load("heart-disease", data_dir)
    np.testing.assert_array_equal(ours.x, theirs.x)
    np.testing.assert_array_equal(ours.y, theirs.y)
    np.testing.assert_array_equal(ours.groups, theirs.groups)


def test_a_table_of_patients_that_lacks_columns_is_refused(data_dir, tmp_path):
    table = pd.read_csv(data_dir / "heart-disease" / "heart_disease.csv")
    (tmp_path / "heart-disease").mkdir()
    table.drop(columns=["chol", "hospital"]).to_csv(tmp_path / "heart-disease" / "heart_disease.csv", index=False)
    with pytest.raises(ConsilienceError, match=r"heart-disease/heart_disease.csv lacks the columns chol, hospital\."):
        load("heart-disease", tmp_path)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("cifar10", "cifar10 was looked for in .*copy https://huggingface.co/datasets/uoft-cs/cifar10 there"),
        ("cifar100", "cifar100 and .*cifar100-fifth"),
        ("fed-isic2019", "flwrlabs/fed-isic2019"),
        ("heart-disease", "looked for in .*heart-disease. Put processed.cleveland.data.*archive.ics.uci.edu"),
    ],
)
def test_missing_data_say_where_to_get_them_and_where_they_were_looked_for(tmp_path, name, says):
    with pytest.raises(ConsilienceError, match=says):
        load(name, tmp_path)


def test_heart_data_without_a_folder():
    with pytest.raises(ConsilienceError, match=r"looked for nowhere.*CONSILIENCE_DATA"):
        load("heart-disease")


@needs_datasets
def test_without_a_folder_the_hub_is_asked_and_its_refusal_explained(monkeypatch):
    import datasets

    asked: list[str] = []

    def refuse(name: str, cache_dir: str) -> None:
        asked.append(name)
        raise ConnectionError("no route to the hub")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(ConsilienceError, match=r"no route to the hub.*Without a network, copy https.*CONSILIENCE_DATA"):
        load("cifar10")
    assert asked == ["uoft-cs/cifar10"]


@needs_datasets
def test_what_comes_from_the_hub_is_kept_too(few, monkeypatch):
    import datasets

    real = datasets.load_dataset
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
    with pytest.raises(ConsilienceError, match=r"cannot read .*cifar10"):
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
