"""Published predictions: their bytes, and what readers make of them."""

import numpy as np
import pytest
from consilience.runtime.wire import FORMS, Wire
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from consilience import ConsilienceError


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
    rounded = Wire("float16").rounded(f, "classification")
    np.testing.assert_allclose(rounded, f, rtol=2**-11, atol=2**-25)
    assert rounded.dtype == np.float32


def test_top_k_written_with_plain_loops():
    f = probabilities(20, 10, 1.0)
    got = Wire("top-k", 3).rounded(f, "classification")
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
    once = wire.rounded(f, "classification")
    np.testing.assert_array_equal(wire.rounded(once, "classification"), once)
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


def test_regression_has_no_top_k_and_float16_an_end():
    values = np.array([[70_000.0]], np.float32)
    np.testing.assert_array_equal(Wire().rounded(values, "regression"), values)
    with pytest.raises(ConsilienceError, match=r"for probabilities\. Use float32 or float16"):
        Wire("top-k").rounded(values, "regression")
    with pytest.raises(ConsilienceError, match="too large for wire 'float16'"):
        Wire("float16").rounded(values, "regression")


@pytest.mark.parametrize(("form", "top", "says"), [("float8", 3, "unknown wire"), ("top-k", 0, "wire_top is 0")])
def test_unknown_forms_are_refused(form, top, says):
    with pytest.raises(ConsilienceError, match=says):
        Wire(form, top)
