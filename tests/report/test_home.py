"""Which model to use where: words, tables and diagrams of a run."""

from dataclasses import replace

import numpy as np
import pytest

import consilience as cs
from consilience.core import metrics
from consilience.report import home
from consilience.report.page import page_data
from consilience.runtime.held_out import models_of
from tests.runtime.test_held_out import forest, network, together


@pytest.fixture(scope="module")
def run() -> cs.Run:
    x = np.random.default_rng(0).normal(0, 2, (60, 6)).astype(np.float32)
    return together([forest(), network()], x).run


def test_the_table_has_the_scores_of_each_model_at_home(run):
    grid = home.home_grid(run)
    for row in grid.rows:
        name, alone = row[0], run.references["alone"].held
        models = models_of(run.calibrations[name], run.held[name], alone[name], "own")
        y = run.held[name]["own_y"]
        expected = [f"{metrics.accuracy(models[model], y):.3f}" for model in ("alone", "together", "home")]
        assert list(row[1:4]) == expected


def test_one_agent_is_told_what_to_use_in_both_domains(run):
    for name in run.names:
        at_home, elsewhere = home.advice(run, name)
        assert at_home.startswith("For your own domain ") and elsewhere.startswith("For the target domain ")
        for place, sentence in (("own", at_home), ("target", elsewhere)):
            assert home.choices(run, place)[name] in sentence


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("together", "alone", "use the home model: accuracy +"),
        ("alone", "together", "stay alone: collaborating is not shown to help there (accuracy -"),
    ],
)
def test_the_words_follow_the_gain(run, right, wrong, words):
    models = {"together": dict(run.held), "alone": dict(run.references["alone"].held)}
    for name, held in run.held.items():
        truth = np.eye(3, dtype=np.float32)[held["own_y"]] * 0.9 + 0.1 / 3
        models[right][name] = models[right][name] | {"own": truth}
        models[wrong][name] = models[wrong][name] | {"own": np.roll(truth, 1, axis=1)}
    references = {"alone": replace(run.references["alone"], held=models["alone"])}
    other = replace(run, held=models["together"], references=references)
    assert words in home.advice(other, "net")[0]
    assert len(home.home_sentences(other)) == 2


def test_better_probabilities_alone_are_enough(run):
    held, alone = dict(run.held), dict(run.references["alone"].held)
    right = np.eye(3, dtype=np.float32)[held["net"]["own_y"]]
    held["net"], alone["net"] = (
        models["net"] | {"own": right * sure + (1 - sure) / 3} for models, sure in ((held, 0.9), (alone, 0.1))
    )
    other = replace(run, held=held, references={"alone": replace(run.references["alone"], held=alone)})
    [sentence, _] = home.advice(other, "net")
    assert sentence.startswith("For your own domain use the home model: its log loss is better by +")
    assert sentence.endswith("That its accuracy is better is not shown: 0.000 (0.000 … 0.000).")


def test_the_diagram_counts_every_prediction(run):
    for diagram, place in zip(home.reliability_data(run), ("own", "target"), strict=True):
        rows = sum(len(held[f"{place}_y"]) for held in run.held.values())
        assert set(diagram["curves"]) == {"alone", "together", "home"}
        for curve in diagram["curves"].values():
            assert sum(row[0] for row in curve) == rows


def test_the_page_has_tables_diagrams_and_probabilities(run):
    part = page_data(run)["home"]
    assert [table["title"].split(" (")[0] for table in part["tables"]] == [
        "Accuracy at home",
        "How far probabilities can be believed; at home of the home model",
    ]
    assert len(part["reliability"]) == 2
    titles = [row[0] for row in home.calibration_grid(run).rows]
    assert titles == [
        f"{s} {p}" for p in ("at home", "on the target domain") for s in ("log loss", "calibration error")
    ]
