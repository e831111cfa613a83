"""The machine's memory, and what glibc does with memory that training has freed (without glibc, nothing)."""

import ctypes
import os
import time
from contextlib import suppress

SHARE = 300
"""Times as long as a look through the memory that must pass before the next."""
_TRIM, _MMAP = -1, -3
"""Thresholds of mallopt(3)."""


def keep_memory() -> None:
    """Lets this process keep what a step of training frees, for the next step.

    Fresh pages cost a small convolutional network a quarter of its time.
    """
    with suppress(OSError, AttributeError):
        change = ctypes.CDLL(None).mallopt
        change(_MMAP, 2**25)
        change(_TRIM, 2**30)


def give_memory_back() -> None:
    """Returns freed memory to the machine: with `keep_memory` it would grow in pieces from round to round.

    Looking through small rounds would take longer than they do: nothing happens within `SHARE` times the last look.
    """
    began = time.perf_counter()
    if began < _Look.next:
        return
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    _Look.next = began + SHARE * (time.perf_counter() - began)


class _Look:
    """When memory may be looked through again."""

    next = 0.0


def machine_memory() -> int:
    """Bytes of this machine's memory; 0 where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0
