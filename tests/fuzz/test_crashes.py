"""Inputs that once crashed a reader, and some new ones of every kind."""

import random
import warnings
from pathlib import Path

import pytest

pytest.importorskip("zenoh", reason="needs consilience[peers]")

from tests.fuzz.mutate import mutated
from tests.fuzz.target import crash_of
from tests.fuzz.targets import kept, targets


def test_no_damaged_input_crashes_a_reader_or_is_taken_for_a_good_one(tmp_path: Path) -> None:
    known = targets(tmp_path)
    draw = random.Random(0)
    inputs = kept(Path(__file__).parent / "crashes")
    for name, target in known.items():
        inputs += [(name, target.remake(good, draw)) for good in target.good]
        inputs += [(name, target.remake(mutated(target.good[0], draw, target.good), draw)) for _ in range(20)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, data in inputs:
            error, _ = crash_of(known[name], data)
            assert error is None, f"{name}: {type(error).__name__}: {error}, for {data[:2000]!r}"
