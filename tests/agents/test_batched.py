"""Small models that train together do what each would do alone."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.dummy import DummyClassifier
from torch import nn

from consilience import ConsilienceError, SklearnAgent, TorchAgent
from consilience.agents import batched
from consilience.agents.batched import units
from consilience.agents.protocol import GradientCorrection
from consilience.agents.training import Training
from tests.agents.together import train_all, train_all_alone, train_all_on_own, train_all_on_shared
from tests.conftest import CLASSES, FEATURES, blobs
from tests.torch_options import torch_options

SAMPLES = {"a": 50, "b": 130, "c": 2, "d": 64, "e": 131}


def network(seed: int, hidden: tuple[int, ...] = (16,)) -> nn.Module:
    torch.manual_seed(seed)
    sizes = (FEATURES, *hidden, CLASSES)
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def classifiers(names=tuple(SAMPLES), **options) -> list[TorchAgent]:
    options = {"epochs": 2, "batch": 48, "shared_batch": 24} | options
    return [
        TorchAgent(network(seed), *blobs(SAMPLES[name], seed), name, **torch_options(**options))
        for seed, name in enumerate(SAMPLES)
        if name in names
    ]


def soft_labels(samples: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(5)
    return {name: draw.dirichlet(np.ones(CLASSES), samples).astype(np.float32) for name in SAMPLES}


def train(agents, shared, rounds, only=tuple(SAMPLES)):
    """Two rounds alone, then with pseudo-labels for those in `only`."""
    labels = {name: psi for name, psi in soft_labels(len(shared)).items() if name in only}
    return [train_all(agents, shared, {} if number < 2 else labels, 0.7) for number in rounds]


def close(one: TorchAgent, two: TorchAgent, atol: float) -> None:
    first, second = one.state(), two.state()
    assert first.keys() == second.keys()
    for key in first:
        np.testing.assert_allclose(first[key], second[key], rtol=1e-3, atol=atol, err_msg=f"{one.name}: {key}")


@pytest.mark.parametrize("only", [tuple(SAMPLES), ("a", "e")])
def test_a_batch_equals_the_agents_one_by_one(shared, only):
    """Weights, Adam's moments and losses over rounds with and without pseudo-labels, for different sample counts."""
    together, alone = classifiers(), classifiers(batched=False)
    assert units(together) == [list(SAMPLES)]
    assert units(alone) == [[name] for name in SAMPLES]
    losses, expected = train(together, shared, range(4), only), train(alone, shared, range(4), only)
    for one, two in zip(together, alone, strict=True):
        close(one, two, atol=2e-4)
        np.testing.assert_allclose(one.predict(shared), two.predict(shared), atol=1e-3)
    for mine, theirs in zip(losses, expected, strict=True):
        for name in SAMPLES:
            assert mine[name].local == pytest.approx(theirs[name].local, rel=1e-3)
            assert mine[name].disagreement == pytest.approx(theirs[name].disagreement, rel=1e-3, nan_ok=True)


def test_labels_with_lambda_0_draw_the_same_samples_in_a_batch(shared):
    together, alone = classifiers(), classifiers(batched=False)
    for _ in range(2):
        losses = train_all(together, shared, soft_labels(len(shared)), 0.0)
        train_all(alone, shared, soft_labels(len(shared)), 0.0)
    assert all(np.isnan(loss.disagreement) for loss in losses.values())
    for one, two in zip(together, alone, strict=True):
        close(one, two, atol=2e-4)


@pytest.mark.parametrize("hidden", [(), (33,), (20, 7)])
def test_who_else_is_in_the_batch_changes_no_bit(shared, hidden, monkeypatch):
    """Alone, in pairs or all together, in any order: a site on its own computes what the simulation does."""

    def trained(groups):
        agents = {a.name: a for a in classifiers()}
        for seed, agent in enumerate(agents.values()):
            agent.model = network(seed, hidden)
            agent.reset_optimizer()
        for number in range(3):
            labels = {} if number < 1 else soft_labels(len(shared))
            for group in groups:
                train_all([agents[name] for name in group], shared, labels, 0.7)
        return {name: agent.state() for name, agent in agents.items()}

    whole = trained(["abcde"])
    for groups in (["edcba"], ["a", "b", "c", "d", "e"], ["ab", "cde"]):
        for name, state in trained(groups).items():
            assert all(np.array_equal(state[key], whole[name][key]) for key in state), (groups, name)
    monkeypatch.setattr(batched, "LARGEST_BATCH", 2)
    assert [len(unit) for unit in units(classifiers())] == [2, 2, 1]


def test_a_restored_batch_goes_on_bit_for_bit(shared):
    whole, half, resumed = classifiers(), classifiers(), classifiers(seed=0)
    train(whole, shared, range(4))
    train(half, shared, range(2))
    for one, two in zip(half, resumed, strict=True):
        two.restore(one.state(), shared)
    train(resumed, shared, range(2, 4))
    for one, two in zip(whole, resumed, strict=True):
        assert all(np.array_equal(value, two.state()[key]) for key, value in one.state().items())


@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_other_tasks_in_a_batch_equal_the_agents_one_by_one(shared, task):
    def labels_of(x):
        return x[:, :CLASSES] * 2 if task == "regression" else x[:, :CLASSES] > 0

    def agents(batched):
        return [
            TorchAgent(
                network(seed), x, labels_of(x), name, task=task, training=Training(epochs=2, batch=16, batched=batched)
            )
            for seed, name in enumerate("abc")
            for x in [blobs(40 + 9 * seed, seed)[0]]
        ]

    together, alone = agents(True), agents(False)
    assert units(together) == [["a", "b", "c"]]
    draw = np.random.default_rng(0)
    labels = {name: draw.random((len(shared), CLASSES), np.float32) for name in "abc"}
    for psi in ({}, labels, labels):
        mine, theirs = train_all(together, shared, psi, 1.0), train_all(alone, shared, psi, 1.0)
    for one, two in zip(together, alone, strict=True):
        close(one, two, atol=1e-4)
        np.testing.assert_allclose(one.predict(shared), two.predict(shared), atol=1e-4)
        assert mine[one.name].local == pytest.approx(theirs[one.name].local, rel=1e-4)
        assert mine[one.name].disagreement == pytest.approx(theirs[one.name].disagreement, rel=1e-4)


def test_tasks_train_in_batches_of_their_own():
    x, y = blobs(30, 0)
    classes = TorchAgent(network(0), x, y, "classes")
    values = TorchAgent(network(0), x, x[:, :CLASSES], "values", task="regression")
    assert units([classes, values]) == [["classes"], ["values"]]


def test_only_plain_small_networks_with_our_adam_train_together():
    x, y = blobs(30, 0)

    def agent(name, model, **options):
        return TorchAgent(model, x, y, name, **torch_options(**options))

    def linear():
        return nn.Linear(FEATURES, CLASSES)

    agents = [
        agent("one", linear()),
        agent("flat", nn.Sequential(nn.Flatten(), linear())),
        agent("other batch", linear(), batch=10),
        agent("other shared batch", linear(), shared_batch=10),
        agent("by itself", linear(), batched=False),
        agent("norm", nn.Sequential(linear(), nn.BatchNorm1d(CLASSES))),
        agent("dropout", nn.Sequential(nn.Dropout(0.5), linear())),
        agent("no bias", nn.Linear(FEATURES, CLASSES, bias=False)),
        agent("sgd", linear(), optimizer=lambda p: torch.optim.SGD(p, lr=0.1)),
        agent("large", nn.Sequential(nn.Linear(FEATURES, 20_000), nn.ReLU(), nn.Linear(20_000, CLASSES))),
        SklearnAgent(DummyClassifier(), x, y, "estimator"),
    ]
    assert units(agents) == [["one", "flat"], *([a.name] for a in agents[2:])]


def test_networks_that_do_more_than_their_layers_train_one_by_one(shared):
    """Hooks and a forward of the user's own are part of the model, wherever they are."""
    x, y = blobs(30, 0)

    def hooked(change) -> nn.Module:
        model = nn.Sequential(nn.Flatten(), nn.Linear(FEATURES, CLASSES))
        change(model)
        return model

    def patch(model):
        model.forward = lambda inputs: model[1](inputs) * 2

    def twice(module, inputs, out):
        return out * 2

    def frozen(weight):
        weight.grad.zero_()

    changes = {
        "hook on the whole": lambda m: m.register_forward_hook(twice),
        "hook on a part": lambda m: m[1].register_forward_hook(twice),
        "hook before": lambda m: m[0].register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,)),
        "hook on the way back": lambda m: m[1].register_full_backward_hook(lambda module, a, b: None),
        "hook on a weight": lambda m: m[1].weight.register_hook(lambda gradient: gradient * 0),
        "hook after a gradient": lambda m: m[1].weight.register_post_accumulate_grad_hook(frozen),
        "patched": patch,
        "patched part": lambda m: setattr(m[1], "forward", lambda inputs: inputs[:, :CLASSES] * 0 + m[1].bias),
    }
    for name, change in changes.items():
        together, alone = (
            [
                TorchAgent(hooked(change), x, y, name, training=Training(batched=batched, epochs=1)),
                TorchAgent(network(1), x, y, "plain"),
            ]
            for batched in (True, False)
        )
        alone[0].model.load_state_dict(together[0].model.state_dict())
        assert units(together) == [[name], ["plain"]], name
        weight = together[0].model[-1].weight.detach().clone()
        for agents in (together, alone):
            train_all(agents, shared, {}, 0.0)
        np.testing.assert_array_equal(together[0].predict(shared), alone[0].predict(shared))
        if name == "hook after a gradient":
            torch.testing.assert_close(together[0].model[1].weight, weight, rtol=0, atol=0)
    try:
        nn.Linear.forward, kept = (lambda self, inputs: kept(self, inputs) * 2), nn.Linear.forward
        assert units([TorchAgent(network(0), x, y, "a"), TorchAgent(network(0), x, y, "b")]) == [["a"], ["b"]]
    finally:
        nn.Linear.forward = kept


def test_divergence_in_a_batch_is_reported_with_the_agent(shared):
    agents = classifiers()
    agents[1].x[3] = torch.inf
    with pytest.raises(ConsilienceError, match="agent 'b': training diverged in round 1"):
        train_all(agents, shared, {}, 0.0)


def linear_pull(g, y, x, common, own):
    """A rule with every one of its arguments."""
    return g + 0.3 * (y - x) + common - 0.5 * own


def corrections(agents, rule=linear_pull, elementwise=True):
    """Those of one round of one server: agents differ in their own states."""
    draw = np.random.default_rng(3)

    def weights():
        return {
            name: draw.normal(0, 0.05, value.shape).astype(np.float32) for name, value in agents[0].weights().items()
        }

    x, common = agents[0].weights(), weights()
    return {a.name: GradientCorrection(rule, x, common, weights(), elementwise, keeps_sums=True) for a in agents}


def test_the_shared_data_alone_in_a_batch_equal_the_agents_one_by_one(shared):
    together, alone, told = classifiers(), classifiers(batched=False), []
    labels = soft_labels(len(shared))
    for _ in range(2):
        losses = train_all_on_shared(together, shared, labels, 3, told.append)
        expected = [agent.train_on_shared(shared, labels[agent.name], 3) for agent in alone]
        train_all(together, shared, {}, 0.0)
        train_all(alone, shared, {}, 0.0)
    assert sorted(told) == sorted([*SAMPLES] * 2)
    for one, two, theirs in zip(together, alone, expected, strict=True):
        close(one, two, atol=2e-4)
        assert losses[one.name].disagreement == pytest.approx(theirs.disagreement, rel=1e-3)
        assert losses[one.name].trained == theirs.trained and np.isnan(losses[one.name].local)


@pytest.mark.parametrize("how", ["corrected", "on shared", "on own"])
def test_who_else_is_in_the_batch_changes_no_bit_of_other_training(shared, how):
    def trained(groups):
        agents = classifiers()
        by_name, known = {a.name: a for a in agents}, corrections(agents)
        for group in groups:
            some = [by_name[name] for name in group]
            if how == "corrected":
                train_all_alone(some, known)
            elif how == "on shared":
                train_all_on_shared(some, shared, soft_labels(len(shared)), 2)
            else:
                train_all_on_own(some, {a.name: soft_labels(a.samples)[a.name] for a in some}, 0.7)
        return {name: agent.state() for name, agent in by_name.items()}

    whole = trained(["abcde"])
    for groups in (["edcba"], ["a", "b", "c", "d", "e"], ["ab", "cde"]):
        for name, state in trained(groups).items():
            assert all(np.array_equal(state[key], whole[name][key]) for key in state), (groups, name)
