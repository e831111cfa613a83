"""What a target of the fuzzer is, and what counts as a crash."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from consilience.errors import ConsilienceError


@dataclass(frozen=True)
class Target:
    """A reader under test.

    It may return, or raise a ConsilienceError; anything else is a crash. Where a damaged input can be told from a good
    one, it says by an AssertionError that it took one for the other.
    """

    good: list[bytes]
    read: Callable[[bytes], object]
    weight: int = 1
    """How often it is chosen."""
    remake: Callable[[bytes, random.Random], bytes] = lambda data, draw: data
    """What a hostile member does with a damaged input, such as to sign it."""


def crash_of(target: Target, data: bytes) -> Exception | None:
    """What a reader does that it must not do with this input; None if all is well."""
    try:
        target.read(data)
    except ConsilienceError:
        return None
    except Exception as error:
        return error
    return None


def with_file(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """A reader of bytes that puts them into a file first."""

    def reading(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return reading


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
