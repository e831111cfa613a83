"""Published predictions: their bytes, and what readers make of them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from consilience import ConsilienceError
from consilience.core.wire import FORMS, Wire


def probabilities(samples: int, classes: int, concentration: float = 0.3) -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.full(classes, concentration), samples).astype(np.float32)


@pytest.mark.parametrize(
    ("wire", "classes", "per_sample"),
    [
        (Wire(), 10, 40),
        (Wire("float16"), 10, 20),
        (Wire("top-k", 3), 10, 9),
        (Wire("top-k", 3), 2, 3),
        (Wire("top-k", 5), 300, 20),
        (Wire("label"), 10, 1),
        (Wire("label"), 300, 2),
        (Wire("label"), 70_000, 4),
    ],
)
def test_the_length_is_known_beforehand_and_another_is_refused(wire, classes, per_sample):
    f = probabilities(7, classes)
    data = wire.encode(f)
    assert len(data) == wire.size(7, classes) == 7 * per_sample
    for wrong in (data[:-1], data + b"\0", b""):
        with pytest.raises(ConsilienceError, match="Do all agents use the same shared data"):
            wire.decode(wrong, 7, classes)


def test_float32_is_exact_and_float16_keeps_three_digits():
    f = probabilities(50, 10)
    np.testing.assert_array_equal(Wire().decode(Wire().encode(f), 50, 10), f)
    rounded = Wire("float16").rounded(f)
    np.testing.assert_allclose(rounded, f, rtol=2**-11, atol=2**-25)
    assert rounded.dtype == np.float32


def test_a_label_is_the_most_probable_class_and_taken_as_certain():
    f = probabilities(20, 10, 1.0)
    for row, mine in zip(f, Wire("label").rounded(f), strict=True):
        assert mine.tolist() == [float(c == max(range(10), key=lambda k: row[k])) for c in range(10)]
    assert Wire("label").rounded(np.array([[0.25, 0.5, 0.5]], np.float32)).tolist() == [[0, 1, 0]]
    with pytest.raises(ConsilienceError, match="name a class beyond the 10 there are"):
        Wire("label").decode(bytes([3, 10]), 2, 10)


def test_top_k_written_with_plain_loops():
    f = probabilities(20, 10, 1.0)
    got = Wire("top-k", 3).rounded(f)
    for row, mine in zip(f, got, strict=True):
        largest = sorted(range(10), key=lambda c: -row[c])[:3]
        rest = (1 - sum(float(np.float16(row[c])) for c in largest)) / 7
        expected = [float(np.float16(row[c])) if c in largest else rest for c in range(10)]
        np.testing.assert_allclose(mine, expected, atol=1e-7)
    np.testing.assert_allclose(got.sum(axis=1), 1, atol=1e-6)


@given(
    f=arrays(np.float32, (4, 6), elements=st.floats(0, 1, width=32)),
    wire=st.sampled_from([*(Wire(form) for form in FORMS), Wire("top-k", 1), Wire("top-k", 9)]),
)
def test_what_was_rounded_once_stays_and_keeps_its_most_probable_class(f, wire):
    """Everyone, the agent itself included, may encode and decode again and have the same bits."""
    f = (f + np.float32(1e-3)) / (f + np.float32(1e-3)).sum(axis=1, keepdims=True)
    once = wire.rounded(f)
    np.testing.assert_array_equal(wire.rounded(once), once)
    np.testing.assert_allclose(once.sum(axis=1), 1, atol=5e-4)
    winner = once[np.arange(4), f.argmax(axis=1)]
    np.testing.assert_array_equal(winner, once.max(axis=1))


@given(data=st.binary(min_size=18, max_size=18))
def test_any_bytes_of_the_right_length_are_read_or_refused(data):
    try:
        f = Wire("top-k", 3).decode(data, 2, 10)
    except ConsilienceError:
        return
    assert f.shape == (2, 10)
    assert np.isfinite(f).all()


def test_values_travel_as_they_are_and_float16_has_an_end():
    values = np.array([[70_000.0], [-3.5]], np.float32)
    np.testing.assert_array_equal(Wire().rounded(values), values)
    np.testing.assert_array_equal(
        Wire("float16").rounded(np.array([[65504.0], [-65504.0]], np.float32))[:, 0], [65504, -65504]
    )
    for sign in (1, -1):
        with pytest.raises(ConsilienceError, match=r"too large for wire 'float16' \(above 65504\)\. Use float32"):
            Wire("float16").rounded(sign * values)


@pytest.mark.parametrize(
    ("values", "classes"),
    [([[0.5, 0.25]], [[3, 3]]), ([[0.5, 0.25]], [[3, 10]]), ([[np.nan, 0.25]], [[3, 4]]), ([[np.inf, 0.25]], [[3, 4]])],
)
def test_top_k_that_names_a_class_twice_or_one_too_many_or_no_number_is_refused(values, classes):
    data = np.array(values, "<f2").tobytes() + np.array(classes, "<u1").tobytes()
    with pytest.raises(ConsilienceError, match="name a class twice in a row, one beyond the 10 there are, or values"):
        Wire("top-k", 2).decode(data, 1, 10)


def test_top_k_rests_are_never_below_zero_nor_above_the_smallest_that_was_sent():
    """Rounded values may sum to more than one, and a peer may send anything."""
    data = np.array([[0.75, 0.5], [0.125, 0.0625]], "<f2").tobytes() + bytes([0, 1, 0, 1])
    np.testing.assert_array_equal(
        Wire("top-k", 2).decode(data, 2, 4), np.array([[0.75, 0.5, 0, 0], [0.125, 0.0625, 0.0625, 0.0625]], np.float32)
    )


@pytest.mark.parametrize(("outputs", "top", "kept"), [(1, 3, 1), (2, 3, 1), (4, 3, 3), (5, 3, 3), (3, 9, 2)])
def test_top_k_keeps_at_most_all_but_one(outputs, top, kept):
    """The last follows from the others."""
    assert Wire("top-k", top).size(1, outputs) == 3 * kept


@pytest.mark.parametrize(("classes", "per_class"), [(256, 1), (257, 2)])
def test_class_numbers_take_one_byte_up_to_256_classes(classes, per_class):
    wire = Wire("top-k", 1)
    f = np.zeros((1, classes), np.float32)
    f[0, -1] = 1
    assert len(wire.encode(f)) == 2 + per_class
    np.testing.assert_array_equal(wire.rounded(f), f)


def test_predictions_in_double_precision_are_published_in_single():
    f = probabilities(7, 10).astype(np.float64)
    for wire in (Wire(form) for form in FORMS):
        assert wire.encode(f) == wire.encode(f.astype(np.float32))


def test_of_many_equal_probabilities_the_lowest_classes_are_kept():
    f = (np.random.default_rng(0).integers(1, 4, (50, 100)) / 256).astype(np.float32)
    data = Wire("top-k", 60).encode(f)
    classes = np.frombuffer(data, "<u1", offset=50 * 60 * 2).reshape(50, 60)
    for row, kept in zip(f, classes, strict=True):
        assert kept.tolist() == sorted(range(100), key=lambda c: (-row[c], c))[:60]


def test_equal_probabilities_keep_the_lowest_classes():
    got = Wire("top-k", 2).rounded(np.array([[0.1, 0.3, 0.3, 0.3]], np.float32))[0]
    assert got[1] == got[2] == np.float16(0.3)
    np.testing.assert_allclose(got[[0, 3]], (1 - 2 * float(np.float16(0.3))) / 2, atol=1e-7)


def test_published_predictions_are_in_single_precision_and_float32_costs_nothing():
    f = probabilities(7, 10)
    assert {Wire(form).rounded(f).dtype for form in FORMS} == {np.dtype(np.float32)}
    assert Wire().rounded(f) is f


def test_the_rest_of_a_row_is_computed_in_double_precision():
    """The same bits for every reader, also where many are kept."""
    f = probabilities(50, 100, 1.0)
    got = Wire("top-k", 60).rounded(f)
    for row, mine in zip(f, got, strict=True):
        kept = sorted(range(100), key=lambda c: (-row[c], c))[:60]
        total = math.fsum(float(np.float16(row[c])) for c in kept)
        assert {mine[c] for c in range(100) if c not in kept} == {np.float32((1 - total) / 40)}


def test_a_single_class_is_always_certain():
    one = np.ones((3, 1), np.float32)
    for form in FORMS:
        np.testing.assert_array_equal(Wire(form).rounded(one), one)


def test_nothing_is_encoded_as_nothing():
    for form in FORMS:
        wire = Wire(form)
        assert wire.encode(np.zeros((0, 4), np.float32)) == b""
        assert wire.decode(b"", 0, 4).shape == (0, 4)


@pytest.mark.parametrize(
    ("form", "top", "says"),
    [
        ("float8", 3, r"form is 'float8'; it must be one of float32, float16, top-k"),
        ("top-k", 0, r"top is 0; it must be at least 1"),
    ],
)
def test_unknown_forms_are_refused(form, top, says):
    with pytest.raises(ConsilienceError, match=says):
        Wire(form, top)


@pytest.mark.parametrize("classes", [256, 257, 65_536, 65_537, 70_000])
def test_the_class_of_top_k_is_right_however_many_classes_there_are(classes):
    f = np.full((2, classes), 0.25 / (classes - 1), np.float32)
    f[0, classes - 1] = f[1, classes // 2] = 0.75
    wire = Wire("top-k", top=1)
    data = wire.encode(f)
    assert len(data) == wire.size(2, classes)
    np.testing.assert_array_equal(wire.decode(data, 2, classes).argmax(axis=1), [classes - 1, classes // 2])
