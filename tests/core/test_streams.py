"""Random numbers: one stream per purpose and agent, the same on every machine."""

import hashlib

import numpy as np
import pytest

from consilience.core.streams import stream


def first(seed, *names):
    return int(stream(seed, *names).integers(2**63))


def test_streams_are_the_same_on_every_machine_and_in_every_version():
    """Every published number depends on these."""
    assert first(0, "batches", "3", 1) == 7212552212337677748
    assert first(7, "target") == 4048824217597542807


def test_a_stream_is_the_generator_of_numpy_seeded_by_the_hash_of_its_names():
    digest = hashlib.sha256(b"batches\x1f3\x1f1").digest()
    words = [int.from_bytes(digest[k : k + 4], "little") for k in range(0, 32, 4)]
    plain = np.random.default_rng(np.random.SeedSequence([5, *words]))
    assert stream(5, "batches", "3", 1).random(10).tolist() == plain.random(10).tolist()


@pytest.mark.parametrize(
    "names", [(1, "a", "b"), (0, "a"), (0, "b", "a"), (0, "ab"), (0, "a", "b", ""), (0, "a", "b", 0), (0, "a b")]
)
def test_another_seed_or_other_names_are_another_stream(names):
    assert first(*names) != first(0, "a", "b")


def test_a_draw_from_one_stream_moves_no_other():
    one, other = stream(0, "a"), stream(0, "b")
    expected = stream(0, "b").random(3).tolist()
    one.random(100)
    assert other.random(3).tolist() == expected
