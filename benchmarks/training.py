"""Training: images a second against the plain loop, and as a share of what matrix products allow."""

import time
from multiprocessing import get_context
from multiprocessing.connection import Connection

import numpy as np
import torch

from benchmarks.plain import PlainAgent, plain_model
from benchmarks.timing import ms, over, ranged, table, turns
from consilience.agents import networks
from consilience.agents.batched import LARGEST_MODEL
from consilience.agents.local_agents import LocalAgents
from consilience.agents.torch_agent import TorchAgent
from consilience.agents.training import Training
from consilience.base.malloc import keep_memory

GFLOP_PER_IMAGE = {"resnet20": 0.242}
"""Forward and backward pass, 2 operations for each multiply-add."""
STEPS = {"resnet20": 3, "convnet": 30}
PROCESSES = 2
SIDE, PRODUCTS = 1024, 30


def run() -> str:
    """The section on training."""
    return f"## Training\n\n{_images()}\n{_small_models()}"


def _images() -> str:
    rows = []
    for name, steps in STEPS.items():
        seconds = _against_plain(name, steps)
        products = [PROCESSES * PRODUCTS * 2 * SIDE**3 / taken / 1e9 for taken in seconds.pop("product")]
        speeds = {
            what: [320 * steps * (PROCESSES if what.endswith("processes") else 1) / one for one in taken]
            for what, taken in seconds.items()
        }
        plain = speeds["plain loop, two threads"]
        for what, own in speeds.items():
            shares = "-"
            if name in GFLOP_PER_IMAGE:
                shares = ranged(over([speed * GFLOP_PER_IMAGE[name] for speed in own], products), 100, "%")
            rows.append([f"{name}, {what}", ranged(own), ranged(over(own, plain)), shares])
    return (
        "Images a second of a step with 64 private and 256 shared 32x32 colour images. The plain loop has DataLoaders, "
        "`(channels, height, width)` images, torch's Adam and two threads; ours is `TorchAgent.train`, with one thread "
        f"in each process. The limit is that of a {SIDE}x{SIDE} matrix product in {PROCESSES} processes at the same "
        "time, for 242 MFLOP an image.\n\n" + table(["network", "images/s", "times plain", "of the limit"], rows)
    )


def _against_plain(name: str, steps: int) -> dict[str, list[float]]:
    """Seconds of so many steps in each way, and of matrix products in all processes."""
    context = get_context("spawn")
    pipes, workers = [], []
    for number in range(PROCESSES):
        here, there = context.Pipe()
        workers.append(context.Process(target=_worker, args=(name, steps, number, there), daemon=True))
        workers[-1].start()
        pipes.append(here)

    def all_do(what: str) -> None:
        for pipe in pipes:
            pipe.send(what)
        for pipe in pipes:
            pipe.recv()

    def one_does(what: str) -> None:
        pipes[0].send(what)
        pipes[0].recv()

    x, y, shared, psi = (torch.from_numpy(part) for part in _data(steps))
    torch.manual_seed(0)
    plain = PlainAgent(plain_model(name), x, y)
    torch.set_num_threads(2)
    all_do("product")
    seconds = turns(
        {
            "plain loop, two threads": lambda: plain.train(shared, psi, 0.5, 1),
            "ours, one process": lambda: one_does("train"),
            f"ours, {PROCESSES} processes": lambda: all_do("train"),
            "product": lambda: all_do("product"),
        },
        repeats=3,
        clock=time.perf_counter,
    )
    torch.set_num_threads(1)
    for pipe, worker in zip(pipes, workers, strict=True):
        pipe.send("end")
        worker.join()
    return seconds


def _data(steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(64 * steps, 3, 32, 32)).astype(np.float32)
    shared = draw.normal(size=(512, 3, 32, 32)).astype(np.float32)
    return x, draw.integers(0, 10, len(x)), shared, draw.dirichlet(np.ones(10), 512).astype(np.float32)


def _worker(name: str, steps: int, number: int, pipe: Connection) -> None:
    keep_memory()  # as every run does
    torch.set_num_threads(1)
    x, y, shared, psi = _data(steps)
    agent = TorchAgent(getattr(networks, name)((3, 32, 32), 10), x, y, str(number), training=Training(epochs=1))
    one, two = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)
    while (what := pipe.recv()) != "end":
        if what == "train":
            agent.train(shared, psi, 0.5)
        else:
            for _ in range(PRODUCTS):
                one @ two
        pipe.send(what)


def _small_models() -> str:
    rows = []
    for hidden in (16, 64, 256, 1024):
        seconds, parameters = _ten_networks(hidden)
        plain, one_by_one, together = seconds.values()
        ratios = [ranged(over(plain, one_by_one)), ranged(over(plain, together)), ranged(over(one_by_one, together))]
        rows.append([f"{hidden} hidden ({parameters:,} parameters)", ms(plain), *ratios])
    head = ["network", "plain loop", "one by one", "together", "together against one by one"]
    return (
        "A round of ten small networks on 64 features: some 85 samples each, 300 shared ones, five epochs; CPU time of "
        "one thread. Columns are times as fast as the plain loop; `together` is one batch of stacked weights, as with "
        f"`batched = true`, which is used up to {LARGEST_MODEL:,} parameters (here for all).\n\n" + table(head, rows)
    )


def _ten_networks(hidden: int) -> tuple[dict[str, list[float]], int]:
    from consilience.agents import batched

    draw = np.random.default_rng(0)
    sizes = draw.integers(60, 110, 10)
    shared = draw.normal(size=(300, 64)).astype(np.float32)
    psi = draw.dirichlet(np.ones(10), 300).astype(np.float32)
    labels = {str(number): psi for number in range(10)}
    ours: list[list[TorchAgent]] = [[], []]
    plain = []
    for number, size in enumerate(sizes):
        x, y = draw.normal(size=(size, 64)).astype(np.float32), draw.integers(0, 10, size)
        for agents, batch in zip(ours, (False, True), strict=True):
            agents.append(
                TorchAgent(networks.mlp((64,), 10, hidden), x, y, str(number), training=Training(batched=batch))
            )
        plain.append(PlainAgent(networks.mlp((64,), 10, hidden), torch.from_numpy(x), torch.from_numpy(y)))
    targets = torch.from_numpy(shared), torch.from_numpy(psi)
    torch.set_num_threads(1)
    before, batched.LARGEST_MODEL = batched.LARGEST_MODEL, 10**9
    seconds = turns(
        {
            "plain": lambda: [agent.train(*targets, 0.5, 5) for agent in plain],
            "one by one": lambda: LocalAgents(ours[0]).train(shared, labels, 0.5),
            "together": lambda: LocalAgents(ours[1]).train(shared, labels, 0.5),
        }
    )
    batched.LARGEST_MODEL = before
    return seconds, ours[0][0].parameters or 0
