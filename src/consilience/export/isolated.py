"""Predicting with a model folder in a process of its own: one that crashes, hangs or takes all memory ends alone."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from consilience.base.errors import ConsilienceError, sentence_of
from consilience.base.malloc import machine_memory
from consilience.export.manifest import FILE, Manifest, check_manifest, read_manifest
from consilience.tasks.protocol import Array

SECONDS = 600.0
"""How long a model may take by default."""
GIB = 2**30
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from consilience.export.isolated import child; child()"
)
"""The program of the child process. It imports what its parent would, and nothing from the folder it is started in."""
_REFUSED = 2


def predict_isolated(
    folder: Path, samples: Path, seconds: float = SECONDS, memory: float = 0.0, at: str = ""
) -> tuple[Array, Manifest]:
    """What the model in `folder` predicts for the samples in a file, and the model's manifest.

    A child process loads the model, with its working directory in an empty folder.

    Args:
        folder: A folder that `export` wrote, or somebody else.
        samples: A csv, parquet, npz or npy file, or a folder of images.
        seconds: How long the child may take.
        memory: How many GiB of address space the child may have; 0 for half of the machine's memory, at least 8 GiB.
        at: Which model: home | target | alone | together; by default what it was exported for.

    Raises:
        ConsilienceError: The model was refused, crashed, or reached a limit.
    """
    manifest = read_manifest(folder)
    check_manifest(manifest, str(folder / FILE))
    limit = int(memory * GIB) or default_memory()
    with TemporaryDirectory(prefix="consilience-") as scratch:
        order = {"folder": str(folder.resolve()), "samples": str(samples.resolve()), "memory": limit, "at": at}
        command = [sys.executable, "-c", _START, json.dumps([str(Path(entry).resolve()) for entry in sys.path])]
        try:
            done = subprocess.run(
                [*command, json.dumps(order)],
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            raise ConsilienceError(
                f"the model in {folder} had not predicted after {seconds:g} seconds, and its process was ended. If it "
                "needs longer for these samples, allow it with --seconds."
            ) from None
        return _result(Path(scratch), done.returncode, folder, manifest, limit), manifest


def default_memory() -> int:
    """Bytes of address space for a child: much more than models need, since libraries reserve some for each core."""
    return max(8 * GIB, machine_memory() // 2) + (os.cpu_count() or 1) * GIB // 4


def _result(scratch: Path, code: int, folder: Path, manifest: Manifest, limit: int) -> Array:
    """The child's predictions, or an error with what it says or how it ended."""
    message, predictions = scratch / "error", scratch / "predictions.npy"
    if code == _REFUSED and message.is_file():
        raise ConsilienceError(message.read_text(encoding="utf-8", errors="replace")[:2000])
    if code or not predictions.is_file():
        raise ConsilienceError(
            f"the model in {folder} ended the process that read it ({_ending(code)}; limit of memory: "
            f"{limit / GIB:.1f} GiB, see --memory). Nothing was predicted. Do not use this folder, unless you made it."
        )
    f = np.load(predictions, allow_pickle=False)
    if f.ndim != 2 or f.shape[1] != manifest.outputs or f.dtype != np.float32:
        raise ConsilienceError(f"the model in {folder} predicted something else than it says. Nothing was written.")
    return np.asarray(f)


def _ending(code: int) -> str:
    """How a process ended, in words.

    >>> _ending(-11), _ending(1)
    ('signal SIGSEGV', 'exit code 1')
    """
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"exit code {code}"


def child() -> None:
    """The child process: predicts under limits, into its working directory, or leaves a sentence there."""
    order = json.loads(sys.argv[2])
    _limit(order["memory"])
    from consilience.export.folder import load_model
    from consilience.export.inputs import read_samples

    try:
        loaded = load_model(order["folder"])
        x = read_samples(Path(order["samples"]), loaded.manifest.inputs)
        np.save("predictions.npy", loaded.predict(x, order["at"]))
    except ConsilienceError as error:
        _refuse(str(error))
    except OSError as error:
        _refuse(sentence_of(error))
    except MemoryError:
        _refuse(f"the model in {order['folder']} needs more memory than it may have. Allow it more with --memory.")


def _refuse(sentence: str) -> None:
    Path("error").write_text(sentence, encoding="utf-8", errors="replace")
    sys.exit(_REFUSED)


def _limit(memory: int) -> None:
    """Bounds the address space of this process, and leaves no image of its memory on the disk when it crashes."""
    try:
        import resource
    except ImportError:  # on Windows
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    with suppress(OSError, ValueError):  # macOS does not bound the address space
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
