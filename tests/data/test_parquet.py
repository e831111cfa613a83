"""Parquet files: what is read is what was written, and what would fill the memory is not read."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from consilience.base.errors import ConsilienceError
from consilience.data.files import read_table
from consilience.data.parquet import check_parquet, read_parquet

ROWS = 8_000_000


def repeated(text: str) -> pa.Table:
    """Millions of rows that point to one text."""
    places = pa.array(np.zeros(ROWS, dtype=np.int32))
    return pa.table({"x": pa.DictionaryArray.from_arrays(places, pa.array([text]))})


def list_of(count: int) -> pa.Table:
    return pa.table({"x": pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), pa.array(np.zeros(count)))})


BOMBS = {
    "dictionary": lambda path: pq.write_table(repeated("a" * 1100), path, store_schema=False),
    "one list": lambda path: pq.write_table(list_of(30_000_000), path, compression="zstd"),
    "shared prefixes": lambda path: pq.write_table(
        pa.table({"x": ["a" * 1_000_000] * 200}),
        path,
        use_dictionary=False,
        column_encoding={"x": "DELTA_BYTE_ARRAY"},
        compression="zstd",
    ),
    "compressed page": lambda path: pq.write_table(
        pa.table({"x": ["a" * 100_000_000]}), path, use_dictionary=False, compression="zstd"
    ),
    "texts in lists": lambda path: pq.write_table(pa.table({"x": [[{"a": "y" * 2000}]] * 50_000}), path),
}
"""Small files, with different tricks, that unpack to between 80 MB and 9 GB."""


@pytest.mark.parametrize("trick", list(BOMBS))
def test_a_small_file_that_would_fill_the_memory_is_refused(trick: str, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    BOMBS[trick](path)
    assert path.stat().st_size < 1_000_000
    program = (
        "import resource, sys; from pathlib import Path; import pandas, pyarrow.parquet; "
        "from consilience.data.files import read_table; before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: read_table(Path(sys.argv[1])); print('read')\n"
        "except Exception as error: print(type(error).__name__, error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    limited = f'ulimit -v 8000000; exec {sys.executable} -c "$0" {path}'
    done = subprocess.run(["sh", "-c", limited, program], capture_output=True, text=True)
    said, kilobytes = done.stdout.splitlines()
    assert "would be unpacked from" in said
    assert int(kilobytes) < 400_000


def test_a_table_is_read_as_pandas_reads_it(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "number": [1.5, np.nan, 3.0],
            "word": ["one", None, "three"],
            "kind": pd.Categorical(["a", "b", "a"]),
            "when": pd.to_datetime(["2024-01-01", None, "2024-01-03"]),
            "whole": np.array([1, 2, 3], dtype=np.uint8),
            "yes": [True, False, True],
        }
    )
    for options in ({}, {"use_dictionary": False}, {"data_page_version": "2.0", "compression": "gzip"}):
        table.to_parquet(tmp_path / "x.parquet", **options)
        pd.testing.assert_frame_equal(read_table(tmp_path / "x.parquet"), pd.read_parquet(tmp_path / "x.parquet"))
    table[:0].to_parquet(tmp_path / "empty.parquet")
    assert list(read_parquet(tmp_path / "empty.parquet").columns) == list(table.columns)


def test_lists_structures_and_maps_are_measured_too(tmp_path: Path) -> None:
    pairs = pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string()))
    fixed = pa.array([[1.0, 2.0]], pa.list_(pa.float64(), 2))
    pictures = pa.array([{"bytes": b"abc", "path": None}])
    pq.write_table(pa.table({"map": pairs, "list": fixed, "picture": pictures}), tmp_path / "x.parquet")
    check_parquet(tmp_path / "x.parquet")


def test_tables_that_are_large_but_honest_are_read(tmp_path: Path) -> None:
    table = pd.DataFrame({"x": np.arange(9_000_000)})
    table.to_parquet(tmp_path / "x.parquet")
    assert len(read_parquet(tmp_path / "x.parquet")) == len(table)
    pd.DataFrame({"x": np.zeros(9_000_000)}).to_parquet(tmp_path / "zeros.parquet", compression="zstd")
    with pytest.raises(ConsilienceError, match=r"compression=None, use_dictionary=False"):
        read_parquet(tmp_path / "zeros.parquet", 200)
    pd.DataFrame({"x": np.zeros(9_000_000)}).to_parquet(
        tmp_path / "zeros.parquet", compression=None, use_dictionary=False
    )
    assert len(read_parquet(tmp_path / "zeros.parquet", 200)) == 9_000_000
