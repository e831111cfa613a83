"""Every artefact of the paper: the runs it needs, the table it gives, and what was expected before the run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from consilience.errors import ConsilienceError
from consilience.options import to_table
from consilience.paper import tables
from consilience.paper.scales import DATASETS, METHODS, job
from consilience.workers.job import Job

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Artefact:
    """A table or figure of the paper that needs runs."""

    name: str
    title: str
    expectation: str
    """Written before the run: what the paper says, as something that can fail."""
    needs: tuple[tuple[str, str, str], ...]
    """(dataset, variant, method) of every run it needs, for each seed."""
    tabulate: Callable[[tables.Runs], "pd.DataFrame"]
    check: Callable[["pd.DataFrame"], list[str]] = field(default=lambda table: [])
    """Sentences that say which part of the expectation holds."""

    def jobs(self, scale: str, seeds: Sequence[int], folder: Path) -> list[Job]:
        """All runs of the artefact."""
        return [job(*need, scale, seed, folder) for seed in seeds for need in self.needs]


def _needs(
    datasets: Sequence[str], variants: Sequence[str], methods: Sequence[str]
) -> tuple[tuple[str, str, str], ...]:
    return tuple((d, v, m) for d in datasets for v in variants for m in methods)


ARTEFACTS = [
    *(
        Artefact(
            f"table1-{dataset}",
            f"Table 1: {dataset}, regular and low-quality labels",
            "With regular labels dynamic and naive trust are within 0.02 of each other; with low-quality labels "
            "dynamic beats naive; consensus beats training alone and every server method.",
            _needs([dataset], ["regular", "low-quality"], METHODS),
            tables.table1,
            tables.check_table1,
        )
        for dataset in DATASETS
    ),
    Artefact(
        "fig4",
        "Fig. 4: learned trust, low-quality agents and weak models",
        "Agents with wrong labels, and agents with weak models, receive less trust than all others.",
        (("cifar10", "low-quality", "dynamic"), ("cifar100", "two-models", "dynamic")),
        tables.trust_sums,
        tables.check_trust_sums,
    ),
    Artefact(
        "fig5",
        "Fig. 5: strong and weak architectures",
        "Dynamic trust beats training alone and naive trust, for strong and for weak agents.",
        _needs(DATASETS, ["two-models"], ("alone", "naive", "dynamic")),
        tables.bars,
        tables.check_bars,
    ),
    Artefact(
        "fig6-epochs",
        "Fig. 6, left: accuracy against local epochs, CIFAR-100",
        "Consensus keeps its accuracy with more local epochs, FedAvg loses.",
        _needs(["cifar100"], ["epochs-1", "epochs-3", "epochs-5"], ("fedavg", "dynamic")),
        tables.score_against(lambda settings: settings.training.epochs),
    ),
    Artefact(
        "fig6-rounds",
        "Fig. 6, right: accuracy against rounds, CIFAR-100",
        "Consensus rises steeply when collaboration starts and ends above FedAvg.",
        _needs(["cifar100"], ["regular"], ("fedavg", "alone", "naive", "dynamic")),
        tables.score_over_rounds,
    ),
    Artefact(
        "lambda",
        "Appendix: lambda against accuracy, CIFAR-10",
        "Lambda 0.5 is within 0.01 of the best.",
        _needs(["cifar10"], ["lam-0.1", "lam-0.25", "lam-0.5", "lam-1", "lam-2"], ("dynamic",)),
        tables.score_against(lambda settings: to_table(settings.method)["lam"]),
    ),
    Artefact(
        "communication",
        "Section 5.2: bytes per round",
        "Measured bytes equal the formula; consensus sends less than the server methods.",
        _needs(["cifar10"], ["regular"], METHODS),
        tables.communication,
    ),
    Artefact(
        "theory",
        "Theorem 1, Claim 2, the lemma and the propositions on recorded trust matrices",
        "W is row-stochastic and positive and the bound of the lemma holds in every run; self-confidence never rises.",
        _needs(["cifar10"], ["regular", "low-quality"], ("static", "dynamic")),
        tables.theory,
        tables.check_theory,
    ),
]

TOYS = {
    "fig1": "Fig. 1: polynomial regression, three over-parameterised agents, uniform trust",
    "figA1": "Appendix A.1: four polynomials, one of them weak",
    "fig2": "Fig. 2: decision boundaries, one agent with all labels flipped",
}
"""Artefacts that take seconds and need no runs; `experiments/toys.py` computes them."""


def artefact(name: str) -> Artefact:
    """An artefact by name."""
    for one in ARTEFACTS:
        if one.name == name:
            return one
    known = [*TOYS, *(one.name for one in ARTEFACTS)]
    raise ConsilienceError(f"unknown artefact {name!r}. Known: {', '.join(known)}.")
