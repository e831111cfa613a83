"""Torch modules: weights as safetensors, and the whole network as ONNX, which predicts without its Python class."""

import copy
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from consilience.errors import ConsilienceError
from consilience.export.manifest import Architecture, Part
from consilience.tasks import task_named
from consilience.tasks.protocol import Array, Task

if TYPE_CHECKING:
    from torch import nn

Predict = Callable[[Any], Array]
WEIGHTS, ONNX = "weights.safetensors", "model.onnx"
INPUT, OUTPUT = "x", "predictions"
"""Names of what goes into the ONNX network, and of what comes out of it."""
ROWS = 1024
"""Samples that go through a network at once."""


class HasNetwork(Protocol):
    """An agent around a torch module."""

    name: str
    task: Task
    model: "nn.Module"


def write(
    agent: HasNetwork, architecture: Architecture, sample: Array, onnx: bool
) -> tuple[list[Part], dict[str, bytes]]:
    """The files of a network: its weights, and its ONNX form where asked for or where nothing else can make it anew."""
    from safetensors.torch import save

    state = {key: value.detach().cpu().clone().contiguous() for key, value in agent.model.state_dict().items()}
    parts, files = [Part("network", "safetensors", WEIGHTS)], {WEIGHTS: save(state)}
    if onnx or not architecture.model:
        files[ONNX] = _onnx_bytes(agent, sample)
        parts.append(Part("network", "onnx", ONNX))
    return parts, files


def read(parts: dict[str, bytes], architecture: Architecture, task: str) -> Predict:
    """What predicts: a built-in network in torch, with the very bits of the agent; any other one through ONNX."""
    return _torch(parts["safetensors"], architecture, task) if architecture.model else _onnx(parts["onnx"])


def onnx_of(files: dict[str, bytes], agent: str, architecture: Architecture, task: str) -> tuple[Part, bytes]:
    """The ONNX form of a built-in network whose weights are among the files."""
    network = _Network(agent, task_named(task), _module(files[WEIGHTS], architecture))
    sample = np.zeros((1, *architecture.shape), dtype=np.float32)
    return Part("network", "onnx", ONNX), _onnx_bytes(network, sample)


@dataclass
class _Network:
    name: str
    task: Task
    model: "nn.Module"


def _module(weights: bytes, architecture: Architecture) -> "nn.Module":
    """A built-in network with these weights, to predict with."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    from consilience.agents.models import network_named

    module = network_named(architecture.model, architecture.shape, architecture.outputs)
    try:
        module.load_state_dict(load(weights))
    except (RuntimeError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise ConsilienceError(f"{WEIGHTS} does not fit the model {architecture.model} ({reason}).") from error
    return module.eval()


def _torch(weights: bytes, architecture: Architecture, task: str) -> Predict:
    import torch

    module = _module(weights, architecture)

    def predict(x: Array) -> Array:
        inputs = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
        if inputs.ndim == 4 and inputs.shape[1] > 1:
            inputs = inputs.contiguous(memory_format=torch.channels_last)  # as agents predict: the same bits
        with torch.inference_mode():
            out = torch.cat([module(part) for part in torch.split(inputs, _rows(x))])
            return task_named(task).predictions(out).numpy()

    return predict


def _rows(x: Array) -> int:
    return ROWS if x[:1].size < 1000 else 256  # as agents predict: the same bits


def _onnx(data: bytes) -> Predict:
    try:
        import onnxruntime
    except ImportError as error:
        raise ConsilienceError("this network predicts through ONNX: pip install 'consilience[export]'.") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common class of their own
        raise ConsilienceError(f"{ONNX} cannot be read ({str(error).splitlines()[0]}).") from error
    wanted = np.int64 if "int64" in session.get_inputs()[0].type else np.float32

    def predict(x: Array) -> Array:
        x = np.ascontiguousarray(x, dtype=wanted)
        size = _rows(x)
        parts = [session.run([OUTPUT], {INPUT: x[start : start + size]})[0] for start in range(0, len(x), size)]
        return np.concatenate(parts)

    return predict


def _onnx_bytes(agent: HasNetwork, sample: Array) -> bytes:
    """The network, with what makes predictions of its output, for any number of samples."""
    import torch

    try:
        import onnxscript  # noqa: F401 (torch.onnx needs it)
    except ImportError as error:
        raise ConsilienceError(
            f"agent {agent.name!r}: a network is exported as ONNX, which needs more packages: "
            "pip install 'consilience[export]'."
        ) from error

    class Predictions(torch.nn.Module):
        def __init__(self, network: "nn.Module", task: Task) -> None:
            super().__init__()
            self.network, self.task = network, task

        def forward(self, x: Any) -> Any:
            return self.task.predictions(self.network(x))

    rows = np.resize(sample, (3, *sample.shape[1:]))  # a dimension of one would be taken for a constant
    inputs = torch.from_numpy(rows)
    inputs = inputs.float() if inputs.is_floating_point() else inputs.long()
    module = Predictions(copy.deepcopy(agent.model).cpu(), agent.task).eval()
    try:
        with _quiet():
            program: Any = torch.onnx.export(
                module,
                (inputs,),
                dynamo=True,
                verbose=False,
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_shapes=({0: torch.export.Dim("samples")},),
            )
            file = io.BytesIO()
            program.save(file)
    except Exception as error:  # whatever a module of the user's does when it is traced
        raise ConsilienceError(
            f"agent {agent.name!r}: its network cannot be written as ONNX ({str(error).strip().splitlines()[0]}). "
            "Make its forward pass free of Python branches on values, or keep agent.model.state_dict() yourself."
        ) from error
    return file.getvalue()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's notes on what is not installed."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
