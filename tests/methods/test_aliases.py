"""FedMD, DS-FL, FedCT and Cronus: combinations of parts of consensus, and what sets each of them apart."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from consilience import FD, ConsilienceError, FedDF, SklearnAgent, TorchAgent, Wire, collaborate
from consilience.agents.local_agents import LocalAgents
from consilience.agents.training import Training
from consilience.core.distillation import mean_logits, sharpened_mean
from consilience.core.labels import majority_labels
from consilience.core.robust import filtered_mean
from consilience.extend import InMemory, Losses, Received, Start
from consilience.methods import method_named
from tests.conftest import CLASSES, blobs
from tests.methods.models import agents_for, classifiers, plain_network
from tests.methods.parrot import NAMES, OUTPUTS, SAMPLES, Elsewhere, Lossy, first_words, parrots, rounds_of

pytestmark = pytest.mark.usefixtures("one_thread")

LABELS = {
    method_named("fedmd(warmup=1)"): lambda f: mean_logits(f, 1e-3),
    method_named("ds-fl(warmup=1, temperature=0.3)"): lambda f: sharpened_mean(f, 0.3),
    method_named("fedct(warmup=1)"): majority_labels,
    method_named("cronus(warmup=1, share=0.3)"): lambda f: filtered_mean(f, 0.3),
}
EVERY = pytest.mark.parametrize("method", LABELS, ids=lambda method: method.label)


@EVERY
def test_everyone_learns_the_same_labels_after_the_warm_up(method):
    agents = parrots()
    one, two = rounds_of(method, 2, agents=agents)
    expected = LABELS[method](first_words())
    for agent in agents:
        assert agent.trained == [(0.0, False), (SAMPLES / 5, True)], "every shared sample counts as a private one"
        np.testing.assert_allclose(agent.says, expected, rtol=1e-6)
    per_sample = 1 if method.label == "fedct" else 4 * OUTPUTS
    assert one.record.sent == dict.fromkeys(NAMES, 0)
    assert two.record.sent == dict.fromkeys(NAMES, SAMPLES * per_sample * 3)
    assert (one.record.heard, two.record.heard) == ((), NAMES)
    np.testing.assert_array_equal(two.record.trust, np.full((4, 4), 0.25))


@EVERY
def test_labels_are_made_from_whoever_was_heard(method):
    agents = parrots()
    [_, done, lonely] = rounds_of(method, 3, Lossy({2: {"b"}, 3: set(NAMES)}), agents)
    assert done.record.heard == ("a", "c", "d")
    np.testing.assert_allclose(agents[0].says, LABELS[method](first_words()[[0, 2, 3]]), rtol=1e-6)
    assert agents[1].trained[1] == (0.0, False), "whom nobody hears trains alone"
    assert lonely.record.heard == ()
    assert agents[1].trained[-1] == (0.0, False)


def test_a_process_that_holds_some_agents_hears_the_others():
    here = parrots()[1:3]
    [done] = rounds_of(method_named("cronus(warmup=0, share=0.3)"), 1, Elsewhere(), here)
    np.testing.assert_allclose(here[0].says, filtered_mean(first_words(), 0.3), rtol=1e-6)
    assert done.record.sent == {"b": 7, "c": 7}


def test_what_a_liar_tells_one_agent_alone_is_in_the_labels_of_that_one():
    lie = np.tile(np.eye(OUTPUTS, dtype=np.float32)[2], (SAMPLES, 1))

    class Telling(InMemory):
        def gather(self, number, own_predictions):
            found = super().gather(number, own_predictions)
            return Received(found.predictions, found.sent, told={"b": {"a": lie}})

    agents = parrots()
    rounds_of(method_named("fedmd(warmup=0)"), 1, Telling(NAMES), agents)
    np.testing.assert_allclose(agents[0].says, mean_logits(first_words(), 1e-3), rtol=1e-6)
    np.testing.assert_allclose(agents[1].says, mean_logits(np.stack([lie, *first_words()[1:]]), 1e-3), rtol=1e-6)


def test_a_site_that_was_away_takes_up_the_later_round():
    class Later(InMemory):
        def gather(self, number, own_predictions):
            found = super().gather(number, own_predictions)
            return Received(found.predictions, found.sent, number + 3)

    assert [done.number for done in rounds_of(method_named("fedct(warmup=1)"), 6, Later(NAMES))] == [1, 5, 9]


@EVERY
def test_labels_follow_from_predictions_as_they_are_published(method):
    rounded = replace(method, warmup=0, wire=Wire("float16"))
    agents = parrots()
    [done] = rounds_of(rounded, 1, agents=agents)
    f = np.stack([Wire("float16").rounded(said) for said in first_words()])
    np.testing.assert_allclose(agents[2].says, LABELS[method](f), rtol=1e-6)
    assert done.record.sent["a"] == SAMPLES * OUTPUTS * 2 * 3


def network(name="a", seed=0, samples=30):
    return TorchAgent(
        plain_network(seed), *blobs(samples, seed), name, training=Training(epochs=2, batch=16, shared_batch=16)
    )


def same(one, two, shared) -> bool:
    return bool((one.predict(shared) == two.predict(shared)).all())


def test_fedmd_digests_and_then_revisits(shared):
    """By hand: two networks alone, their mean logits, so many passes over these, private data again."""
    agents, by_hand = [[network("a", 0), network("b", 1)] for _ in range(2)]
    for agent in by_hand:
        agent.train(shared, None, 0.0)
    psi = mean_logits(np.stack([agent.predict(shared) for agent in by_hand]), 1e-3)
    for agent in by_hand:
        digested = agent.train_on_shared(shared, psi, 3)
        revisited = agent.train(shared, None, 0.0)
    *_, done = list(
        method_named("fedmd(warmup=1, passes=3)").rounds(LocalAgents(agents), shared, InMemory(("a", "b")), Start(2))
    )
    for one, other in zip(agents, by_hand, strict=True):
        np.testing.assert_allclose(one.predict(shared), other.predict(shared), atol=1e-5)
    assert done.record.losses["b"].disagreement == pytest.approx(digested.disagreement, rel=1e-4)
    assert done.record.losses["b"].local == pytest.approx(revisited.local, rel=1e-3)
    assert done.record.losses["b"].trained == 2 * 30 + 3 * len(shared), "two epochs, three passes"
    assert done.record.losses["b"].forward == len(shared)


def test_ds_fl_trains_then_speaks_then_distils(shared):
    agents, by_hand = [[network("a", 0), network("b", 1)] for _ in range(2)]
    local = [agent.train(shared, None, 0.0) for agent in by_hand]
    psi = sharpened_mean(np.stack([agent.predict(shared) for agent in by_hand]), 0.1)
    digested = [agent.train_on_shared(shared, psi, 2) for agent in by_hand]
    [done] = method_named("ds-fl(warmup=0, passes=2)").rounds(
        LocalAgents(agents), shared, InMemory(("a", "b")), Start(1)
    )
    for one, other in zip(agents, by_hand, strict=True):
        np.testing.assert_allclose(one.predict(shared), other.predict(shared), atol=1e-5)
    cost = {"trained": 2 * 30 + 2 * len(shared), "forward": len(shared)}
    expected = Losses(pytest.approx(local[0].local), pytest.approx(digested[0].disagreement), **cost)
    assert done.record.losses["a"] == expected


def test_digesting_uses_no_private_row_and_does_not_touch_the_global_generator(shared):
    import torch

    one, two = (
        network(),
        TorchAgent(plain_network(0), *blobs(9, 77), "a", training=Training(epochs=2, batch=16, shared_batch=16)),
    )
    labels = np.eye(CLASSES, dtype=np.float32)[np.arange(len(shared)) % CLASSES]
    torch.manual_seed(5)
    before = torch.rand(1)
    torch.manual_seed(5)
    for agent in (one, two):
        agent.train_on_shared(shared, labels, 4)
    assert same(one, two, shared)
    assert torch.rand(1) == before
    assert agent.task.distance(agent.predict(shared), labels) < network().task.distance(
        network().predict(shared), labels
    )


def test_true_labels_of_the_shared_data_are_digested_before_the_first_round():
    shared, y = blobs(60, seed=1000)
    forest = SklearnAgent(RandomForestClassifier(20, random_state=0), *blobs(12, 3, classes=2), "c", classes=CLASSES)
    plain, given = [method_named(f"fedmd(warmup=1, shared_labels={labels})") for labels in ([], y.tolist())]
    right = {}
    for method in (plain, given):
        agents = [network("a", 0, 8), network("b", 1, 8), forest]
        [done] = method.rounds(LocalAgents(agents), shared, InMemory(("a", "b", "c")), Start(1))
        right[method] = {name: (f.argmax(axis=1) == y).mean() for name, f in done.record.predictions.items()}
    for name in "abc":
        assert right[given][name] > right[plain][name] + 0.05, name


@pytest.mark.parametrize(
    ("method", "says"),
    [
        (method_named("fedmd(shared_labels=[0, 1, 2])"), "shared_labels has 3 labels for 40 shared samples"),
        (method_named(f"fedmd(shared_labels={[0] * 40}, warmup=0)"), "at least one round of warm-up"),
    ],
)
def test_labels_that_are_not_those_of_the_shared_data_are_refused(method, says, shared):
    with pytest.raises(ConsilienceError, match=says):
        next(method.rounds(LocalAgents([network()]), shared, InMemory(("a",)), Start(9)))


@pytest.mark.parametrize("task", ["regression", "multilabel"])
@pytest.mark.parametrize(
    "method", [*map(method_named, ("fedmd", "ds-fl", "fedct")), FD()], ids=lambda method: method.label
)
def test_methods_for_classes_refuse_other_tasks_in_a_sentence(method, task, shared):
    with pytest.raises(ConsilienceError, match=rf"^{method.title} .* class.*, and {task} has none\. Use consensus"):
        collaborate(agents_for(task), shared, method=method, rounds=6, progress=False)


def test_feddf_refuses_regression_in_a_sentence(shared):
    import torch

    agents = [
        TorchAgent(torch.nn.Linear(6, 1), x, x[:, :1], task="regression") for x in (blobs(20, 0)[0], blobs(20, 1)[0])
    ]
    with pytest.raises(ConsilienceError, match=r"FedDF distils the logits of classes, and regression has none\. Use"):
        collaborate(agents, shared, method=FedDF(), rounds=1, progress=False)


@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_a_robust_mean_is_for_every_task(task, shared):
    agents = agents_for(task)
    collaborate(agents, shared, method=method_named("cronus(warmup=1)"), rounds=3, progress=False)
    assert np.isfinite(agents[0].predict(shared)).all()
    with pytest.raises(ConsilienceError, match=rf"wire\.form is 'label', .* float16 for {task}"):
        collaborate(
            agents_for(task),
            shared,
            method=method_named("cronus(warmup=1, wire={form='label'})"),
            rounds=3,
            progress=False,
        )


@EVERY
def test_networks_and_estimators_learn_together(method):
    """Each agent knows two of the three classes; the shared data show it the third."""
    shared, _ = blobs(120, seed=1000)
    target, y = blobs(300, seed=2000)
    agents = []
    for seed in range(4):
        x, own = blobs(60, seed)
        x, own = x[own != seed % CLASSES], own[own != seed % CLASSES]
        if seed < 2:
            agents.append(
                TorchAgent(plain_network(seed), x, own, f"network {seed}", training=Training(lr=0.02, shared_batch=16))
            )
        else:
            forest = RandomForestClassifier(20) if seed == 2 else LogisticRegression()
            agents.append(SklearnAgent(forest, x, own, f"estimator {seed}", classes=CLASSES))
    together = method_named(f"{method.label}(warmup=1)")
    result = collaborate(agents, shared, method=together, rounds=6, target=(target, y), progress=False)
    gains = result.gains.query("score == 'accuracy'")
    assert (gains["gain"] > 0).all(), gains
    assert gains["gain"].mean() > 0.1


@pytest.mark.parametrize("method", [*LABELS, FD(), FedDF()], ids=lambda method: method.label)
def test_the_loop_takes_up_where_it_is_told(shared, method):
    """With the agents as they are, the later rounds are those of a whole run."""
    whole, rest = classifiers(), classifiers()
    exchange = InMemory(tuple(agent.name for agent in whole), method.wire)
    rounds = list(method.rounds(LocalAgents(whole), shared, exchange, Start(4)))
    first = list(method.rounds(LocalAgents(rest), shared, exchange, Start(2)))
    later = list(method.rounds(LocalAgents(rest), shared, exchange, Start(4, 2, first[-1].memory)))
    assert [done.number for done in later] == [3, 4]
    for one, other in zip(whole, rest, strict=True):
        assert same(one, other, shared)
    for name in exchange.roster:
        np.testing.assert_array_equal(later[-1].record.predictions[name], rounds[-1].record.predictions[name])
