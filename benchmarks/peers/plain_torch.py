"""A loop over agents in torch, with its Adam and its autograd."""

import time

from task import mean_of, read, set_weights

task = read()
weights, ends = task.weights, [time.process_time()]
models = [task.model() for _ in task.x]
for _ in range(task.rounds):
    for agent, model in enumerate(models):
        set_weights(model, weights)
        task.train(model, agent)
    weights = mean_of(models)
    ends.append(time.process_time())
task.tell(ends, weights)
