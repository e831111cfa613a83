"""Every artefact of the paper runs on real images at smoke scale; all are made through one interface."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from consilience import ConsilienceError
from consilience.cli.main import app
from consilience.paper import fig1, fig2, fig3, figA1
from consilience.paper.artefact import FromRuns, mean_score
from consilience.paper.artefacts import ARTEFACTS, artefact
from consilience.paper.communication import check as check_communication
from consilience.paper.scales import CAVEATS, CONSENSUS, DATASETS, METHODS, settings_for
from consilience.paper.table1 import PRINTED
from consilience.workers.jobs import run_jobs

FROM_RUNS = [one for one in ARTEFACTS if isinstance(one, FromRuns)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artefacts that need the same runs share them, here as for a user."""
    return tmp_path_factory.mktemp("reproduce")


LEFT_OUT = {
    "table1-cifar100": {"fedprox", "scaffold", "feddyn", "alone", "naive", "static"},
    "table1-fed-isic2019": {"fedprox", "scaffold", "feddyn", "alone", "naive", "static"},
    "fig5": {"cifar100"},
    "fig6-epochs": {"epochs-5"},
}
"""Runs that would take long and show nothing that the others do not."""


def shortened(one: FromRuns) -> FromRuns:
    return replace(one, needs=tuple(need for need in one.needs if not LEFT_OUT.get(one.name, set()) & {*need}))


QUICK = ("table1-cifar10", "table1-fed-isic2019", "fig4", "communication", "theory")
"""Artefacts that `make test` runs; together they go through every kind of table and drawing."""


@pytest.mark.parametrize(
    "one",
    [pytest.param(one, marks=() if one.name in QUICK else pytest.mark.slow) for one in FROM_RUNS],
    ids=lambda one: one.name,
)
@pytest.mark.usefixtures("real_data", "one_thread")
def test_every_artefact_runs_on_real_images(one: FromRuns, folder: Path) -> None:
    pytest.importorskip("matplotlib")
    one = shortened(one)
    jobs = one.jobs("smoke", [0], folder)
    runs = list(zip(jobs, run_jobs(jobs, 1), strict=True))
    made = one.finish(runs, "smoke", [0], folder)
    table = made.table
    assert table is not None
    assert len(table) >= 4
    numbers = table.select_dtypes("number").drop(columns=["half_width"], errors="ignore")
    assert np.isfinite(numbers.to_numpy()).all()
    assert [path.name for path in made.written] == [f"{one.name}.{ending}" for ending in ("csv", "png", "svg")]
    assert all(path.stat().st_size for path in made.written)
    pd.testing.assert_frame_equal(pd.read_csv(made.written[0], dtype=table.dtypes.to_dict()), table)
    assert made.sentences == one.check(table)
    assert made.sentences or one.name in ("table1-cifar100", "table1-fed-isic2019"), "what lacks methods is not judged"
    assert all(sentence.endswith(".") for sentence in made.sentences)
    assert made.caveat == CAVEATS["smoke"]
    again = one.tabulate(list(zip(jobs, run_jobs(jobs, 1), strict=True)))
    pd.testing.assert_frame_equal(again, table, check_exact=True, obj="the table of finished runs, read again")
    if one.name == "communication":
        np.testing.assert_allclose(table["bytes_per_round"], table["formula_bytes"], rtol=0.01)
        consensus = table["method"].isin(CONSENSUS)
        assert (table["bytes_per_round"] == table["formula_bytes"])[consensus].all()
        assert check_communication(table)[0].startswith("Consensus: measured bytes equal the formula: holds")
    if one.name == "table1-cifar10":
        ours = table.set_index(["labels", "method"])["ours"]
        for done, run in runs:
            labels = "low-quality" if done.settings.data.low_quality else "regular"
            assert ours[labels, done.method] == pytest.approx(mean_score(run, "cifar10"))


@pytest.mark.usefixtures("real_data")
def test_fig3_counts_every_training_sample_once(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    (one,) = fig3.ARTEFACTS
    assert one.jobs("smoke", [0], folder) == []
    made = one.finish([], "smoke", [0], folder)
    assert [path.name for path in made.written] == ["fig3.csv", "fig3.png", "fig3.svg"]
    table = pd.read_csv(made.written[0])
    from consilience.settings.wiring import build_agents, build_scenario

    settings = settings_for("fed-isic2019", "regular", "smoke", 0)
    scenario = build_scenario(settings)
    agents = build_agents(settings, scenario)
    ours = table[table["dataset"] == "fed-isic2019"].set_index(["agent", "class"])["samples"]
    for number, agent in enumerate(agents):
        labels = [scenario.classes[label] for label in scenario.shares[agent.name].y]
        assert [ours[number, name] for name in scenario.classes] == [labels.count(name) for name in scenario.classes]
        assert ours[number].sum() == agent.samples


def test_toys_need_no_runs_and_write_their_claims(
    three_polynomials: fig1.Fig1, weak_among_strong: figA1.FigA1, four_networks: fig2.Fig2, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    seeds: list[int] = []
    for module, data in ((fig1, three_polynomials), (figA1, weak_among_strong), (fig2, four_networks)):
        (one,) = module.ARTEFACTS
        assert one.compute is module.compute
        assert one.jobs("cpu", [7, 8], tmp_path) == []
        known = replace(one, compute=lambda seed, data=data: seeds.append(seed) or data)
        made = known.finish([], "smoke", [7, 8], tmp_path / "smoke")
        assert [path.name for path in made.written] == [f"{one.name}.{ending}" for ending in ("csv", "png", "svg")]
        table = pd.read_csv(made.written[0])
        assert list(table.columns) == ["claim", "expectation", "holds", "measured"]
        assert table["claim"].tolist() == list(module.EXPECTATIONS)
        assert table["holds"].tolist() == [claim.holds for claim in data.claims]
        for claim, sentence in zip(data.claims, made.sentences, strict=True):
            verdict = "holds" if claim.holds else "does not hold"
            assert sentence == f"{claim.expectation} {verdict}: {claim.measured}"
        assert not made.caveat, "a toy is the same at every scale"
    assert seeds == [7, 7, 7], "a toy takes the first seed"


def test_printed_numbers_are_complete() -> None:
    assert all(len(row) == len(METHODS) for row in PRINTED.values())
    assert set(PRINTED) == {(dataset, labels) for dataset in DATASETS for labels in ("regular", "low-quality")}


def test_artefacts_have_names_of_their_own_and_say_what_is_expected() -> None:
    assert len({one.name for one in ARTEFACTS}) == len(ARTEFACTS)
    assert all(artefact(one.name) is one for one in ARTEFACTS)
    assert [one.name for one in ARTEFACTS if not one.expectation] == ["fig3"]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConsilienceError, match="Known: fig1, figA1, fig2, fig3, table1-cifar10"):
        artefact("table2")
    with pytest.raises(ConsilienceError, match="unknown scale"):
        settings_for("cifar10", "regular", "huge")
    with pytest.raises(ConsilienceError, match="unknown variant"):
        settings_for("cifar10", "blurred", "cpu")


def test_the_list_loads_neither_torch_nor_pandas_nor_matplotlib() -> None:
    code = (
        "import sys; from consilience.paper.artefacts import ARTEFACTS; "
        "print([m for m in ('torch', 'pandas', 'scipy', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.usefixtures("real_data")
def test_the_command_says_that_verdicts_at_smoke_scale_mean_nothing(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    done = CliRunner().invoke(app, ["reproduce", "fig4", "--scale", "smoke", "--out", str(folder), "--workers", "1"])
    assert done.exit_code == 0, done.output
    text = " ".join(done.stdout.split())
    places = [
        text.index(part)
        for part in (
            "Fig. 4: learned trust",
            "Expected: Agents with wrong labels",
            "trust received",
            CAVEATS["smoke"],
            "- cifar10-low-quality: every marked agent",
            "Written: ",
        )
    ]
    assert places == sorted(places)
    assert "the verdicts mean nothing" in CAVEATS["smoke"]
    assert set(CAVEATS) == {"smoke"}
