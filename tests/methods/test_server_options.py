"""Methods with a server: a warm-up, an average over rounds, and which of FedDyn's models is measured."""

import numpy as np
import pytest

from consilience import Alone, FedAvg, FedDyn, Scaffold
from consilience.extend import Start
from tests.methods.models import (
    SIZES,
    assert_same_losses,
    assert_same_weights,
    classifiers,
    rounds_of,
)

pytestmark = pytest.mark.usefixtures("one_thread")
P = {name: samples / sum(SIZES.values()) for name, samples in SIZES.items()}
OPTIONS = [
    FedAvg(warmup=2),
    FedAvg(server_ema=0.7),
    Scaffold(warmup=2, server_ema=0.7),
    FedDyn(evaluate="average"),
    FedDyn(evaluate="average", warmup=1, server_ema=0.5, keep_optimizer=True),
]


def started_alike():
    """Agents with the first one's weights, as all methods with a server begin."""
    agents = classifiers()
    for agent in agents:
        agent.set_weights(agents[0].weights())
    return agents


def test_a_warm_up_is_training_alone_and_then_the_server_begins_from_the_average(shared):
    alone, after, together = started_alike(), started_alike(), classifiers()
    by_itself = rounds_of(Alone(), 2, alone, shared)
    rounds = rounds_of(FedAvg(warmup=2), 3, together, shared)
    for one, two in zip(by_itself, rounds, strict=False):
        assert_same_losses(one, two)
        for name in SIZES:
            np.testing.assert_array_equal(one.record.predictions[name], two.record.predictions[name])
        assert set(two.record.sent.values()) == {0}
    first = alone[0].weights()
    mean = {key: sum(P[a.name] * a.weights()[key].astype(float) for a in alone) for key in first}
    for agent, one in zip(after, alone, strict=True):
        agent.restore(one.state(), shared)
        agent.set_weights({key: value.astype(np.float32) for key, value in mean.items()})
        agent.reset_optimizer()
        agent.train_alone()
    expected = {key: sum(P[a.name] * a.weights()[key].astype(float) for a in after) for key in first}
    assert_same_weights(together[1].weights(), expected, rtol=1e-5, atol=1e-6)
    size = sum(value.nbytes for value in first.values())
    assert set(rounds[2].record.sent.values()) == {3 * size}, "once more up, for the average after the warm-up"


def test_an_average_over_rounds_is_measured_and_does_not_change_the_course(shared):
    plain, held = classifiers(), classifiers()
    models, averages = [], []
    for agents, found, method in ((plain, models, FedAvg()), (held, averages, FedAvg(server_ema=0.7))):
        for rounds in range(1, 4):
            agents[:] = classifiers()
            last = rounds_of(method, rounds, agents, shared)[-1]
            found.append((agents[0].weights(), last.record.losses["b"].local))
    assert [loss for _, loss in models] == [loss for _, loss in averages], "local training is the same"
    for key, value in models[0][0].items():
        mean = value.astype(float)
        for weights, _ in models[1:]:
            mean = 0.7 * mean + 0.3 * weights[key]
        np.testing.assert_allclose(averages[-1][0][key], mean, rtol=1e-5, atol=1e-6, err_msg=key)


def test_feddyn_measured_on_the_agents_average_takes_the_same_course(shared):
    """sum_i p_i y_i = x + h / alpha, on parameters."""
    server, average = classifiers(), classifiers()
    method = FedDyn(alpha=0.5)
    one = rounds_of(method, 3, server, shared)
    two = rounds_of(FedDyn(alpha=0.5, evaluate="average"), 3, average, shared)
    assert_same_losses(one[-1], two[-1])
    h = one[-1].memory.common
    for key, value in h.items():
        expected = server[0].weights()[key] + value / 0.5
        np.testing.assert_allclose(average[0].weights()[key], expected, rtol=1e-4, atol=1e-5, err_msg=key)
    assert method.title != FedDyn(evaluate="average").title


@pytest.mark.parametrize("method", OPTIONS)
@pytest.mark.parametrize("stop", [1, 2, 3])
def test_the_loop_takes_up_where_it_is_told(shared, method, stop):
    whole, first, rest = classifiers(), classifiers(), classifiers()
    rounds = rounds_of(method, 4, whole, shared)
    begun = rounds_of(method, stop, first, shared)
    for agent, before in zip(rest, first, strict=True):
        agent.restore(before.state(), shared)
    later = rounds_of(method, 4, rest, shared, Start(4, stop, begun[-1].memory))
    assert [done.number for done in later] == list(range(stop + 1, 5))
    assert_same_losses(later[-1], rounds[-1])
    for one, two in zip(whole, rest, strict=True):
        assert_same_weights(one.weights(), two.weights())
