"""Datasets of the catalogue, from small folders of the same layout as on the hub."""

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from consilience import ConsilienceError
from consilience.data.catalogue import CATALOGUE, SOURCES
from consilience.data.datasets import DATASETS, SIZES, Request
from consilience.data.loading import load
from consilience.settings.presets import read_settings
from consilience.settings.wiring import build_evaluation, build_scenario, shared_rows

datasets = pytest.importorskip("datasets", reason="datasets is not installed (consilience[vision])")
IMAGES = ["mnist", "fashion-mnist", "svhn", "tiny-imagenet"]
ROWS, CLASSES = 12, 4


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CONSILIENCE_CACHE", str(tmp_path / "cache"))


def picture(level: int, side: int, channels: int) -> dict[str, object]:
    from PIL import Image

    shape = (side, side) if channels == 1 else (side, side, 3)
    data = io.BytesIO()
    Image.fromarray(np.full(shape, level, dtype=np.uint8)).save(data, "PNG")
    return {"bytes": data.getvalue(), "path": None}


def laid_out(folder: Path, name: str, rows: int = ROWS, **columns: list[object]) -> Path:
    """A dataset as a copy of the hub has it: parquet files by part, in a folder data or that of its configuration."""
    source = SOURCES[name]
    place = folder / source.folders[0] / (source.config or "data")
    place.mkdir(parents=True)
    images = [picture(10 * number % 256, source.side, source.channels) for number in range(rows)]
    labels = [number % CLASSES for number in range(rows)]
    names = [f"class {number}" for number in range(CLASSES)]
    kinds = {source.image: datasets.Image(), source.label: datasets.ClassLabel(names=names)}
    kinds |= {key: datasets.Value("string") for key in columns}
    table = {source.image: images, source.label: labels} | columns
    for part in source.parts:
        rows_of_part = datasets.Dataset.from_dict(table, datasets.Features(kinds))
        rows_of_part.to_parquet(str(place / f"{part}-00000-of-00001.parquet"))
    return folder


@pytest.mark.parametrize("name", IMAGES)
def test_images_come_from_a_folder_of_the_same_layout(name, tmp_path):
    source = SOURCES[name]
    found = load(name, Request(laid_out(tmp_path, name)))
    count = ROWS * len(source.parts)
    assert found.x.shape == (count, source.channels, source.side, source.side)
    assert np.prod(found.x.shape[1:]) == SIZES[name].values
    assert found.y.tolist() == [number % CLASSES for _ in source.parts for number in range(ROWS)]
    expected = np.array([10 * number / 127.5 - 1 for _ in source.parts for number in range(ROWS)], dtype=np.float32)
    np.testing.assert_allclose(found.x[:, 0, 0, 0], expected, atol=1e-6)
    assert found.classes[0] == "class 0"


def test_femnist_is_divided_by_writer_and_takes_the_busiest(tmp_path, monkeypatch):
    writers = ["w2"] * 14 + ["w9"] * 2 + ["w0"] * 16
    folder = laid_out(tmp_path, "femnist", rows=32, writer_id=writers)
    found = load("femnist", Request(folder, agents=2))
    assert found.group_names == ("w0", "w2"), "w9 has the least"
    assert np.bincount(found.groups).tolist() == [16, 14]
    first = np.array([10 * number / 127.5 - 1 for number in range(14)], dtype=np.float32)
    np.testing.assert_allclose(found.x[found.groups == 1][:, 0, 0, 0], first, atol=1e-6)
    monkeypatch.setenv("CONSILIENCE_DATA", str(folder))
    changes = {"dataset": "femnist", "partition": "natural", "agents.count": 2, "low_quality": []}
    settings = read_settings("digits", changes | {"shared_per_agent": 2, "target_fraction": 0.1})
    assert list(build_scenario(settings).shares) == ["w0", "w2"]


def test_ag_news_is_hashed_words_of_unit_length(tmp_path):
    place = tmp_path / "ag-news" / "data"
    place.mkdir(parents=True)
    texts = ["stocks fall sharply", "the team wins again", "stocks fall sharply"]
    for part in ("train", "test"):
        pq.write_table(pa.table({"text": texts, "label": [2, 1, 2]}), place / f"{part}-00000-of-00001.parquet")
    found = load("ag-news", Request(tmp_path, side=64))
    assert found.x.shape == (6, 64)
    np.testing.assert_allclose(np.linalg.norm(found.x, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(found.x[0], found.x[2])
    assert not np.array_equal(found.x[0], found.x[1])
    assert (found.y.tolist(), found.classes[1]) == ([2, 1, 2, 2, 1, 2], "Sports")
    assert load("ag-news", Request(tmp_path, limit=1, side=64)).y.tolist() == [2, 1]


def test_adult_is_numbers_and_words(tmp_path):
    (tmp_path / "adult").mkdir()
    lines = ["age,workclass,fnlwgt,education,education.num,income", "30,Private,1,HS-grad,9,<=50K"]
    lines += ["50,?,2,Masters,14,>50K", "40,Private,3,HS-grad,9,<=50K"]
    (tmp_path / "adult" / "adult.csv").write_text("\n".join(lines) + "\n")
    found = load("adult", Request(tmp_path))
    assert found.y.tolist() == [0, 1, 0]
    assert found.x.shape == (3, 4), "age, education.num, and two words of workclass"
    np.testing.assert_allclose(found.x[:, 0], (np.array([30, 50, 40]) - 40) / np.std([30, 50, 40]), atol=1e-6)
    assert sorted(found.x[1, 2:].tolist()) == [0, 1]
    table = pd.read_csv(tmp_path / "adult" / "adult.csv")
    numbers = table[["age", "education.num"]].astype(float)
    dummies = pd.get_dummies(table[["workclass"]].astype(str), dtype=float)
    expected = np.hstack([(numbers - numbers.mean()) / numbers.std(ddof=0), dummies]).astype(np.float32)
    np.testing.assert_array_equal(found.x, expected)


def test_every_dataset_is_in_the_catalogue_and_in_the_documents():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "datasets.md").read_text()
    assert sorted(CATALOGUE) == DATASETS.names()
    for name, entry in CATALOGUE.items():
        line = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        assert entry.what in line
        assert entry.licence in line
        assert not entry.source or entry.source.hub in line


def test_domains_of_pacs_are_agents_whether_the_files_say_what_columns_hold_or_not(tmp_path):
    domains = [("sketch", "photo", "cartoon", "art_painting")[number % 4] for number in range(ROWS)]
    data = load("pacs", Request(laid_out(tmp_path / "typed", "pacs", domain=domains)))
    assert data.group_names == ("art_painting", "cartoon", "photo", "sketch")
    assert data.groups.tolist() == [3, 2, 1, 0] * 3
    place = tmp_path / "plain" / "pacs" / "data"
    place.mkdir(parents=True)
    images = [picture(10 * number, 112, 3) for number in range(ROWS)]
    table = pa.table({"image": images, "label": [number % CLASSES for number in range(ROWS)], "domain": domains})
    pq.write_table(table, place / "train-00000-of-00001.parquet")
    plain = load("pacs", Request(tmp_path / "plain", as_bytes=True))
    assert plain.x.dtype == np.uint8 and plain.classes[:2] == ("dog", "elephant")
    np.testing.assert_allclose(data.x, plain.x / 127.5 - 1, atol=1e-6)
    pq.write_table(table.set_column(2, "domain", [["clip art"] * ROWS]), place / "train-00000-of-00001.parquet")
    with pytest.raises(ConsilienceError, match="the column 'domain' holds 'clip art'; it should hold art_painting"):
        load("pacs", Request(tmp_path / "plain"))


def reviews(folder: Path, unlabelled: int = 30) -> Path:
    place = folder / "fdu-mtl" / "data"
    place.mkdir(parents=True)
    for part, rows in (("train", 48), ("test", 16), ("unlabelled", unlabelled)):
        table = {"text": [f"{part} review {row} ." for row in range(rows)]}
        table["label"] = [-1 if part == "unlabelled" else row % 2 for row in range(rows)]
        table["domain"] = [("music", "books")[row // 2 % 2] for row in range(rows)]
        pq.write_table(pa.table(table), place / f"{part}-00000-of-00001.parquet")
    return folder


def test_reviews_without_labels_are_what_agents_share(tmp_path, monkeypatch):
    monkeypatch.setenv("CONSILIENCE_DATA", str(reviews(tmp_path)))
    changes = {"limit": 0, "agents.count": 2, "shared_per_agent": 10, "models": ["logistic"]}
    settings = read_settings("fdu-mtl", changes)
    scenario = build_scenario(settings)
    assert list(scenario.shares) == ["books", "music"]
    assert scenario.shared["text"].str.startswith("unlabelled").all() and len(scenario.shared) == 20
    assert not scenario.labels_known and build_evaluation(settings, scenario).shared_y is None
    held = [share.x["text"] for share in scenario.shares.values()]
    assert not any(text.str.startswith("unlabelled").any() for text in held)
    crossed = shared_rows(replace(settings, data=replace(settings.data, crossed=7)), scenario)
    assert len(crossed) == 27 and crossed["text"][:20].tolist() == scenario.shared["text"].tolist()


def test_reviews_that_are_not_there_are_asked_for(tmp_path):
    with pytest.raises(ConsilienceError, match=r"fdu-mtl were looked for in .*missing: train, test, unlabelled"):
        load("fdu-mtl", Request(tmp_path))
