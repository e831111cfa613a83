"""A loop over agents in torch, with its Adam and its autograd."""

from task import clocks, mean_of, read, set_weights

task = read()
weights, ends = task.weights, [clocks()]
models = [task.model() for _ in task.x]
for _ in range(task.rounds):
    for agent, model in enumerate(models):
        set_weights(model, weights)
        task.train(model, agent)
    weights = mean_of(models)
    ends.append(clocks())
task.tell(ends, weights)
