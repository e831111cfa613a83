"""A worker that falls silent is named by worker 0, whoever notices it first."""

import os
import signal
import subprocess
import sys

import pytest

from consilience.federation.peers.ports import SITE_PORTS, free_ports

WORKER = """
import sys, time
import torch.distributed as dist
from consilience.workers import heartbeat

number, silence = int(sys.argv[1]), float(sys.argv[2])
dist.init_process_group("gloo", rank=number, world_size=3)
heartbeat.BEAT, heartbeat.SILENCE = 2.0, silence
heartbeat.end_with_others(number, 3)
print("beats", flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_the_first_to_notice_lets_worker_0_speak(tmp_path):
    (port,) = free_ports(1, SITE_PORTS)
    environment = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(number), silence],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, silence in enumerate(["8", "7", "60"])
    ]
    first, second, silent = workers
    try:
        assert all(worker.stdout.readline() == "beats\n" for worker in workers)
        silent.send_signal(signal.SIGSTOP)
        assert first.wait(60) == 1
        assert second.poll() is None, "worker 0 would take this one for the lost one"
        assert "nothing was heard of worker 2 for 8 seconds" in first.stderr.read()
        assert second.wait(60) == 1 and "nothing was heard" not in second.stderr.read()
    finally:
        for worker in workers:
            worker.kill()
