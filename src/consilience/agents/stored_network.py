"""What is kept of an agent around a network: weights, the state of its training, and how it trains, as text."""

import hashlib
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from consilience.agents.optimizers import (
    MakeOptimizer,
    Optimizer,
    as_numpy,
    optimizer_arrays,
    optimizer_text,
    restore_optimizer,
)
from consilience.agents.protocol import Weights, with_prefix
from consilience.agents.tensors import Inputs
from consilience.agents.training import Training
from consilience.base.errors import ConsilienceError
from consilience.base.options import stable_text
from consilience.base.rows import Rows, fingerprint
from consilience.privacy.mechanism import Mechanism
from consilience.tasks.protocol import Array


class StoredNetwork:
    """Weights that can be averaged, checkpoints, and training settings of an agent whose model is a torch module."""

    name: str
    seed: int
    model: nn.Module
    x: Inputs
    y: Tensor
    training: Training
    augment: Callable[[Any], Any] | None
    optimizer: Optimizer
    mechanism: Mechanism | None
    """How private rows are protected, and the budget spent; None for an agent without privacy."""
    _make_optimizer: MakeOptimizer
    _noise: float | None
    _round: int

    @property
    def lr(self) -> float:
        """The learning rate that the optimizer uses for all parameters."""
        rates = {float(group["lr"]) for group in self.optimizer.param_groups}
        if len(rates) > 1 or min(rates) <= 0:
            raise ConsilienceError(
                f"agent {self.name!r}: the optimizer has learning rates {sorted(rates)}, but the method needs one, "
                "above 0. Give all parameters the same."
            )
        return rates.pop()

    def reset_optimizer(self) -> None:
        """Starts the optimizer afresh: no momentum, no second moments."""
        self.optimizer = self._make_optimizer(self.model.parameters())

    @property
    def trained_names(self) -> list[str]:
        """Names of the parameters."""
        return [name for name, tensor in self.model.named_parameters() if tensor.is_floating_point()]

    def weights(self) -> Weights:
        """Copies of all parameters and of the buffers that can be averaged, such as batch norm's running statistics.

        Buffers of whole numbers, such as batch norm's count of batches, stay each agent's own.
        """
        return {name: as_numpy(tensor) for name, tensor in self._averageable().items()}

    def set_weights(self, weights: Weights) -> None:
        """Sets what `weights` returned of an agent with the same architecture."""
        with torch.no_grad():
            for name, tensor in self._averageable().items():
                tensor.copy_(torch.from_numpy(weights[name]))

    def _stored(self) -> dict[str, Tensor]:
        """Parameters and buffers; not constants that are not saved, such as the filters of a fixed layer.

        In one pass over the modules: many agents with small networks are asked several times a round.
        """
        parameters: dict[str, Tensor] = {}
        buffers: dict[str, Tensor] = {}
        seen = set()
        for path, module in self.model.named_modules():
            start = f"{path}." if path else ""
            for name, own in (*module._parameters.items(), *module._buffers.items()):
                if own is not None and own not in seen and name not in module._non_persistent_buffers_set:
                    (parameters if name in module._parameters else buffers)[start + name] = own
                    seen.add(own)
        return parameters | buffers

    def _averageable(self) -> dict[str, Tensor]:
        return {name: tensor for name, tensor in self._stored().items() if tensor.is_floating_point()}

    def state(self) -> dict[str, Array]:
        """Weights, buffers, optimizer state and the number of rounds trained."""
        saved = {f"model.{key}": as_numpy(value) for key, value in self.model.state_dict().items()}
        saved |= optimizer_arrays(self.optimizer)
        if self.mechanism is not None:
            saved |= {f"privacy.{key}": value for key, value in self.mechanism.state().items()}
        noise = {} if self._noise is None else {"noise": np.array(self._noise)}
        return saved | {"round": np.array(self._round)} | noise

    def restore(self, state: dict[str, Array], shared: Rows) -> None:
        """Restores weights, buffers, optimizer state and the number of rounds trained."""
        self._round, self._noise = int(state["round"]), float(state["noise"]) if "noise" in state else None
        if self.mechanism is not None:
            privacy = with_prefix(state, "privacy.")
            if not privacy:
                raise ConsilienceError(
                    f"agent {self.name!r} is private, but the checkpoint is of an agent that was not: it is not known "
                    "what its predictions have given away. Start again in another folder."
                )
            self.mechanism.restore(privacy)
        weights = with_prefix(state, "model.")
        self.model.load_state_dict({key: torch.from_numpy(value) for key, value in weights.items()})
        restore_optimizer(self.optimizer, state)

    def fingerprint(self) -> str:
        """SHA-256 of the private data, as the model takes them."""
        return fingerprint(self.x, self.y)

    def training_settings(self) -> dict[str, str]:
        """The seed, the optimizer, the layers and the options of training, as text."""
        names = [option.name for option in fields(self.training) if option.name not in ("lr", "augment")]
        privacy = {} if self.mechanism is None else {"the privacy": stable_text(self.mechanism.privacy)}
        return (
            {
                "the seed": str(self.seed),
                "the optimizer": optimizer_text(self.optimizer),
                "the layers": hashlib.sha256(stable_text(self.model).encode()).hexdigest()[:16],
            }
            | {name: stable_text(getattr(self.training, name)) for name in names}
            | {"augment": stable_text(self.augment)}
            | privacy
        )
