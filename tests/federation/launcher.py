"""Starts processes that have the heavy modules loaded already: `consilience site run` takes seconds to import torch.

Reads one JSON object per line: the arguments of the program (or a script to run instead), the file for its output and,
if the process is to live there, a network namespace. Answers with the process id, and with the exit code at the end.
"""

import ctypes
import json
import os
import resource
import runpy
import select
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # for scripts that import from tests


def load() -> None:
    """Everything that a site needs; no thread may be started here."""
    import pyarrow.parquet
    import sklearn.linear_model
    import skops.io
    import torch
    import typer._adapters  # with pydantic, where this is installed: else every process would load it
    import zenoh

    import consilience.cli
    import consilience.federation.site_run
    import consilience.report.page
    import consilience.report.tables

    torch.set_num_threads(1)
    assert pyarrow.parquet and skops.io and sklearn.linear_model and zenoh and consilience.cli and typer._adapters


def child(order: dict) -> None:
    """Becomes the process that was ordered."""
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    null = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)
    if order.get("files"):
        resource.setrlimit(resource.RLIMIT_NOFILE, tuple(order["files"]))
    if order.get("network"):
        network = os.open(f"/var/run/netns/{order['network']}", os.O_RDONLY)
        if ctypes.CDLL(None, use_errno=True).setns(network, 0x40000000):
            raise OSError(ctypes.get_errno(), "setns")
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
    sys.argv = order["argv"]
    if order.get("folder"):
        os.chdir(order["folder"])
    if order.get("script"):
        runpy.run_path(order["script"], run_name="__main__")
        return
    from consilience.cli import main, site

    site.console = type(site.console)(file=sys.stdout, width=250)
    main()


def run(order: dict) -> None:
    """The life of a child."""
    code = 1
    try:
        child(order)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def main() -> None:
    """Serves orders until its input ends; then every process that still runs is killed."""
    load()
    print(json.dumps({"ready": True}), flush=True)
    running: set[int] = set()
    buffer = b""
    while True:
        ready, _, _ = select.select([0], [], [], 0.05)
        while running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            running.discard(pid)
            print(json.dumps({"ended": pid, "code": os.waitstatus_to_exitcode(status)}), flush=True)
        if not ready:
            continue
        data = os.read(0, 65536)
        if not data:
            break
        *lines, buffer = (buffer + data).split(b"\n")
        for line in lines:
            pid = os.fork()
            if not pid:
                run(json.loads(line))
            running.add(pid)
            print(json.dumps({"started": pid}), flush=True)
    for pid in running:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
