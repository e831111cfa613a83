"""The dataset of reviews."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from consilience import ConsilienceError
from consilience.data.datasets import Request
from consilience.data.loading import load
from consilience.settings.presets import read_settings
from consilience.settings.wiring import build_evaluation, build_scenario, shared_rows


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
