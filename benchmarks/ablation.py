"""The options of research/level.md one by one on CIFAR-10, at the same compute, beside methods that share weights.

CONSILIENCE_DATA=DATA python -m benchmarks.ablation regular|low-quality convnet|features|exact SEEDS FOLDER [ROW ...]

ROW is one of `ROWS`, or one with changes, such as "SCAFFOLD; training.lr=0.02".

Every row is run with every seed into FOLDER, where finished runs stay. With `convnet` the agents have the small
convolutional network, with `features` one learned layer on fixed features (`wavelets`), with `exact` the same layer and
the exact solver. Measured are the agents with good labels, on X*, on 5000 images that no agent has, and at home. Where
classes are known to be even on X*, and by an agent at home, predictions can be corrected for that, under any method
(`corrected`): the columns "known".
"""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import table
from consilience.agents.input_cache import cached_rows
from consilience.base.toml import value
from consilience.data.datasets import Request
from consilience.data.loading import load
from consilience.data.partitions import rank_in_class
from consilience.experiments.axes import parse_seeds
from consilience.experiments.compare import Estimate, estimate
from consilience.experiments.run import restore, run_experiment
from consilience.runtime.ensemble import collective, weights_of
from consilience.settings.presets import read_settings

Changes = dict[str, Any]
NONE: Changes = {"training.batch": 64, "training.shared_batch": 64, "run.references": []}
FEATURES: dict[str, Changes] = {
    "batches of 32": {"training.batch": 32, "training.shared_batch": 32},
    "lambda 2": {"method.lam": 2.0},
    "even prior": {"method.prior": "even"},
}
CROP = {"training.augment": "crop-flip"}
CONVNET: dict[str, Changes] = {"crop-flip": CROP} | FEATURES
SERVER: Changes = {"training.batch": 32, "method.server_ema": 0.7, "run.rounds": 21}
SCAFFOLD, FEDAVG = {"method": "scaffold"} | SERVER, {"method": "fedavg"} | SERVER
EXACT: dict[str, Changes] = {
    "duals": {"method.duals": 1.0},
    "lambda 0.25": {"method.lam": 0.25},
    "even prior": {"method.prior": "even"},
}
SOLVED: Changes = {"agents.models": ["wavelets"], "training.solver": "exact", "training.epochs": 1}
FEDDF = {"method": "feddf", "method.passes": 1, "training.shared_batch": 32} | SERVER | {"run.rounds": 17}


def features(rate: float) -> Changes:
    """One learned layer on fixed features, and the learning rate that was found for it."""
    return {"agents.models": ["wavelets"], "training.lr": rate}


def rows_of(options: dict[str, Changes], base: Changes, servers: dict[str, Changes]) -> dict[str, Changes]:
    """All options, the server methods, all options but one, no option, and each option alone."""
    everything = base | {key: value for option in options.values() for key, value in option.items()}
    return {
        "all options": everything,
        **servers,
        **{
            f"all but {name}": base | {key: value for key, value in everything.items() if key not in option}
            for name, option in options.items()
        },
        "all, with the paper's trust": everything | {"method.trust": "paper"},
        "no option": base,
        **{f"{name} alone": base | option for name, option in options.items()},
    }


ROWS = {
    "convnet": rows_of(CONVNET, {}, {"SCAFFOLD": CROP | SCAFFOLD, "FedAvg": CROP | FEDAVG}),
    "features": rows_of(
        FEATURES,
        features(0.1),
        {
            "SCAFFOLD": features(0.02) | SCAFFOLD,
            "FedAvg": features(0.02) | FEDAVG,
            "FedDF": features(0.02) | FEDDF,
        },
    ),
    "exact": rows_of(
        EXACT,
        SOLVED | {"method.warmup": 0, "run.rounds": 9},
        {
            "SCAFFOLD": features(0.02) | SCAFFOLD,
            "SCAFFOLD, exact steps": SOLVED | SCAFFOLD | {"run.rounds": 63},
            "FedAvg, exact steps": SOLVED | FEDAVG | {"run.rounds": 63},
        },
    ),
}
LIMIT, FRESH = 1000, 500
PLACES = ("X*", "fresh", "own", "fresh, known", "own, known", "collective, fresh", "collective, fresh, known")
EVEN = np.ones(10)
Array = np.ndarray


def corrected(f: Array, on_shared: Array, prior: Array) -> Array:
    """f_c prior_c / q_c, rows divided by their sums; q makes what is predicted for X* even over classes."""
    q = np.ones(f.shape[1])
    for _ in range(3):
        even = on_shared / q
        q *= f.shape[1] * (even / even.sum(axis=1, keepdims=True)).mean(axis=0)
    found = f * prior / q
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def measured(folder: Path, changes: dict[str, Any], fresh: tuple[Array, Array]) -> list[float]:
    """The scores of a run at `PLACES`, those of agents as means, and the samples trained in millions."""
    run = run_experiment(read_settings("cifar10", NONE | changes), folder, workers=1)
    found = restore(folder)
    scenario, scores = found.scenario, []
    with cached_rows([scenario.shared, fresh[0]]):
        said = {
            place: {agent.name: agent.predict(rows) for agent in found.agents}
            for place, rows in (("X*", scenario.shared), ("fresh", fresh[0]))
        }
    for agent in found.agents:
        if agent.name in scenario.low_quality:
            continue
        on_shared, on_fresh = said["X*"][agent.name], said["fresh"][agent.name]
        share = scenario.shares[agent.name]
        at_home = agent.predict(share.test_x)
        counts = np.bincount(share.y, minlength=len(EVEN)) + 1
        pairs = [(on_shared, scenario.shared_y), (on_fresh, fresh[1]), (at_home, share.test_y)]
        pairs += [(corrected(on_fresh, on_shared, EVEN), fresh[1])]
        pairs += [(corrected(at_home, on_shared, counts / counts.sum()), share.test_y)]
        scores.append([_right(f, y) for f, y in pairs])
    task = found.agents[0].task
    on_shared, on_fresh = (collective(weights_of(run), said[place], task).predictions for place in said)
    together = [_right(f, fresh[1]) for f in (on_fresh, corrected(on_fresh, on_shared, EVEN))]
    return [*np.mean(scores, axis=0), *together, run.metrics["samples_trained"].sum() / 1e6]


def _right(f: Array, y: Array) -> float:
    return float((f.argmax(axis=1) == y).mean())


def fresh_images(data: Path) -> tuple[Array, Array]:
    """Those after the first 1000 of each class, which are all that agents share among them."""
    found = load("cifar10", Request(data, LIMIT + FRESH))
    later = rank_in_class(found.y) >= LIMIT
    return found.x[later], found.y[later]


def written(values: list[Estimate], digits: bool) -> list[str]:
    """Means, or differences with their intervals."""
    return [f"{one.mean:.3f}" if digits else f"{one.mean:+.3f} ± {one.half_width:.3f}" for one in values]


def settings_of(model: str, row: str) -> Changes:
    """A row by its name, with what is changed in it behind semicolons: "SCAFFOLD; training.lr=0.02; run.rounds=63"."""
    name, *more = row.split("; ")
    return ROWS[model][name] | {key: value(text) for key, _, text in (change.partition("=") for change in more)}


def main(labels: str, model: str, seeds: list[int], folder: Path, names: list[str]) -> None:
    """Two tables: means over seeds, and paired differences from the first row."""
    fresh = fresh_images(Path(os.environ["CONSILIENCE_DATA"]))
    more = {"data.low_quality": [2, 9]} if labels == "low-quality" else {}
    rows: dict[str, Array] = {}
    for name in names or list(ROWS[model]):
        changes = settings_of(model, name) | more
        runs = [
            measured(folder / f"{name.replace(' ', '-')}-{seed}", changes | {"run.seed": seed}, fresh) for seed in seeds
        ]
        rows[name] = np.array(runs)
        print(name, *(f"{score:.3f}" for score in rows[name].mean(axis=0)), flush=True)
    head, columns = [labels, *PLACES], range(len(PLACES))
    means = [
        [name, *written([estimate(r[:, c]) for c in columns], True), f"{r[0, -1]:.2f} M"] for name, r in rows.items()
    ]
    first, *others = rows
    differences = [
        [name, *written([estimate(rows[name][:, c] - rows[first][:, c]) for c in columns], False)] for name in others
    ]
    print(f"\n{table([*head, 'samples trained'], means)}\nLess {first!r}:\n\n{table(head, differences)}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], parse_seeds(sys.argv[3]), Path(sys.argv[4]), sys.argv[5:])
