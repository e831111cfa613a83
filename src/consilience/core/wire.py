"""The form of published predictions: how they are encoded to a known number of bytes, and decoded.

The bytes do not describe themselves: samples, outputs and form are agreed before. All numbers are little-endian, row by
row. Predictions that were rounded once do not change when they are encoded and decoded again.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consilience.base.errors import ConsilienceError
from consilience.base.options import Options, option

Array = NDArray[Any]
FORMS = ("float32", "float16", "top-k", "label")


@dataclass(frozen=True)
class Wire(Options):
    """The form in which an agent's predictions (samples, outputs) are published.

    - float32: unchanged, 4 bytes a number.
    - float16: rounded, 2 bytes a number. Rows of probabilities then sum to one within 0.0005.
    - top-k: of each row the `top` largest probabilities in float16, largest first, then for all rows their classes, in
      one byte each up to 256 classes, two up to 65,536 and four beyond. The rest of a row is spread evenly over the
      other classes.
    - label: of each row only the most probable class, in as many bytes as in top-k; for readers its probability is one.

    >>> wire = Wire("top-k", top=1)
    >>> data = wire.encode(np.array([[0.75, 0.2, 0.05]], np.float32))
    >>> len(data) == wire.size(1, 3)
    True
    >>> wire.decode(data, 1, 3).tolist()
    [[0.75, 0.125, 0.125]]
    """

    form: str = option(
        "float32", "float32 | float16 | top-k (the largest and their classes) | label (one class)", one_of=FORMS
    )
    top: int = option(3, "top-k: number of probabilities that are published, at most all but one", at_least=1)

    def size(self, samples: int, outputs: int) -> int:
        """Bytes of an agent's predictions."""
        if self.form == "label":
            return samples * _class_type(outputs).itemsize
        if self.form == "top-k":
            return samples * self._kept(outputs) * (2 + _class_type(outputs).itemsize)
        return samples * outputs * (2 if self.form == "float16" else 4)

    def encode(self, f: Array) -> bytes:
        """Predictions as bytes."""
        if self.form == "float32":
            return np.ascontiguousarray(f, dtype="<f4").tobytes()
        if self.form == "top-k":
            classes = np.argsort(-f, axis=1, kind="stable")[:, : self._kept(f.shape[1])]
            values = np.take_along_axis(f, classes, axis=1)
            return values.astype("<f2").tobytes() + classes.astype(_class_type(f.shape[1])).tobytes()
        if self.form == "label":
            return bytes(f.argmax(axis=1).astype(_class_type(f.shape[1])).tobytes())
        if np.abs(f).max(initial=0) > np.finfo(np.float16).max:
            raise ConsilienceError("some predictions are too large for wire 'float16' (above 65504). Use float32.")
        return f.astype("<f2").tobytes()

    def decode(self, data: bytes | memoryview, samples: int, outputs: int) -> Array:
        """Predictions (samples, outputs) in float32; an error if `data` has another form. Sums are not checked."""
        if len(data) != self.size(samples, outputs):
            raise ConsilienceError(
                f"predictions of {len(data)} bytes, but {samples} samples of {outputs} outputs in the form {self.form} "
                f"have {self.size(samples, outputs)}. Do all agents use the same shared data, classes and wire?"
            )
        if self.form == "label":
            return _certain(np.frombuffer(data, _class_type(outputs)), outputs)
        if self.form != "top-k":
            numbers = np.frombuffer(data, dtype="<f2" if self.form == "float16" else "<f4")
            return numbers.astype(np.float32).reshape(samples, outputs)
        kept = self._kept(outputs)
        values = np.frombuffer(data, "<f2", samples * kept).astype(np.float32).reshape(samples, kept)
        classes = (
            np.frombuffer(data, _class_type(outputs), offset=values.size * 2).astype(np.intp).reshape(samples, kept)
        )
        marked = np.zeros((samples, outputs), dtype=bool)
        if classes.max(initial=0) < outputs:
            np.put_along_axis(marked, classes, True, axis=1)
        if marked.sum() != classes.size or not np.isfinite(values).all():
            raise ConsilienceError(
                f"predictions in the form top-k name a class twice in a row, one beyond the {outputs} there are, or "
                "values that are not finite. Ask the sender to publish again."
            )
        rest = (1 - values.sum(axis=1, dtype=np.float64)) / max(1, outputs - kept)
        f = np.repeat(np.clip(rest, 0, values.min(axis=1)).astype(np.float32)[:, None], outputs, axis=1)
        np.put_along_axis(f, classes, values, axis=1)
        return f

    def rounded(self, f: Array) -> Array:
        """`f` as readers decode it."""
        return f if self.form == "float32" else self.decode(self.encode(f), *f.shape)

    def _kept(self, outputs: int) -> int:
        return max(1, min(self.top, outputs - 1))


def _certain(classes: Array, outputs: int) -> Array:
    """One-hot rows."""
    if classes.max(initial=0) >= outputs:
        raise ConsilienceError(
            f"predictions in the form label name a class beyond the {outputs} there are. Ask the sender to publish "
            "again."
        )
    f = np.zeros((len(classes), outputs), dtype=np.float32)
    f[np.arange(len(classes)), classes.astype(np.intp)] = 1
    return f


def _class_type(outputs: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype("<u1") if outputs <= 2**8 else np.dtype("<u2") if outputs <= 2**16 else np.dtype("<u4")
