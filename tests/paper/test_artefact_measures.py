"""Means, intervals and marked agents, as plain loops give them."""

from consilience.paper.artefact import marked_agents
from tests.paper.conftest import made_runs


def test_marked_agents_have_wrong_labels_or_the_weaker_of_two_models() -> None:
    variants = ("regular", "low-quality", "two-models")
    (_, regular), (_, wrong), (_, weak) = made_runs([("cifar10", variant, "paper") for variant in variants])
    assert [marked_agents(run) for run in (regular, wrong, weak)] == [[], [2, 9], [5, 6, 7, 8, 9]]
