"""Datasets that are read from folders or the hub."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from consilience.data.datasets import Request
from consilience.data.loading import load
from consilience.settings.presets import read_settings
from consilience.settings.wiring import build_scenario
from tests.data.test_catalogue import laid_out


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
