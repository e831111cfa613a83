"""The networks of `agents/networks.py` under their names; torch is imported when one is made."""

from importlib import import_module
from typing import Any

from consilience.agents.models import Cost, network

_COSTS = {
    "linear": Cost(4, 0.004),
    "mlp": Cost(8, 0.006),
    "cnn": Cost(14, 0.07),
    "convnet": Cost(28, 0.03),
    "resnet20": Cost(500, 1.0),
    "efficientnet": Cost(2000, 1.0),
    "efficientnet-pretrained": Cost(2000, 1.0),
}


def _register(name: str, cost: Cost) -> None:
    @network(name, cost)
    def make(shape: tuple[int, ...], outputs: int) -> Any:
        return getattr(import_module("consilience.agents.networks"), name.replace("-", "_"))(shape, outputs)


for _name, _cost in _COSTS.items():
    _register(_name, _cost)
