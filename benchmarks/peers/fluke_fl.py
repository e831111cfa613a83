"""fluke: its Client, Server and CentralizedFL, which is FedAvg, without evaluation.

It imports torchvision. Beside a torch without CUDA the compiled part of some builds does not load; then its operators,
which nothing here calls, are declared before the import.
"""

import time

import torch

try:
    import torchvision  # noqa: F401
except RuntimeError:
    OPERATORS = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        OPERATORS.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from fluke import DDict, FlukeENV
from fluke.algorithms import CentralizedFL
from fluke.client import Client
from fluke.config import OptimizerConfigurator
from fluke.data import FastDataLoader
from fluke.server import Server
from fluke.utils import FederationObserver
from task import read
from torch import nn

task = read()
FlukeENV().set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
FlukeENV().set_inmemory(True)


class Clock(FederationObserver):
    """Notes when rounds end."""

    def end_round(self, round: int) -> None:
        ends.append(time.process_time())


ends: list[float] = []
adam = OptimizerConfigurator(DDict(name="Adam", lr=task.lr))
clients = [
    Client(
        index=agent,
        train_set=FastDataLoader(x, y, num_labels=10, batch_size=task.batch, shuffle=True),
        test_set=None,
        optimizer_cfg=adam,
        loss_fn=nn.CrossEntropyLoss(),
        local_epochs=task.epochs,
    )
    for agent, (x, y) in enumerate(zip(task.x, task.y, strict=True))
]
server = Server(task.model(), None, clients)
federation = CentralizedFL(len(clients), None, {}, clients=clients, server=server)
federation.set_callbacks(Clock())
ends.append(time.process_time())
federation.run(task.rounds, 1.0)
task.tell(ends, list(server.model.parameters()))
