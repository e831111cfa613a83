"""Signals: SIGTERM interrupts the program as Ctrl-C does, and the request is not lost."""

import signal
from types import FrameType

AGAIN = 20.0
"""Seconds after which the interrupt is repeated if the program still runs, as a library may have caught the first
one. A site with a dead link takes about ten seconds to end."""
_asked = False


def install_signal_handlers() -> None:
    """Makes SIGTERM interrupt the program."""
    signal.signal(signal.SIGTERM, _end)
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, _end)


def leave() -> None:
    """Stops the repetition: the program ends."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def was_asked() -> bool:
    """Whether SIGTERM has arrived.

    An interrupt within one of Python's own locks becomes another error ("release unlocked lock").
    """
    return _asked


def _end(number: int, frame: FrameType | None) -> None:
    global _asked
    _asked = True
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
    raise KeyboardInterrupt
