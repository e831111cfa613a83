"""Verdicts of checks."""

from pathlib import Path

import pandas as pd
import pytest

from consilience.paper.artefact import FromRuns, verdict
from consilience.paper.artefacts import artefact
from tests.paper.loops import verdicts

PUBLISHED = {
    "table1-cifar10": [True, False, True, True, False, True],
    "table1-cifar100": [True, False, True, True, False, True],
    "table1-fed-isic2019": [True, False, True, True, False, True],
    "fig4": [True, True],
    "fig5": [True, True, True, False, True, True, False, False, True, True, False, False],
    "fig6-epochs": [True, False, True, True],
    "fig6-rounds": [True, False],
    "lambda": [True],
    "communication": [True, False, False],
    "theory": [True] * 4,
}
"""What research/reproduce.md says holds, and what it says does not."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_verdicts_in_the_documentation_are_those_of_its_tables(name: str) -> None:
    one = artefact(name)
    assert isinstance(one, FromRuns)
    table = pd.read_csv(Path(__file__).parents[2] / "docs" / "results" / "reproduce" / f"{name}.csv")
    assert verdicts(one.check(table)) == PUBLISHED[name]
    assert (verdict(1 > 0), verdict(0 > 1)) == ("holds", "does not hold")
