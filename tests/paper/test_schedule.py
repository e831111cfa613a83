"""The table of schedules."""

import pandas as pd
import pytest

from consilience.paper import schedule
from consilience.paper.artefacts import artefact
from tests.paper.conftest import ROUNDS, made_runs
from tests.paper.loops import TWO, half_width, mean, score


def test_the_schedule_table_has_the_three_places_and_the_samples() -> None:
    runs = made_runs(artefact("schedule").needs, TWO)
    table = schedule.tabulate(runs)
    assert len(table) == 2 * len(schedule.RUN)
    for row in table.to_dict("records"):
        for place in ("shared", "target", "own"):
            by_seed = []
            for one, run in runs:
                variant = one.folder.parts[-3].removeprefix("cifar10-")
                if (variant, one.method) == (row["labels"], row["method"]):
                    good = [a for a in run.names if variant == "regular" or a not in ("2", "9")]
                    by_seed.append(mean([score(run, a, f"accuracy_{place}") for a in good]))
            assert row[place] == pytest.approx(mean(by_seed))
            if place == "target":
                assert row["half_width"] == pytest.approx(half_width(*by_seed))
        assert row["trained"] == 7 * 10 * ROUNDS


def test_the_schedule_is_judged_against_the_best_server_method() -> None:
    ours = dict.fromkeys(schedule.RUN, 0.3) | {"fedavg": 0.5, "scaffold": 0.55, "paper": 0.54, "consensus": 0.6}
    table = pd.DataFrame([("cifar10", "regular", m, v, v, v) for m, v in ours.items()])
    table.columns = ["dataset", "labels", "method", "shared", "target", "own"]
    said = schedule.check(table)
    assert len(said) == 6
    assert "target: paper beats every server method that was run: does not hold (-0.010)." in said[2]
    assert "own: consensus beats every server method that was run: holds (+0.050)." in said[5]
