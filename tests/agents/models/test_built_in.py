"""What built-in models cost."""

import pytest

from consilience.agents.models import UNKNOWN_COST, Cost, cost_of


@pytest.mark.parametrize("model", ["linear", "mlp", "cnn", "convnet", "resnet20", "efficientnet"])
def test_the_cost_of_every_network_is_known_and_it_trains_in_batches(model):
    assert cost_of(model) != UNKNOWN_COST
    assert not cost_of(model).refits


@pytest.mark.parametrize("model", ["logistic", "neighbours", "forest", "boosting", "polynomial-4"])
def test_the_cost_of_every_estimator_is_known_and_it_refits(model):
    assert cost_of(model) != UNKNOWN_COST
    assert cost_of(model).refits


def test_costs_are_in_the_order_that_was_measured():
    """Neighbours only keep their samples; boosting is the dearest of the estimators."""
    each = [cost_of(name).each for name in ("neighbours", "logistic", "forest", "boosting")]
    assert each == sorted(each)
    assert len(set(each)) == 4
    networks = [cost_of(name).each for name in ("linear", "mlp", "cnn", "convnet", "resnet20", "efficientnet")]
    assert networks == sorted(networks)
    assert cost_of("anything else") == UNKNOWN_COST == Cost(10)
