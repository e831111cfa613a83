"""FD: class means of predictions in place of shared data."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from consilience import FD, ConsilienceError, Privacy, SklearnAgent, TorchAgent, collaborate
from consilience.agents.local_agents import LocalAgents
from consilience.core.distillation import class_means, others_means
from consilience.extend import InMemory, Received, Start
from tests.conftest import CLASSES, blobs
from tests.methods.models import plain_network
from tests.methods.parrot import NAMES, SHARED, parrots
from tests.torch_options import torch_options

pytestmark = pytest.mark.usefixtures("one_thread")


def network(name="a", seed=0, **more):
    return TorchAgent(plain_network(seed), *blobs(30, seed), name, **torch_options(epochs=2, batched=False, **more))


def estimator(name="b", seed=1, model=None):
    return SklearnAgent(model or LogisticRegression(), *blobs(25, seed, classes=2), name, classes=CLASSES)


def mixed():
    return [network(), estimator(), estimator("c", 2, KNeighborsClassifier(3))]


def test_fd_by_hand(shared):
    """A round alone, everyone's means, the others' mean of them, and a round towards these."""
    agents, by_hand = mixed(), mixed()
    data = [blobs(30, 0), blobs(25, 1, classes=2), blobs(25, 2, classes=2)]
    for agent in by_hand:
        agent.train(shared, None, 0.0)
    means = [class_means(agent.predict(x), y, CLASSES) for agent, (x, y) in zip(by_hand, data, strict=True)]
    teachers = others_means(np.stack(means))
    assert teachers[0][2].tolist() == [0, 0, 1], "nobody else has class 2"
    for agent, (x, y), teacher in zip(by_hand, data, teachers, strict=True):
        agent.train(x, teacher[y], 0.7)
    one, two = FD(gamma=0.7).rounds(LocalAgents(agents), shared, InMemory(("a", "b", "c")), Start(2))
    for agent, other in zip(agents, by_hand, strict=True):
        np.testing.assert_allclose(agent.predict(shared), other.predict(shared), atol=1e-5)
    assert one.record.sent == {"a": 0, "b": 0, "c": 0}
    assert two.record.sent == dict.fromkeys("abc", 2 * 4 * CLASSES * CLASSES), (
        "means to the server, and the others' back"
    )
    assert [losses.forward for losses in two.record.losses.values()] == [30, 25, 25]
    assert two.record.heard == ("a", "b", "c") and two.record.trust is None


def test_the_shared_data_are_for_measuring_only(shared):
    ends = []
    for seen in (shared, shared[::-1].copy()):
        agents = mixed()
        list(FD().rounds(LocalAgents(agents), seen, InMemory(("a", "b", "c")), Start(3)))
        ends.append([agent.predict(shared) for agent in agents])
    np.testing.assert_array_equal(ends[0], ends[1])


@pytest.mark.parametrize("make", [estimator, lambda: estimator("b", 1, KNeighborsClassifier(3))])
def test_an_estimator_that_learned_from_its_own_rows_is_restored_as_it_was(make, shared):
    agent, again = make(), make()
    list(FD().rounds(LocalAgents([network(), agent]), shared, InMemory(("a", "b")), Start(3)))
    again.restore(agent.state(), shared)
    np.testing.assert_array_equal(again.predict(shared), agent.predict(shared))
    agent.train(shared, agent.predict(shared), 0.5)
    again.train(shared, again.predict(shared), 0.5)
    assert "own" not in agent.state(), "the last pseudo-labels were for the shared data"
    again.restore(agent.state(), shared)
    np.testing.assert_array_equal(again.predict(shared), agent.predict(shared))


def test_agents_that_do_not_show_their_rows_are_refused():
    with pytest.raises(ConsilienceError, match=r"^agent 'a' \(parrot\) does not show its private data to a method"):
        next(FD().rounds(LocalAgents(parrots()), SHARED, InMemory(NAMES), Start(2)))


def test_private_agents_are_refused(shared):
    agents = [network(privacy=Privacy(epsilon=4.0)), network("b", 1)]
    with pytest.raises(ConsilienceError, match=r"^agent 'a' is private, and what the method makes of its private rows"):
        collaborate(agents, shared, method=FD(), rounds=2, progress=False)


def test_between_organisations_only_predictions_travel(shared):
    class Sites:
        roster = ("a", "b")

        def gather(self, number, own_predictions):
            return Received(own_predictions, dict.fromkeys(own_predictions, 0))

    with pytest.raises(ConsilienceError, match=r"^FD shares means of predictions, but between organisations only"):
        next(FD().rounds(LocalAgents([network(), estimator()]), shared, Sites(), Start(1)))


def test_all_agents_are_needed_in_one_place(shared):
    team = LocalAgents([network()])
    with pytest.raises(ConsilienceError, match="agents b live in another process, but FD averages"):
        list(FD().rounds(team, shared, InMemory(("a", "b")), Start(2)))
