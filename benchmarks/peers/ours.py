"""consilience: a whole run, with scores, checkpoints and history; or with `training`, training and averaging alone."""

import sys
import tempfile
import time
from pathlib import Path

import torch
from task import read

import consilience as cs
from consilience.agents.local_agents import LocalAgents
from consilience.agents.training import Training
from consilience.base.malloc import keep_memory
from consilience.extend import InMemory, Start
from consilience.runtime.callbacks import Event, Finished
from consilience.runtime.driver import run_rounds
from consilience.runtime.history import Evaluation
from consilience.runtime.summary import Summary, summarised

task = read()
keep_memory()
training = Training(epochs=task.epochs, batch=task.batch, lr=task.lr)
agents = [
    cs.TorchAgent(task.model(), x.numpy(), y.numpy(), str(number), training=training)
    for number, (x, y) in enumerate(zip(task.x, task.y, strict=True))
]
names, shared = tuple(agent.name for agent in agents), task.x[0].numpy()
exchange, method = InMemory(names), cs.FedAvg()
ends = [time.process_time()]
if "training" in sys.argv:
    for _ in method.rounds(LocalAgents(agents, names), shared[:1], exchange, Start(task.rounds)):
        ends.append(time.process_time())
else:

    def note(event: Event) -> None:
        if isinstance(event, Finished):
            ends.append(time.process_time())

    y = task.y[0].numpy()
    summary = Summary(method.label, method.title, "classification", task.rounds, 0, len(y), agents=summarised(agents))
    with tempfile.TemporaryDirectory() as folder:
        evaluation = Evaluation(y, (shared, y))
        run_rounds(agents, shared, exchange, method, summary, evaluation, folder=Path(folder), emit=note)
task.tell(ends, [torch.from_numpy(weight) for weight in agents[0].weights().values()])
