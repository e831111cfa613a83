"""How the program is asked to end by a machine: SIGTERM is an interrupt, as Ctrl-C is, and it is not lost."""

import signal
from types import FrameType

AGAIN = 20.0
"""Seconds after which a request to end is repeated, should the program still run: an interrupt can hit a place in a
library that catches everything. Leaving takes a site about ten seconds when a link is dead."""
_asked = False


def install_signal_handlers() -> None:
    """From now on SIGTERM interrupts the program."""
    signal.signal(signal.SIGTERM, _end)
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, _end)


def leave() -> None:
    """The program ends: nothing is repeated any more."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def was_asked() -> bool:
    """Whether the program was asked to end.

    An interrupt that hits one of Python's own locks comes out as another error ("release unlocked lock").
    """
    return _asked


def _end(number: int, frame: FrameType | None) -> None:
    global _asked
    _asked = True
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
    raise KeyboardInterrupt
