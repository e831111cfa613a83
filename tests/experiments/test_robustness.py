"""The robustness: what is run, what is said of it, and the page."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from consilience import ConsilienceError
from consilience.core.attacks import ATTACKS
from consilience.experiments.robustness import NOBODY, Robustness, plan, summarise, verdicts
from consilience.extend import TRUST
from consilience.settings.presets import read_settings


def table(scores: dict[tuple[str, str, int], list[float]], alone: float = 0.6) -> Robustness:
    """A robustness with these scores by seed, and 0.6 for everyone alone."""
    rows = [
        {"rule": rule, "attack": attack, "attackers": count, "seed": seed, "score": score, "alone": alone}
        | {"attacked_class": score / 2 if attack in ("targeted", NOBODY) else np.nan}
        for (rule, attack, count), values in scores.items()
        for seed, score in enumerate(values)
    ]
    return Robustness(pd.DataFrame(rows), "accuracy_target", 10)


FOUND = table(
    {
        ("entropy", NOBODY, 0): [0.90, 0.92, 0.91],
        ("entropy", "flip", 1): [0.70, 0.72, 0.71],
        ("entropy", "flip", 2): [0.50, 0.52, 0.51],
        ("entropy", "targeted", 1): [0.90, 0.91, 0.92],
        ("entropy", "targeted", 2): [0.40, 0.90, 0.60],
        ("median", NOBODY, 0): [0.88, 0.90, 0.89],
        ("median", "flip", 1): [0.88, 0.90, 0.89],
        ("median", "flip", 2): [0.88, 0.90, 0.89],
        ("median", "targeted", 1): [0.88, 0.90, 0.89],
        ("median", "targeted", 2): [0.88, 0.90, 0.89],
    }
)


def test_lines_are_means_over_seeds_with_paired_differences():
    lines = {(line.rule, line.attack, line.attackers): line for line in summarise(FOUND)}
    flip = lines["entropy", "flip", 1]
    assert flip.score.mean == pytest.approx(0.71) and flip.worst == 0.70
    assert flip.gain.mean == pytest.approx(0.11)
    assert flip.lost.mean == pytest.approx((0.31 - 0.11) / 0.31)
    assert flip.attacked_class is None
    assert lines["entropy", "targeted", 1].attacked_class.mean == pytest.approx(0.455)


def test_sentences_say_where_each_rule_fails_and_from_how_many_attackers_on():
    entropy, median, cost = verdicts(FOUND)
    assert entropy == ("entropy: fails, clearly below what the honest reach alone, from 2 of 10 on under flip."), (
        "the seeds of targeted do not agree"
    )
    assert median == "median: never clearly below what the honest reach alone, up to 2 of 10 attackers."
    assert cost.startswith("median against entropy when all are honest: -0.020 ± 0.000")
    weak = table({("a", NOBODY, 0): [0.9, 0.92], ("a", "flip", 3): [0.65, 0.66]})
    assert verdicts(weak) == [
        "a: never clearly below what the honest reach alone, up to 3 of 10 attackers; clearly more than half of what "
        "collaboration brings is lost from 3 of 10 on under flip."
    ]
    one_seed = table({("a", NOBODY, 0): [0.9], ("a", "flip", 1): [0.595], ("a", "flip", 2): [0.58]})
    assert "from 2 of 10 on under flip" in verdicts(one_seed)[0]


def test_runs_without_attackers_are_shared_and_the_last_good_agents_lie():
    settings = read_settings("digits")
    planned = plan(settings, ["flip", "echo"], ["entropy", "stratified(sharpness=4)"], [0, 1, 2], [0, 1])
    assert len(planned) == 2 * (1 + 2 * (1 + 2 * 2))
    by_folder = {str(job.folder): job for job, _ in planned}
    assert len(by_folder) == len(planned)
    job = by_folder["seed-1/stratified(sharpness=4)/echo-2"]
    assert job.settings.data.attackers == (7, 8), "agent 9 has wrong labels"
    assert job.settings.method.trust.sharpness == 4 and job.settings.run.seed == 1
    assert by_folder["seed-0/entropy/nobody"].settings.data.attackers == ()
    assert by_folder["seed-0/alone/nobody"].settings.method.label == "alone"


@pytest.mark.parametrize(
    ("attacks", "rules", "counts", "changes", "error"),
    [
        (["flip"], ["entropy"], [10], {}, "10 attackers leave nobody honest"),
        (["flip"], ["entropy"], [8], {"low_quality": [0, 1]}, "Use at most 7"),
        ([], ["entropy"], [1], {}, "at least one attack"),
        (["none"], ["entropy"], [1], {}, "'none' is not an attack"),
        (["flop"], ["entropy"], [1], {}, "unknown attack"),
        (["flip"], ["entropia"], [1], {}, "unknown trust rule"),
        (["flip"], ["entropy(p=1)"], [1], {}, "unknown setting 'p'"),
        (["flip"], ["entropy("], [1], {}, "closing bracket"),
        (["flip"], ["entropy"], [1], {"method": "fedavg"}, "has no trust rule"),
    ],
)
def test_what_makes_no_sense_is_refused(attacks, rules, counts, changes, error):
    with pytest.raises(ConsilienceError, match=error):
        plan(read_settings("digits-mlp", changes), attacks, rules, counts, [0])


def test_every_rule_and_every_attack_is_explained():
    pages = Path(__file__).parents[2] / "docs" / "reference"
    text = (pages / "trust.md").read_text() + (pages / "attacks.md").read_text()
    named = set(re.findall(r"^\| `([\w-]+)", text, re.MULTILINE))
    assert set(TRUST.names()) | set(ATTACKS.names()) - {"none"} <= named
