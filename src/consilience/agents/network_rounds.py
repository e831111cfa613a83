"""Which samples an agent around a network takes in each step of a round, its random numbers, and how a round ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite

import torch

from consilience.agents.newton import Exact
from consilience.agents.protocol import Losses
from consilience.agents.stored_network import StoredNetwork
from consilience.agents.training import batches, endless_batches, number_of_batches
from consilience.agents.unreadable import FILL, first_gap
from consilience.base.errors import ConsilienceError
from consilience.core.streams import stream
from consilience.privacy.mechanism import Draws
from consilience.tasks.protocol import Array


class NetworkRounds(StoredNetwork):
    """The rounds of an agent whose model is a torch module."""

    samples: int
    device: torch.device
    _exact: Exact | None

    def next_round(self, shared: int, draws: Draws | None = None) -> Iterator[tuple[Array, Array | None]]:
        """Begins a round. The samples of each step: of the private and, if any are used, of the `shared` many.

        A private agent's steps take Poisson samples, from `draws`, of the same expected size.
        """
        self._round += 1
        draw = stream(self.seed, "batches", self.name, self._round)
        picks = endless_batches(draw, shared, self.training.shared_batch) if shared else None
        if draws is not None and self.mechanism is not None:
            rate = self.mechanism.rate
            return (
                (draws.chosen(self.samples, rate), next(picks) if picks is not None else None)
                for _ in range(self.steps)
            )
        return (
            (own, next(picks) if picks is not None else None)
            for _ in range(self.training.epochs)
            for own in batches(draw, self.samples, self.training.batch)
        )

    def shared_batches(self, samples: int, passes: int) -> list[Array]:
        """The samples of each step of so many passes over the shared data alone."""
        draw = stream(self.seed, "digest", self.name, self._round)
        return [pick for _ in range(passes) for pick in batches(draw, samples, self.training.shared_batch)]

    def _draws(self) -> Draws | None:
        """Begins a private round and returns its random draws; None without privacy, or where the budget is spent."""
        if self.mechanism is None:
            return None
        self.mechanism.agent = self.name
        return self.mechanism.begin(self._round + 1)

    def end_round(self, local: float, disagreement: float, trained: int, forward: int = 0) -> Losses:
        """Ends a round whose losses had these sums over its steps; returns their means, and the samples passed."""
        if self.mechanism is not None:
            self.mechanism.end(self._round)
        if not isfinite(local):
            gap = first_gap(self.x)
            raise ConsilienceError(
                f"agent {self.name!r}: training diverged in round {self._round} (the loss is not finite). "
                + (f"Of its own rows, {gap}. {FILL}" if gap else "Use a smaller learning rate, and scale the inputs.")
            )
        return Losses(local / self.steps, disagreement / self.steps, trained, forward)

    @property
    def steps(self) -> int:
        """Optimizer steps in a round of training."""
        batches_of_epoch = 1 if self._exact is not None else number_of_batches(self.samples, self.training.batch)
        return self.training.epochs * batches_of_epoch

    @contextmanager
    def _torch_stream(self, purpose: str = "torch") -> Iterator[None]:
        """Within it, dropout and the like draw from the agent's own stream; torch's global generator is unchanged."""
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(int(stream(self.seed, purpose, self.name, self._round).integers(2**63)))
            yield
