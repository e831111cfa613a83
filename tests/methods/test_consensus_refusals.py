"""What consensus refuses, in a sentence that says what to do."""

import re

import numpy as np
import pytest

from consilience import Consensus, ConsilienceError, Cosine, Entropy, Uniform, Wire
from consilience.methods import method_named
from consilience.methods.trust.labels import Vote
from tests.methods.parrot import OUTPUTS, SAMPLES, parrots, rounds_of


@pytest.mark.parametrize(
    ("says", "message"),
    [
        (np.random.default_rng(0).normal(0, 3, (SAMPLES, OUTPUTS)), "12 of 12 rows are not probabilities"),
        (np.full((SAMPLES, OUTPUTS), np.nan), "not finite"),
        (np.full((SAMPLES, 2), 0.5), "2 columns, the others have 3 classes"),
        (np.full((5, OUTPUTS), 1 / 3), "there are 12 samples"),
    ],
)
def test_wrong_predictions_are_refused_with_advice(says, message):
    agents = parrots()
    agents[1].says = says
    with pytest.raises(ConsilienceError, match=f"agent 'b': .*{message}"):
        rounds_of(Consensus(warmup=0), 1, agents=agents)


NEGATIVE = "it must be at least 0 (weight of the disagreement with the pseudo-labels)."
SCHEDULES = "it must be one of these (trust is computed dynamic"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lam": -0.1}, f"lam is -0.1; {NEGATIVE}"),
        ({"lam": float("nan")}, "lam is nan; it must be a finite number"),
        ({"lam": float("inf")}, "lam is inf; it must be a finite number"),
        ({"lam": "much"}, "lam is 'much'; it must be a number"),
        ({"warmup": -1}, "warmup is -1; it must be at least 0"),
        ({"warmup": 1.5}, "warmup is 1.5; it must be a whole number"),
        ({"schedule": "blind"}, f"schedule is 'blind'; {SCHEDULES}"),
        ({"schedule": "every-0"}, f"schedule is 'every-0'; {SCHEDULES}"),
        ({"schedule": "every-"}, f"schedule is 'every-'; {SCHEDULES}"),
        ({"schedule": "every-two"}, f"schedule is 'every-two'; {SCHEDULES}"),
        ({"schedule": "each-2"}, f"schedule is 'each-2'; {SCHEDULES}"),
        ({"schedule": "naive"}, f"schedule is 'naive'; {SCHEDULES}"),
        ({"schedule": 5}, "schedule is 5; it must be a word"),
        ({"prior": "odd"}, "prior is 'odd'; it must be one of unknown, even"),
        ({"trust": "cosine"}, "trust is 'cosine'; it must be a rule such as Entropy(), or a function"),
        ({"trust": Entropy}, "trust is the class Entropy; create an instance: Entropy()"),
        ({"wire": "float16"}, "wire is 'float16'; it must be a Wire"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ConsilienceError, match=f"^{re.escape(message)}"):
        Consensus(**options)


def test_the_least_that_is_possible_is_accepted():
    assert Consensus(lam=0, warmup=0, schedule="every-1").lam == 0.0


@pytest.mark.parametrize(("task", "refused"), [("classification", False), ("multilabel", True), ("regression", True)])
@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            Consensus(trust=Vote()),
            "consensus (vote) makes labels of the probabilities of classes, and {} has none. Use consensus, or cronus.",
        ),
        (
            Consensus(wire=Wire("top-k")),
            "wire.form is 'top-k', which is for probabilities that sum to one. Use float32 or float16 for {}.",
        ),
    ],
    ids=["majority", "top-k"],
)
def test_what_makes_no_sense_for_a_task_is_refused_before_anyone_trains(task, refused, method, message):
    agents = parrots(task)
    if not refused:
        assert len(rounds_of(method, 6, agents=agents)) == 6
        return
    with pytest.raises(ConsilienceError) as error:
        rounds_of(method, 6, agents=agents)
    assert str(error.value) == message.format(task)
    assert agents[0].trained == []


@pytest.mark.parametrize("rule", [Entropy(), Cosine()])
def test_rules_for_probabilities_are_refused_for_regression_naming_the_right_one(rule):
    with pytest.raises(ConsilienceError) as error:
        rounds_of(Consensus(trust=rule, warmup=0), 1, agents=parrots("regression"))
    name = type(rule).__name__
    assert str(error.value) == (
        f"the trust rule {name} compares probabilities, and regression has none. Use the rule gaussian."
    )


def test_names_in_tables_and_in_text():
    assert [Consensus(schedule=s).label for s in ("dynamic", "static", "every-2")] == ["consensus", "static", "every-2"]
    assert method_named("paper").label == "paper"
    assert [method_named(name).title for name in ("consensus", "paper")] == ["consensus", "consensus (paper)"]
    assert Consensus(schedule="every-2").title == "consensus (every-2)"
    naive = Consensus(trust=Uniform(), schedule="static")
    assert (naive.label, naive.title) == ("static", "consensus (static, uniform)")
