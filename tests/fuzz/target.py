"""What a target of the fuzzer is, and what counts as a crash."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from consilience.base.errors import ConsilienceError


@dataclass(frozen=True)
class Target:
    """A reader under test.

    It may return, or raise a ConsilienceError; anything else is a crash. Where a damaged input can be told from a good
    one, it says by an AssertionError that it took one for the other.
    """

    good: list[bytes]
    read: Callable[[bytes], object]
    remake: Callable[[bytes, random.Random], bytes] = lambda data, draw: data
    """What a hostile member does with a damaged input, such as to sign it."""


LONGEST = 1.0
"""Seconds of this process that an input may take."""


class TooSlowError(Exception):
    """An input that took too long. It is no harmless error of a reader's."""


def crash_of(target: Target, data: bytes) -> tuple[Exception | None, float]:
    """What a reader does that it must not do with this input, None if all is well; and the seconds that it took.

    One that takes too long is read again, so that no pause of the machine counts as its own.
    """
    error, seconds = _tried(target, data)
    if error is None and seconds > LONGEST:
        error, again = _tried(target, data)
        seconds = min(seconds, again)
        if error is None and seconds > LONGEST:
            error = TooSlowError(f"an input of {len(data)} bytes took {seconds:.1f} seconds")
    return error, seconds


def accepts(target: Target, data: bytes) -> bool:
    """Whether a reader takes this input."""
    try:
        target.read(data)
    except ConsilienceError:
        return False
    return True


def _tried(target: Target, data: bytes) -> tuple[Exception | None, float]:
    began = time.process_time()
    error: Exception | None = None
    try:
        target.read(data)
    except ConsilienceError:
        pass
    except Exception as problem:
        error = problem
    return error, time.process_time() - began


def with_file(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """A reader of bytes that puts them into a file first."""

    def reading(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return reading


def resealed(path: Path, read: Callable[[], object], seal: Callable[[], None], good: bytes | None = None) -> Target:
    """A file among others of which the checksums are made right after the damage: somebody meant it."""
    whole = {other: other.read_bytes() for other in path.parent.iterdir() if other.is_file()}

    def reading(data: bytes) -> None:
        path.write_bytes(data)
        try:
            seal()
            read()
        finally:
            for other, content in whole.items():
                other.write_bytes(content)

    return Target([whole[path] if good is None else good], reading)


def damaged(path: Path, read: Callable[[], object], same: Callable[[bytes, bytes], bool] = bytes.__eq__) -> Target:
    """A file among others that are whole: damaged it must be refused, unless it says the `same`."""
    good = path.read_bytes()

    def reading(data: bytes) -> None:
        path.write_bytes(data)
        try:
            read()
            assert same(data, good), f"a damaged {path.name} was accepted"
        finally:
            path.write_bytes(good)

    return Target([good], reading)
