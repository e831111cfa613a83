"""Torch modules: weights as safetensors, and the whole network as ONNX, which predicts without its Python class."""

import copy
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from consilience.agents.tensors import Inputs, called, for_network, in_batches, on, picked, single_precision, size
from consilience.base.errors import ConsilienceError
from consilience.base.files import reading
from consilience.base.rows import Rows
from consilience.export.manifest import Architecture, Part
from consilience.tasks import task_named
from consilience.tasks.protocol import Array, Task

if TYPE_CHECKING:
    from torch import nn

Predict = Callable[[Any], Array]
WEIGHTS, ONNX = "weights.safetensors", "model.onnx"
INPUT, OUTPUT = "x", "predictions"
"""Names of what goes into the ONNX network, and of what comes out of it."""


class HasNetwork(Protocol):
    """An agent around a torch module."""

    name: str
    task: Task
    model: "nn.Module"

    def inputs(self, rows: Rows) -> "Inputs":
        """What the model is called with for some rows."""


def write(
    agent: HasNetwork, architecture: Architecture, sample: Rows, onnx: bool
) -> tuple[list[Part], dict[str, bytes]]:
    """The files of a network: its weights, and its ONNX form where asked for or not built from a name."""
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

    def inputs(self, rows: Rows) -> "Inputs":
        return for_network(self.name, rows)


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

    def predict(rows: Rows) -> Array:
        inputs = for_network("the model", rows, floats=True)
        with torch.inference_mode():
            out = torch.cat([called(module, batch) for batch in in_batches(inputs)])
            return task_named(task).predictions(single_precision(out)).numpy()

    return predict


def _onnx(data: bytes) -> Predict:
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise ConsilienceError("this network predicts through ONNX: pip install 'consilience[export]'.") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    with reading(ONNX):
        graph = onnx.load_model_from_string(data)
        _check_closed(graph)
        checked = graph.SerializeToString()  # what was checked, and nothing beside it
        session = onnxruntime.InferenceSession(checked, options, providers=["CPUExecutionProvider"])
    dtypes = {node.name: np.int64 if "int64" in node.type else np.float32 for node in session.get_inputs()}

    def predict(rows: Rows) -> Array:
        inputs = for_network("the model", rows)
        parts = []
        for batch in in_batches(inputs):
            named = batch if isinstance(batch, dict) else {INPUT: batch}
            fed = {name: named[name].numpy().astype(kind, copy=False) for name, kind in dtypes.items()}
            parts.append(session.run([OUTPUT], fed)[0])
        return np.concatenate(parts)

    return predict


def _check_closed(model: Any) -> None:
    """Refuses a network that names files for its numbers, anywhere in it, or operators that are not ONNX's own."""
    import onnx

    domains = {"", "ai.onnx", "ai.onnx.ml"} | {function.domain for function in model.functions}
    waiting = [model]
    while waiting:
        message = waiting.pop()
        if isinstance(message, onnx.TensorProto) and (
            message.external_data or message.data_location == onnx.TensorProto.EXTERNAL
        ):
            raise ConsilienceError(
                f"{ONNX} takes numbers from a file outside of it, which could be any file of yours. It was not loaded."
            )
        if isinstance(message, onnx.NodeProto) and message.domain not in domains:
            raise ConsilienceError(f"{ONNX} has operators of {message.domain!r:.40}, which are not ONNX's own.")
        for field, value in message.ListFields():
            if field.message_type is not None:
                waiting.extend(value if isinstance(value, Sequence) or hasattr(value, "add") else [value])


def _onnx_bytes(agent: HasNetwork, sample: Rows) -> bytes:
    """The network, with what makes predictions of its output, for any number of samples."""
    import torch

    try:
        import onnxscript  # noqa: F401 (torch.onnx needs it)
    except ImportError as error:
        raise ConsilienceError(
            f"agent {agent.name!r}: a network is exported as ONNX, which needs more packages: "
            "pip install 'consilience[export]'."
        ) from error

    class WithPredictions(torch.nn.Module):
        def __init__(self, network: "nn.Module", task: Task) -> None:
            super().__init__()
            self.network, self.task = network, task

        def forward(self, x: Any) -> Any:
            return self.task.predictions(single_precision(called(self.network, x)))

    inputs = agent.inputs(sample)
    inputs = picked(on(inputs, torch.device("cpu")), torch.arange(3) % size(inputs))  # of one it would be a constant
    samples = {0: torch.export.Dim("samples")}
    named = isinstance(inputs, dict)
    module = WithPredictions(copy.deepcopy(agent.model).cpu(), agent.task).eval()
    try:
        with _quiet():
            program: Any = torch.onnx.export(
                module,
                kwargs={"x": inputs},
                dynamo=True,
                verbose=False,
                input_names=list(inputs) if named else [INPUT],
                output_names=[OUTPUT],
                dynamic_shapes={"x": dict.fromkeys(inputs, samples) if named else samples},
            )
            file = io.BytesIO()
            program.save(file)
    except Exception as error:  # whatever a module of the user's does when it is traced
        reason = str(error.__cause__ or error).strip().splitlines()[0]
        raise ConsilienceError(
            f"agent {agent.name!r}: its network cannot be written as ONNX ({reason}). "
            "Make its forward pass free of Python branches on values, or keep agent.model.state_dict() yourself."
        ) from error
    return file.getvalue()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's notes on what is not installed."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
