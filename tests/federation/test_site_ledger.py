"""By which rows a site's ledger is kept: those of its file, without labels, whatever is done to them afterwards."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("zenoh", reason="needs consilience[peers]")

from consilience.federation.site import Site
from consilience.federation.site_ledger import _raw_rows
from consilience.privacy.accountants import LedgerEntry
from consilience.privacy.ledger import LedgerFile


@pytest.fixture
def patients(tmp_path: Path) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    table = pd.DataFrame(draw.normal(50, 10, (40, 4)).round(1), columns=["age", "pressure", "height", "weight"])
    table = table.assign(sick=draw.integers(0, 2, 40), died=draw.integers(2, 4, 40))
    table.to_csv(tmp_path / "patients.csv", index=False)
    table.to_parquet(tmp_path / "patients.parquet")
    table[table.columns[::-1]].drop(columns="weight").to_csv(tmp_path / "fewer.csv", index=False)
    table.assign(height=table["height"] / 2.54).to_csv(tmp_path / "inches.csv", index=False, sep=";")
    x = table.drop(columns="sick").to_numpy(np.float32)
    np.savez(tmp_path / "patients.npz", x=x, y=table["sick"].to_numpy())
    return table


CASES = [
    {"data": "patients.parquet"},
    {"data": "patients.npz"},
    {"data": "fewer.csv"},
    {"data": "inches.csv"},
    {"label": "died"},
    {"label": "sick, died"},
    {"standardise": True},
]


@pytest.mark.parametrize("changes", CASES, ids=str)
def test_the_same_rows_in_another_file_or_with_another_label_are_known_again(tmp_path, patients, changes):
    def opened(site: Site) -> LedgerFile:
        prepared = SimpleNamespace(site=site, path=lambda name: tmp_path / name)
        return LedgerFile(tmp_path / "ledger", _raw_rows(prepared, None))

    site = Site("a", model="logistic", data="patients.csv", label="sick")
    file = opened(site)
    file.add("run", LedgerEntry(1, 0.5, 2.0, 10))
    file.close()
    assert len(opened(replace(site, **changes)).entries) == 1
