"""What goes into an exported model: samples in the form that it takes, and what prepares them."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from consilience.errors import ConsilienceError
from consilience.export import trusted
from consilience.export.manifest import Inputs, Part
from consilience.tasks.protocol import Array


@dataclass(frozen=True)
class Scale:
    """(x - mean) / deviation, feature by feature."""

    mean: Array
    deviation: Array

    def __call__(self, x: Array) -> Array:
        """In single precision."""
        scaled: Array = ((x - self.mean) / self.deviation).astype(np.float32)
        return scaled


Prepare = Scale | Any
"""A `Scale`, or a fitted transformer of scikit-learn."""


def write_prepare(number: int, step: Prepare) -> tuple[Part, bytes]:
    """A step of the preparation as a file."""
    if isinstance(step, Scale):
        from safetensors.numpy import save

        arrays = {"mean": np.ascontiguousarray(step.mean), "deviation": np.ascontiguousarray(step.deviation)}
        return Part("prepare", "scale", f"prepare-{number}.safetensors"), save(arrays)
    if not hasattr(step, "transform"):
        raise ConsilienceError(
            f"the transform {getattr(step, '__name__', step)!r} is a Python function, which cannot be exported safely. "
            "Make it a transformer of scikit-learn, or apply it before predicting."
        )
    return Part("prepare", "skops", f"prepare-{number}.skops"), trusted.dump(step, "the preprocessing")


def read_prepare(part: Part, data: bytes) -> Callable[[Any], Any]:
    """Such a step, to be called with samples."""
    if part.form == "scale":
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            arrays = load(data)
            return Scale(arrays["mean"], arrays["deviation"])
        except (SafetensorError, KeyError) as error:
            raise ConsilienceError(f"{part.file} cannot be read ({error}).") from error
    transform: Callable[[Any], Any] = trusted.load(data, part.file).transform
    return transform


def as_samples(x: Any, inputs: Inputs) -> Array:
    """Samples as the model takes them: the columns that it knows, in its order, or arrays of its shape."""
    if inputs.columns and hasattr(x, "columns"):
        missing = [name for name in inputs.columns if name not in x.columns]
        if missing:
            known = ", ".join(map(str, x.columns))
            raise ConsilienceError(f"the table has no column {missing[0]!r}, which the model needs. It has: {known}.")
        x = x[list(inputs.columns)]
    samples = np.asarray(x)
    if samples.dtype.kind not in "fiub":
        raise ConsilienceError(f"the samples are {samples.dtype}, and the model takes numbers. Encode them first.")
    if samples.ndim == 2 and len(inputs.shape) != 1 and samples.shape[1] == prod(inputs.shape):
        samples = samples.reshape(len(samples), *inputs.shape)
    if samples.shape[1:] != inputs.shape:
        raise ConsilienceError(
            f"a sample has the shape {samples.shape[1:]}, but the model takes {inputs.shape}. "
            "Give samples as rows, with the features that it was trained on."
        )
    return samples.astype(np.float32) if samples.dtype.kind == "f" else samples.astype(inputs.dtype)
