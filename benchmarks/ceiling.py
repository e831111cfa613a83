"""What an agent reaches whose pseudo-labels are the truth, on CIFAR-10: no way of sharing predictions has better ones.

CONSILIENCE_DATA=DATA python -m benchmarks.ceiling [SEED ...]

Everything else is as in research/level.md, so that the samples trained on are
the same. The private labels of all are good.
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import consilience as cs
from consilience.experiments.run import run_experiment
from consilience.settings.presets import read_settings
from consilience.settings.wiring import build_scenario

OPTIONS = {"training.augment": "crop-flip", "training.batch": 32, "training.shared_batch": 32}
OPTIONS |= {"method.lam": 2.0, "method.trust": "truth", "run.references": []}
PLACES = ("accuracy_shared", "accuracy_target", "accuracy_own")
truth: list[int] = []
"""Labels of the shared data of the present run."""


@cs.extend.TRUST.add("truth")
@dataclass(frozen=True)
class Truth(cs.extend.Options):
    """Believes nobody: pseudo-labels are the true ones."""

    def __call__(self, f, context):
        labels = np.eye(f.shape[2], dtype=f.dtype)[truth]
        return cs.extend.TrustResult(np.eye(len(f)), np.broadcast_to(labels, (len(context.rows), *labels.shape)))


def main(seeds: list[int]) -> None:
    """One line for each seed: on X*, on fresh images of the target domain, and at home."""
    for seed in seeds:
        settings = read_settings("cifar10", OPTIONS | {"run.seed": seed})
        truth[:] = build_scenario(settings).shared_y.tolist()
        with tempfile.TemporaryDirectory() as folder:
            run = run_experiment(settings, Path(folder) / "run", workers=1)
        scores = run.last_round()[list(PLACES)].mean()
        trained = run.metrics["samples_trained"].sum() / 1e6
        print(f"seed {seed}:", *(f"{scores[place]:.3f}" for place in PLACES), f"{trained:.2f} M samples", flush=True)


if __name__ == "__main__":
    main([int(seed) for seed in sys.argv[1:]] or [20, 21, 22])
