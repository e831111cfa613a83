"""Arguments of torch agents, given one by one."""

from dataclasses import fields
from typing import Any

from consilience.agents.training import Training

NAMES = {field.name for field in fields(Training)}


def torch_options(**options: Any) -> dict[str, Any]:
    """The same arguments for `TorchAgent`: those about training within `training`."""
    training = {key: value for key, value in options.items() if key in NAMES and not callable(value)}
    return {key: value for key, value in options.items() if key not in training} | {"training": Training(**training)}
