"""FedDF: the average of models learns from all of them."""

import numpy as np
import pytest

from consilience import ConsilienceError, FedAvg, FedDF
from consilience.core.distillation import mean_logits
from tests.methods.models import (
    SIZES,
    assert_same_losses,
    assert_same_weights,
    classifier,
    classifiers,
    quadratic_data,
    rounds_of,
)
from tests.methods.test_protocol import plain

pytestmark = pytest.mark.usefixtures("one_thread")


def test_feddf_by_hand(shared):
    """Train each from the first one's weights, average, and distil the mean of all logits into the average."""
    start, total = classifier("a").weights(), sum(SIZES.values())
    trained, said = {}, []
    for name in SIZES:
        agent = classifier(name)
        agent.set_weights(start)
        agent.train_alone()
        trained[name] = agent.weights()
        said.append(agent.predict(shared))
    server = classifier("a")
    server.train_alone()
    average = {k: sum(SIZES[a] * trained[a][k].astype(float) for a in SIZES) / total for k in start}
    server.set_weights({k: v.astype(np.float32) for k, v in average.items()})
    server.reset_optimizer()
    server.train_on_shared(shared, mean_logits(np.stack(said)), 3)
    agents = classifiers()
    [done] = rounds_of(FedDF(passes=3), 1, agents, shared)
    for agent in agents:
        assert_same_weights(agent.weights(), server.weights(), rtol=1e-5, atol=1e-6)
    [fedavg] = rounds_of(FedAvg(), 1, classifiers(), shared)
    assert done.record.sent == fedavg.record.sent, "only weights travel"
    assert_same_losses(done, fedavg)
    more = {name: (one.trained - fedavg.record.losses[name].trained, one.forward) for name, one in _losses(done)}
    assert more == {"a": (3 * len(shared), len(shared)), "b": (0, len(shared)), "c": (0, len(shared))}


def _losses(done):
    return done.record.losses.items()


def test_agents_keep_their_own_optimizer_and_round(shared):
    """The server's part is played by a copy."""
    one, two = classifiers(), classifiers()
    rounds_of(FedDF(keep_optimizer=True), 1, one, shared)
    rounds_of(FedAvg(keep_optimizer=True), 1, two, shared)
    for agent, other in zip(one, two, strict=True):
        mine, theirs = agent.state(), other.state()
        kept = [key for key in mine if key.startswith("optimizer.") or key == "round"]
        assert kept
        for key in kept:
            np.testing.assert_array_equal(mine[key], theirs[key])


def test_agents_that_cannot_train_on_the_shared_data_alone_are_refused():
    data = quadratic_data()
    agents = plain(data)
    for agent in agents:
        agent.task = classifier("a").task
    with pytest.raises(ConsilienceError, match=r"^agent 'a' \(plain\) cannot train on the shared data alone"):
        rounds_of(FedDF(), 1, agents, data["a"][0])
