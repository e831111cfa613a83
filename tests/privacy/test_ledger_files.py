"""Killed at any moment, resumed, started anew without its run folder: what was spent never becomes less."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from consilience.privacy.accountants import epsilon_of_record, used
from consilience.privacy.ledger import LedgerFile
from tests.conftest import slowness

pytestmark = pytest.mark.faults

SPENDER = """
import os, sys
import numpy as np
from pathlib import Path
from consilience.privacy.ledger import LedgerFile
from consilience.privacy.mechanism import Mechanism
from consilience.privacy.options import Privacy
from consilience.runtime import checkpoint

home = Path(sys.argv[1])
x = np.arange(40, dtype=np.float32).reshape(20, 2)
mechanism = Mechanism(Privacy(epsilon=50, delta=1e-3, noise=20.0), "a", 0, 20, 0.5, 4)
file = LedgerFile(home / "ledger", x)
mechanism.keep(file)
done, arrays, _ = checkpoint.read(home / "run")
if done:
    mechanism.restore(arrays)
released = os.open(home / "released", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
while True:
    done += 1
    assert mechanism.begin(done) is not None
    mechanism.end(done)
    checkpoint.write(home / "run", done, mechanism.state())
    os.write(released, b"frame\\n")
    os.fsync(released)
"""


def test_epsilon_never_falls_below_what_was_released(tmp_path: Path) -> None:
    """Of the rounds that left, each is in the ledger: after kills, and after the run folder was deleted."""
    x, last = np.arange(40, dtype=np.float32).reshape(20, 2), 0.0
    for turn in range(6):
        process = subprocess.Popen([sys.executable, "-c", SPENDER, str(tmp_path)], stderr=subprocess.PIPE)
        frames = tmp_path / "released"
        before = frames.stat().st_size if frames.exists() else 0
        end = time.monotonic() + 120 * slowness()
        while not frames.exists() or frames.stat().st_size < before + 6 * (3 + turn):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < end, "nothing was released"
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        file = LedgerFile(tmp_path / "ledger", x)
        released = len(frames.read_bytes().splitlines())
        assert len(file.entries) >= released
        spent = epsilon_of_record(used(file.entries), 1e-3)
        assert spent > last
        last = spent
        file.close()
        if turn % 2:
            for path in (tmp_path / "run").iterdir():
                path.unlink()
