"""Whole runs of several labels a sample: networks and estimators together, through the methods that make sense."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from consilience import (
    Alone,
    Consensus,
    ConsilienceError,
    Cosine,
    FedAvg,
    SklearnAgent,
    TorchAgent,
    Uniform,
    Wire,
    collaborate,
)
from consilience.agents.networks import mlp
from consilience.agents.training import Training
from consilience.data.datasets import Request
from consilience.data.loading import load
from consilience.data.options import Data
from consilience.data.scenario import split
from consilience.methods.trust.labels import Vote
from tests.methods.models import agents_for

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def scenario():
    """Six agents with 28 images each, and 240 shared ones."""
    data = load("digit-properties", Request(limit=600))
    return split(data, Data(partition="iid", shared_per_agent=40), agents=6, seed=0)


def team(scenario, batched=True):
    """Two of each: networks, estimators that take weights, and estimators that take drawn labels."""
    agents = []
    for number, (name, share) in enumerate(scenario.shares.items()):
        if number < 2:
            torch.manual_seed(number)
            model = mlp(share.x.shape[1:], 4)
            agents.append(
                TorchAgent(model, share.x, share.y, name, task="multilabel", training=Training(batched=batched))
            )
        else:
            estimator = LogisticRegression(max_iter=300) if number < 4 else KNeighborsClassifier(3)
            agents.append(SklearnAgent(estimator, share.x, share.y, name))
    return agents


def run(scenario, method, rounds=6, **options):
    target = scenario.target_x, scenario.target_y
    result = collaborate(
        team(scenario, **options),
        scenario.shared,
        method=method,
        rounds=rounds,
        shared_labels=scenario.shared_y,
        target=target,
        class_names=scenario.classes,
    )
    last = result.history[result.history["round"] == rounds]
    return result, last


def test_agents_of_all_kinds_are_better_together_than_alone(scenario):
    _, alone = run(scenario, Alone())
    result, together = run(scenario, Consensus(warmup=2))
    for score in ("accuracy", "subset_accuracy", "auc"):
        assert together[f"{score}_target"].mean() > alone[f"{score}_target"].mean() + 0.02, score
    assert together["log_loss_target"].mean() < alone["log_loss_target"].mean()
    assert together["disagreement_all"].mean() < alone["disagreement_all"].mean()
    np.testing.assert_allclose(result.trust.sum(axis=2), 1)
    assert result.run.summary.task == "multilabel"
    assert result.run.summary.classes == ["even", "prime", "above four", "loop"]
    assert sum(result.influence.values()) == pytest.approx(1)


def test_in_a_batch_and_one_by_one_the_numbers_are_the_same_up_to_rounding(scenario):
    one, two = (run(scenario, Consensus(warmup=1), 3, batched=batched)[0] for batched in (True, False))
    np.testing.assert_allclose(one.trust, two.trust, atol=1e-5)
    for column in ("loss_local", "disagreement", "log_loss_target"):
        np.testing.assert_allclose(one.history[column], two.history[column], rtol=1e-3, atol=1e-4, err_msg=column)


@pytest.mark.parametrize("trust", [Cosine(), Uniform()])
def test_trust_may_be_of_another_kind(scenario, trust):
    result, _ = run(scenario, Consensus(warmup=1, trust=trust, wire=Wire("float16")), 2)
    np.testing.assert_allclose(result.trust.sum(axis=2), 1)


def test_models_of_several_labels_can_be_averaged(scenario):
    agents = team(scenario)[:2]
    collaborate(agents, scenario.shared, method=FedAvg(), rounds=2)
    np.testing.assert_array_equal(agents[0].predict(scenario.shared), agents[1].predict(scenario.shared))


@pytest.mark.parametrize("task", ["multilabel", "regression"])
@pytest.mark.parametrize(
    ("method", "says"),
    [
        (
            Consensus(warmup=1, trust=Vote()),
            r"makes labels of the probabilities of classes, and {} has none\. Use",
        ),
        (
            Consensus(warmup=1, wire=Wire("top-k")),
            r"wire\.form is 'top-k', which is for probabilities that sum to one\. .*{}\.$",
        ),
    ],
)
def test_votes_and_largest_probabilities_are_refused_without_classes(task, method, says, shared):
    with pytest.raises(ConsilienceError, match=says.format(task)):
        collaborate(agents_for(task), shared, method=method, rounds=2)


def test_trust_between_probabilities_is_refused_for_values(shared):
    with pytest.raises(ConsilienceError, match=r"Cosine compares probabilities, and regression has none\. Use"):
        collaborate(agents_for("regression"), shared, method=Consensus(warmup=0, trust=Cosine()), rounds=1)


def test_tasks_do_not_mix(shared):
    with pytest.raises(ConsilienceError, match=r"some agents do multilabel and some regression\. All must do the same"):
        collaborate([agents_for("multilabel")[0], agents_for("regression")[1]], shared)
