"""All agents as one computation with torch.func: vmap over the gradient of a functional call, and Adam on the stack."""

import time

import torch
from task import read
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn import functional

task = read()
model = task.model()
names = [name for name, _ in model.named_parameters()]


def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(functional_call(model, weights, (x,)), y)


gradients = vmap(grad(loss))
average, ends, agents = task.weights, [time.process_time()], torch.arange(len(task.x))[:, None]
for _ in range(task.rounds):
    weights = {
        name: weight.expand(len(task.x), *weight.shape).clone() for name, weight in zip(names, average, strict=True)
    }
    optimizer = torch.optim.Adam(weights.values(), lr=task.lr)
    for _ in range(task.epochs):
        for rows in zip(*(task.batches() for _ in task.x), strict=True):
            picked = torch.stack(rows)
            for name, gradient in gradients(weights, task.x[agents, picked], task.y[agents, picked]).items():
                weights[name].grad = gradient
            optimizer.step()
    average = [weight.mean(dim=0) for weight in weights.values()]
    ends.append(time.process_time())
task.tell(ends, average)
