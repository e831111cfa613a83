"""A program that a service asks to end does so, whatever its libraries catch."""

import subprocess
import sys

import pytest

SWALLOWS = """
import os, signal, time
from consilience.cli import signals as ending
from consilience.cli.main import app, main

ending.AGAIN = 0.3

@app.command()
def swallow():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
    except BaseException:
        print("caught", flush=True)
    time.sleep(10)
    print("went on", flush=True)

@app.command()
def other():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
    except KeyboardInterrupt:
        raise RuntimeError("release unlocked lock")

main()
"""


@pytest.mark.parametrize(("command", "said"), [("swallow", "caught\n"), ("other", "")])
def test_a_request_to_end_is_not_lost(command, said):
    done = subprocess.run([sys.executable, "-c", SWALLOWS, command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, said, "")
