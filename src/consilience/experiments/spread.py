"""Which worker trains which agents, and how many workers pay off. Decided from settings and sample counts alone."""

from collections.abc import Mapping, Sequence

from consilience.experiments.settings import Settings
from consilience.runtime.rounds import Method

PAYS_OFF = 30.0
"""Expected seconds of training that every worker must get. Starting one takes a few; below this, fewer are used."""

_MICROSECONDS = {
    "linear": (4, 0.004),
    "mlp": (8, 0.006),
    "cnn": (14, 0.07),
    "convnet": (28, 0.03),
    "resnet20": (500, 1.0),
    "efficientnet": (2000, 1.0),
    "efficientnet-pretrained": (2000, 1.0),
    "forest": (550, 0.0),
    "boosting": (2000, 0.0),
    "logistic": (30, 0.0),
}
"""For one sample once through training on one core: so many, and so many for each value of the input. Only the order of
magnitude counts, and how models compare."""

_REFITTED = ("forest", "boosting", "logistic")
"""Models that see all private and all shared samples once a round."""

_DATASETS = {
    "digits": (1797, 10, 64),
    "breast-cancer": (569, 2, 30),
    "heart-disease": (740, 8, 13),
    "cifar10": (60000, 10, 3072),
    "cifar100": (60000, 100, 3072),
    "fed-isic2019": (23247, 48, 12288),
    "polynomial": (200, 1, 1),
}
"""Samples; classes (times hospitals), to each of which `limit` applies; values of an input."""


def expected_costs(settings: Settings, samples: Mapping[str, int], values: int) -> dict[str, float]:
    """Seconds that each agent trains in a round of collaboration: passes x samples x cost of its model.

    `samples` are the agents' numbers of them, in order; an input has so many `values`.
    """
    costs = {}
    for number, (name, size) in enumerate(samples.items()):
        model = settings.models[number % len(settings.models)]
        fixed, per_value = _MICROSECONDS.get(model, (10, 0.0))
        per_sample = (fixed + per_value * values) * 1e-6
        if model in _REFITTED:
            costs[name] = per_sample * (size + settings.agents * settings.shared_per_agent)
        else:
            costs[name] = per_sample * size * settings.epochs * (1 + settings.shared_batch / settings.batch)
    return costs


def spread(costs: Mapping[str, float], workers: int) -> list[list[str]]:
    """The agents of each worker: the costliest first, each to the worker that has least to do.

    At most `workers` of them, none without agents; the first holds the first agent. `costs` name all agents in order,
    and so do the agents of a worker.

    >>> spread({"a": 1.0, "b": 2.0, "c": 2.0, "d": 3.0}, 2)
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


def team_sizes(runs: Sequence[tuple[Settings, str]], workers: int, asked: bool) -> list[int]:
    """How many workers each of these runs (settings, method) gets, when there are `workers` in all.

    As many runs as possible go side by side, one worker each: nothing is as cheap. The remainder of runs / workers,
    which would leave workers idle at the end, comes first, each of its runs spread over several workers where that
    pays off; if somebody `asked` for more workers than there are runs, it need not.

    >>> team_sizes([(Settings(dataset="cifar10", models=("resnet20",)), "dynamic")] * 5, 4, asked=False)
    [4, 1, 1, 1, 1]
    """
    sizes = [1] * len(runs)
    rest = len(runs) % workers
    for number, (settings, method) in enumerate(runs[:rest]):
        share = workers // rest + (number < workers % rest)
        if not (asked and len(runs) < workers):
            share = min(share, int(_expected_seconds(settings, method) / PAYS_OFF))
        sizes[number] = max(1, min(share, settings.agents))
    return sizes


def _expected_seconds(settings: Settings, method: str) -> float:
    """Of a whole run on one core. Every agent is taken to have the same number of samples."""
    total, parts, values = _DATASETS.get(settings.dataset, (0, 0, 0))
    values = 3 * settings.side**2 or values
    if settings.limit:
        total = min(total, settings.limit * parts)
    each = int(total * (1 - settings.target_fraction) / settings.agents) - settings.shared_per_agent
    each = int(each * (1 - settings.test_fraction))
    samples = {str(agent): max(0, each) for agent in range(settings.agents)}
    together = sum(expected_costs(settings, samples, values).values())
    algorithm = settings.algorithm(method)
    warmup = min(algorithm.warmup, settings.rounds) if isinstance(algorithm, Method) else settings.rounds
    alone = together / (1 + settings.shared_batch / settings.batch)
    return warmup * alone + (settings.rounds - warmup) * together
