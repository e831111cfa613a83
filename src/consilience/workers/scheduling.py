"""Which worker trains which agents, and how many workers pay off, from settings and sample counts alone."""

from collections.abc import Mapping, Sequence

from consilience.agents.models import cost_of
from consilience.data.datasets import size_of
from consilience.settings.settings import Settings

PAYS_OFF = 30.0
"""Expected seconds of training that every worker must get. Starting one takes a few; below this, fewer are used."""


def expected_costs(settings: Settings, samples: Mapping[str, int], values: int) -> dict[str, float]:
    """Seconds that each agent trains in a round of collaboration: passes x samples x cost of its model.

    `samples` are the agents' numbers of samples, in order, and `values` the numbers of one input.
    """
    training, models, costs = settings.training, settings.agents.models, {}
    for number, (name, size) in enumerate(samples.items()):
        cost = cost_of(models[number % len(models)])
        per_sample = (cost.each + cost.per_value * values) * 1e-6
        if cost.refits:
            costs[name] = per_sample * (size + settings.agents.count * settings.data.shared_per_agent)
        else:
            costs[name] = per_sample * size * training.epochs * (1 + training.shared_batch / training.batch)
    return costs


def balance(costs: Mapping[str, float], workers: int) -> list[list[str]]:
    """The agents of each worker: the costliest first, each to the worker that has least to do.

    At most `workers` of them, each with agents; the first has the first agent. `costs` name all agents in order, and so
    does the answer for each worker.

    >>> balance({"a": 1.0, "b": 2.0, "c": 2.0, "d": 3.0}, 2)
    [['a', 'd'], ['b', 'c']]
    """
    roster = list(costs)
    loads = [0.0] * min(workers, len(roster))
    held: list[list[str]] = [[] for _ in loads]
    for name in sorted(roster, key=lambda name: -costs[name]):
        least = min(range(len(loads)), key=lambda worker: (loads[worker], len(held[worker])))
        loads[least] += costs[name]
        held[least].append(name)
    return sorted((sorted(names, key=roster.index) for names in held), key=lambda names: roster.index(names[0]))


def team_sizes(runs: Sequence[Settings], workers: int, asked: bool) -> list[int]:
    """How many workers each of these runs gets, when there are `workers` in all.

    As many runs as possible go side by side, one worker each: nothing is as cheap. The remainder of runs / workers,
    which would leave workers idle at the end, comes first, each of its runs spread over several workers where that
    pays off; if somebody `asked` for more workers than there are runs, it need not.

    >>> from consilience.settings.settings import changed
    >>> large = changed(Settings(), {"dataset": "cifar10", "models": ["resnet20"]})
    >>> team_sizes([large] * 5, 4, asked=False)
    [4, 1, 1, 1, 1]
    """
    sizes = [1] * len(runs)
    rest = len(runs) % workers
    for number, settings in enumerate(runs[:rest]):
        share = workers // rest + (number < workers % rest)
        if not (asked and len(runs) < workers):
            share = min(share, int(_expected_seconds(settings) / PAYS_OFF))
        sizes[number] = max(1, min(share, settings.agents.count))
    return sizes


def _expected_seconds(settings: Settings) -> float:
    """Of a whole run on one core. Every agent is taken to have the same number of samples."""
    data, training, rounds, agents = settings.data, settings.training, settings.run.rounds, settings.agents.count
    size = size_of(data.dataset)
    values = 3 * data.side**2 or size.values
    total = min(size.samples, data.limit * size.parts) if data.limit else size.samples
    each = int(total * (1 - data.target_fraction) / agents) - data.shared_per_agent
    each = int(each * (1 - data.test_fraction))
    samples = {str(agent): max(0, each) for agent in range(agents)}
    together = sum(expected_costs(settings, samples, values).values())
    alone = together / (1 + training.shared_batch / training.batch)
    warmup = min(settings.method.warmup, rounds) if settings.method.uses_shared else rounds
    return warmup * alone + (rounds - warmup) * together
