"""Scores against one setting that was changed."""

import pytest

from consilience.paper.artefacts import artefact
from tests.paper.conftest import made_runs
from tests.paper.loops import TWO, half_width, mean, score


@pytest.mark.parametrize(
    ("one", "values"),
    [("fig6-epochs", {"epochs-1": 1, "epochs-3": 3, "epochs-5": 5}), ("lambda", {"lam-0.1": 0.1, "lam-2": 2})],
)
def test_scores_stand_against_the_setting_that_was_changed(one: str, values: dict[str, float]) -> None:
    dataset = {"fig6-epochs": "cifar100", "lambda": "cifar10"}[one]
    runs = made_runs([(dataset, variant, "paper") for variant in reversed(values)], TWO)
    table = artefact(one).tabulate(runs)
    assert table["x"].tolist() == list(values.values()), "in order"
    for x, row in zip(values.values(), table.to_dict("records"), strict=True):
        by_seed = []
        for done, run in runs:
            changed = done.settings.training.epochs if dataset == "cifar100" else done.settings.method.lam
            if changed == x:
                by_seed.append(mean([score(run, a) for a in run.names]))
        assert row["mean"] == pytest.approx(mean(by_seed))
        assert row["half_width"] == pytest.approx(half_width(*by_seed))
