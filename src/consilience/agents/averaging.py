"""The average of a model's weights over the steps of training, which predicts better than the last weights."""

from copy import deepcopy
from typing import final

import torch
from torch import Tensor, nn

_STEPS = "steps"


@final
class AveragedWeights:
    """a <- d a + (1 - d) w after every step, with d = min(decay, (1 + n) / (10 + n)) in step n (Polyak averaging).

    The first steps count for less, so that they are soon forgotten. Running statistics of batch norm are averaged, too;
    integer buffers are copied from the model.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = deepcopy(model)
        self._decay, self._steps = decay, 0

    def begin(self, model: nn.Module) -> None:
        """Restarts the average from the weights of `model`."""
        self.model.load_state_dict(model.state_dict())
        self._steps = 0

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Updates the average with the weights after another step."""
        self._steps += 1
        decay = min(self._decay, (1 + self._steps) / (10 + self._steps))
        for mean, weight in zip(self.model.state_dict().values(), model.state_dict().values(), strict=True):
            if mean.is_floating_point():
                mean.lerp_(weight, 1 - decay)
            else:
                mean.copy_(weight)

    def state(self) -> dict[str, Tensor]:
        """The average and the number of steps, for a checkpoint."""
        return {**self.model.state_dict(), _STEPS: torch.tensor(self._steps)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Restores what `state` returned."""
        self._steps = int(state[_STEPS])
        self.model.load_state_dict({key: value for key, value in state.items() if key != _STEPS})
