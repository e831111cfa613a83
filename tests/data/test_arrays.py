"""Arrays from files: what is in them, and what is not unpacked."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from consilience.base.errors import ConsilienceError
from consilience.data.arrays import read_array, read_arrays
from consilience.data.files import read_features


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<f4", ">f8", "<i2", "?", "<U3"])
def test_arrays_are_read_as_they_were_written(tmp_path: Path, order: str, kind: str) -> None:
    x = np.arange(6).reshape(2, 3).astype(kind, order=order)  # type: ignore[call-overload]
    np.savez(tmp_path / "plain.npz", x=x, empty=np.zeros((0, 4)), scalar=np.array(3.0))
    np.savez_compressed(tmp_path / "packed.npz", x=x)
    np.save(tmp_path / "x.npy", x)
    for found in (read_arrays(tmp_path / "plain.npz")["x"], read_arrays(tmp_path / "packed.npz")["x"]):
        np.testing.assert_array_equal(found, x)
        assert found.dtype == x.dtype
    np.testing.assert_array_equal(read_array(tmp_path / "x.npy"), x)
    assert read_arrays(tmp_path / "plain.npz", ["empty", "missing"])["empty"].shape == (0, 4)
    assert read_arrays(tmp_path / "plain.npz")["scalar"] == 3


def test_an_archive_that_would_fill_the_memory_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (10**8 // 4,)})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as file:
        file.write(header.getvalue())
        for _ in range(100):
            file.write(bytes(10**6))
    assert path.stat().st_size < 200_000
    with pytest.raises(ConsilienceError, match="would be unpacked from"):
        read_features(path)


@pytest.mark.parametrize("shape", ["(1000000000000,)", "(-1,)", "(3,)", "(2**9,)", "(1,)*99"])
def test_a_header_that_says_more_than_there_is_allocates_nothing(tmp_path: Path, shape: str) -> None:
    good = io.BytesIO()
    np.save(good, np.zeros(2, "<f4"))
    head = good.getvalue()[:128].replace(b"(2,)", shape.encode()).replace(b"\n", b"")[:127].ljust(127) + b"\n"
    (tmp_path / "x.npy").write_bytes(head + bytes(8))
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", head + bytes(8))
    for path in (tmp_path / "x.npy", tmp_path / "x.npz"):
        with pytest.raises(ConsilienceError, match="cannot be read"):
            read_features(path)
