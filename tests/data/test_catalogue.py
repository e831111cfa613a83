"""Datasets of the catalogue, from small folders of the same layout as on the hub."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from consilience import ConsilienceError
from consilience.data.catalogue import CATALOGUE, SOURCES
from consilience.data.datasets import DATASETS, SIZES, Request
from consilience.data.loading import load

datasets = pytest.importorskip("datasets", reason="datasets is not installed (consilience[vision])")
IMAGES = ["mnist", "fashion-mnist", "svhn", "tiny-imagenet"]
ROWS, CLASSES = 12, 4


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
