"""A short name for data: two arrays with the same one are the same."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def fingerprint(*arrays: NDArray[Any]) -> str:
    """SHA-256 of the arrays' types, shapes and content, order included.

    >>> fingerprint(np.zeros(2, dtype=np.int8))[:8]
    '1bd37dfe'
    """
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
