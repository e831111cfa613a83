"""Notices a machine that has vanished without closing its connections: no power, a cable pulled, a crashed kernel.

Workers may wait for hours for one with slower agents, so a long wait means nothing. Every worker therefore increments a
number of its own in the store where torchrun's processes met, and reads those of the others.
"""

import os
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta

BEAT, SILENCE = 5.0, 60.0
"""Seconds from one count to the next, and seconds of silence after which a worker is considered lost."""

_leaving = threading.Event()


def end_with_others(number: int, size: int) -> None:
    """From now on this process, worker `number` of `size`, ends when another is silent. All of them have met."""
    import torch.distributed as dist

    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    patience = timedelta(seconds=SILENCE)
    store = dist.TCPStore(  # type: ignore[attr-defined]
        address, port, is_master=False, wait_for_workers=False, timeout=patience
    )
    others = [worker for worker in range(size) if worker != number]
    heard = dict.fromkeys(others, time.monotonic())
    store.set(_key(number), "0")
    dist.barrier()

    def beat() -> None:
        """Hangs when the store's machine has vanished, so that nobody is heard any more."""
        last = dict.fromkeys(others, b"")
        count = 0
        while not _leaving.wait(BEAT):
            count += 1
            with suppress(RuntimeError):
                store.set(_key(number), str(count))
                for worker, value in zip(others, store.multi_get([_key(other) for other in others]), strict=True):
                    if value != last[worker]:
                        last[worker], heard[worker] = value, time.monotonic()

    def watch() -> None:
        while not _leaving.wait(1.0):
            silence = {worker: time.monotonic() - when for worker, when in heard.items()}
            if max(silence.values()) > SILENCE:
                silent = [worker for worker, seconds in silence.items() if seconds > SILENCE - 2 * BEAT]
                if 0 in silent:  # the store is there, so that the others cannot be heard either
                    silent = [0]
                if number == 0 or 0 in silent:
                    sys.stderr.write(f"error: {_lost(silent)}\n")
                    sys.stderr.flush()
                else:
                    _leaving.wait(2 * BEAT)  # if this one left first, worker 0 would take it for the lost one
                os._exit(1)

    for target in (beat, watch):
        threading.Thread(target=target, daemon=True).start()


def rest() -> None:
    """This process is about to leave: it no longer ends when others are silent."""
    _leaving.set()


def _key(worker: int) -> str:
    return f"consilience/alive/{worker}"


def _lost(silent: list[int]) -> str:
    who = ", ".join(str(worker) for worker in silent)
    return (
        f"nothing was heard of {'worker' if len(silent) == 1 else 'workers'} {who} for {SILENCE:.0f} seconds: a "
        "machine or the network between them is down. Finished rounds are saved; resume the run."
    )
