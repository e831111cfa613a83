"""The form of safetensors, against the library of that name."""

import numpy as np
from safetensors.numpy import load, save

from consilience.runtime.checkpoint import joined, packed, unpacked

KINDS = ["?", "u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8"]


def some() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    arrays = {f'agent "{kind}"/é/{size}': draw.normal(size=size).astype(kind) for kind in KINDS for size in (5, 0, 3)}
    arrays |= {"alone": np.array(4), "turned": np.asfortranarray(draw.normal(size=(3, 4)).astype(np.float32))}
    return arrays | {"none of three": np.zeros((0, 3), np.int64), "part": draw.normal(size=(4, 6))[::2, 1:4]}


def equal(found: dict[str, np.ndarray], arrays: dict[str, np.ndarray]) -> None:
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)


def test_the_bytes_are_those_of_the_library():
    arrays = some()
    expected = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    assert joined(packed(arrays)).tobytes() == expected


def test_what_was_packed_is_unpacked_by_us_and_by_the_library():
    arrays = some()
    data = joined(packed(arrays))
    equal(unpacked(data), arrays)
    equal(load(data.tobytes()), arrays)


def test_nothing_is_copied():
    array = np.arange(10.0)
    assert np.shares_memory(packed({"a": array})[1], array)
    data = joined(packed({"a": array}))
    assert np.shares_memory(unpacked(data)["a"], data)


def test_no_arrays_at_all():
    assert unpacked(joined(packed({}))) == {}
    assert load(joined(packed({})).tobytes()) == {}
