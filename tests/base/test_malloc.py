"""Memory that training has freed."""

import ctypes
import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np
from pathlib import Path
from consilience.base.malloc import give_memory_back, keep_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

keep_memory()
before = resident()
pieces = [np.ones(size) for _ in range(100) for size in (200_000, 100)]  # large ones between small ones that stay
kept = pieces[1::2]
del pieces
held = resident() - before
give_memory_back()
print(held, resident() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library is not glibc")
def test_freed_memory_is_kept_for_the_next_step_and_can_be_given_back():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    held, after = map(float, done.stdout.split())
    assert held > 120  # of 153 MiB that were freed
    assert after < 20
