"""Flower's simulation: a ClientApp and the strategy FedAvg on Ray, without evaluation."""

import os
import sys
from pathlib import Path

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from task import cpu_of_all, read

client, server, path = ClientApp(), ServerApp(), str(Path(sys.argv[1]).resolve())


@client.train()
def train(message: Message, context: Context) -> Message:
    """A round of one agent."""
    own = read(path)
    model = own.model()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    own.train(model, int(context.node_config["partition-id"]))
    samples = MetricRecord({"num-examples": own.x.shape[1]})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": samples}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """All rounds."""
    ends = []
    every = len(task.x)
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=every, min_available_nodes=every)
    result = strategy.start(
        grid,
        ArrayRecord(task.model().state_dict()),
        task.rounds,
        evaluate_fn=lambda number, arrays: ends.append(cpu_of_all()),
    )
    task.tell(ends, [torch.as_tensor(value) for value in result.arrays.to_torch_state_dict().values()])


task = read(path)
ray = {"include_dashboard": False, "_node_ip_address": "127.0.0.1", "logging_level": "error", "log_to_driver": False}
run_simulation(
    server,
    client,
    num_supernodes=len(task.x),
    backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": ray},
)
