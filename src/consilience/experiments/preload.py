"""What every worker needs, imported once by the server from which workers are forked.

Importing takes seconds, forking does not. The garbage collector rests meanwhile: there is no garbage, and looking for
it takes a tenth of the time.
"""

import gc

gc.disable()
import ctypes  # noqa: E402

import sklearn.datasets  # noqa: E402
import sklearn.ensemble  # noqa: E402
import sklearn.linear_model  # noqa: E402, F401

import consilience.agents.batched  # noqa: E402
import consilience.experiments.method  # noqa: E402, F401

_MALLOC_TRIM, _MALLOC_MMAP = -1, -3


def _keep_memory() -> None:
    """Lets glibc keep what a step of training frees, for the next step: fresh pages cost a few per cent of the time."""
    try:
        change = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    change(_MALLOC_MMAP, 2**25)
    change(_MALLOC_TRIM, 2**30)


_keep_memory()
gc.freeze()
gc.enable()
