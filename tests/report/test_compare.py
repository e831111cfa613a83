"""The page of a comparison: who is ahead and whether chance may be the reason, the best first, a link to every run."""

import pandas as pd
import pytest

from consilience.experiments.compare import Comparison, compare, summarise
from consilience.report.compare import draw, verdicts, write_compare
from consilience.settings.presets import read_settings
from consilience.tasks import task_named

TITLES = {"alone": "alone", "paper": "consensus (paper)", "fedavg": "FedAvg"}
SCORES = task_named("classification").scores


def made(**scores: list[float]) -> Comparison:
    """A comparison with one agent, whose accuracies are given by method and seed."""
    facts = {"agent": "a", "low_quality": False, "attacker": False}
    rows = [
        {"method": method, "seed": seed, "accuracy_target": value, **facts}
        for method, values in scores.items()
        for seed, value in enumerate(values)
    ]
    return Comparison(pd.DataFrame(rows), SCORES, {method: TITLES[method] for method in scores})


@pytest.mark.parametrize(
    ("scores", "sentences"),
    [
        (
            {"alone": [0.5, 0.6, 0.5], "paper": [0.7, 0.8, 0.71], "fedavg": [0.8, 0.9, 0.8]},
            [
                "FedAvg is ahead of consensus (paper), the next, by 0.097 ± 0.014.",
                "consensus (paper) is the best that shares no weights (0.737).",
                "Against training alone FedAvg gains +0.300 ± 0.000.",
            ],
        ),
        (
            {"paper": [0.7, 0.8, 0.7], "fedavg": [0.6, 0.9, 0.69]},
            ["consensus (paper) is ahead of FedAvg, the next, by 0.003 ± 0.249; over 3 seeds that may be chance."],
        ),
        (
            {"paper": [0.7], "alone": [0.6]},
            [
                "consensus (paper) is ahead of alone, the next, by 0.100; with one seed that may be chance.",
                "Against training alone consensus (paper) gains +0.100.",
            ],
        ),
        ({"paper": [0.7, 0.8], "alone": [0.8, 0.7]}, ["alone and consensus (paper) are level."]),
        ({"paper": [0.7]}, []),
    ],
)
def test_a_verdict_in_words(scores, sentences):
    assert verdicts(made(**scores))[: len(sentences) or None] == sentences


def test_the_drawing_has_the_best_first():
    results = made(alone=[0.5, 0.6], paper=[0.7, 0.8])
    image = draw(results, summarise(results), "accuracy_target")
    assert image.index("consensus (paper)</text>") < image.index("alone</text>")
    assert image.count("<circle") == 2 * 3
    assert ">0.5</text>" in image, "ticks are round numbers"


def test_the_page_marks_the_best_and_leads_to_the_report_of_every_run(tmp_path):
    small = {"agents.count": 3, "models": ["logistic"], "rounds": 3, "warmup": 1, "low_quality": [], "limit": 20}
    results = compare(read_settings("digits", small), ["alone", "paper"], [0, 1], tmp_path, 1)
    written = write_compare(results, "", tmp_path, "methods")
    page = next(path for path in written if path.suffix == ".html").read_text()
    for seed in (0, 1):
        for method in ("alone", "paper"):
            assert f'href="seed-{seed}/{method}/report.html"' in page
            report = (tmp_path / f"seed-{seed}" / method / "report.html").read_text()
    assert '"gain":"' in report, "gains are against the run of everyone alone beside it"
    best = summarise(results)
    first = max(best, key=lambda line: line.score.mean)
    assert f"<strong>{first.title}</strong>" in page and f"**{first.title}**" in (tmp_path / "compare.md").read_text()
    assert ">seed-0/consensus (paper)</a>" in page and ">seed-0/paper<" not in page
