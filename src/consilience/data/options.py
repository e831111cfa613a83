"""What agents hold and what is shared: the table [data] of the settings."""

from dataclasses import dataclass

from consilience.base.errors import ConsilienceError
from consilience.base.options import Options, option
from consilience.core.attacks import Attack, attack_named, none
from consilience.data.columns import TYPES
from consilience.data.partitions import PARTITIONS

MOST_CROSSED = 1_000_000
"""Crossed rows, at most."""


@dataclass(frozen=True)
class Data(Options):
    """What the agents hold, and what is shared."""

    dataset: str = option(
        "digits",
        "digits | breast-cancer | heart-disease | cifar10 | cifar100 | fed-isic2019 | polynomial | ... or your own: "
        "a csv, parquet or npz file, a folder of images, a Hugging Face folder",
    )
    limit: int = option(0, "samples of each class to use, within each hospital; 0 for all", at_least=0)
    side: int = option(0, "height and width that images are brought to; 0 for the dataset's own", at_least=0)
    partition: str = option(
        "dirichlet", "dirichlet (by class) | quantity | shards | feature | iid | natural (one agent per hospital) | ..."
    )
    alpha: float = option(1.0, "of Dirichlet proportions: small, very different agents", above=0)
    shards: int = option(2, "for each agent, where partition=shards deals the data sorted by class", at_least=1)
    low_quality: tuple[int, ...] = option((), "agents whose training labels are all shifted")
    concept_shift: tuple[int, ...] = option((), "agents whose data differ from all others', their test data too")
    shift: str = option(
        "labels",
        "how these differ: labels (two random classes are swapped) | features (each column, or the brightness of "
        "images, is moved by a random constant)",
        one_of=("labels", "features"),
    )
    target_fraction: float = option(0.25, "held out to measure on the target domain", above=0, below=1)
    test_fraction: float = option(0.2, "of each agent's data, held out to measure on its own domain", above=0, below=1)
    shared_per_agent: int = option(30, "samples each agent contributes to the shared data", at_least=1)
    shared_balanced: bool = option(False, "choose them so that the classes of the shared data are even")
    canaries: int = option(0, "rows by agent that are in its data by a fair coin, for `privacy-audit`", at_least=0)
    attackers: tuple[int, ...] = option((), "agents that train as the others do and lie to their peers")
    attack: Attack = option(
        none,
        "how they lie: none | flip | random | least-likely | runner-up | collusion | echo | targeted | stale | ...",
        resolve=attack_named,
    )
    label: str = option("label", "your own data: the column of labels; several, with commas between, for multilabel")
    agent: str = option(
        "", "your own data: the column that says whose a row is; it sets partition and number of agents"
    )
    task: str = option("classification", "your own data: classification | regression | multilabel")
    drop: tuple[str, ...] = option((), "your own data: columns that are no features")
    types: dict[str, str] = option(
        {}, f"your own data: what columns hold, where that is not seen right: NAME = {' | '.join(TYPES)}"
    )
    shared_limit: int = option(0, "shared samples in all, drawn from what agents contribute; 0 for all", at_least=0)

    crossed: str | int = option(
        "auto",
        "rows crossed from shared ones, made by everyone, never sent: auto (if all agents have a backbone) | N",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_crossed(self.crossed)
        PARTITIONS.find(self.partition)
        check_types(self.types)


def check_crossed(crossed: str | int) -> None:
    """Refuses anything but auto and a number of crossed rows."""
    if crossed == "auto" or (
        isinstance(crossed, int) and not isinstance(crossed, bool) and 0 <= crossed <= MOST_CROSSED
    ):
        return
    raise ConsilienceError(
        f"crossed is {crossed!r}; it must be auto or a number of rows from 0 (none) to {MOST_CROSSED}."
    )


def check_types(types: dict[str, str]) -> None:
    """Refuses unknown kinds of columns."""
    for name, kind in types.items():
        if kind not in TYPES:
            raise ConsilienceError(f"types.{name} is {kind!r}; it must be one of {', '.join(TYPES)}.")
