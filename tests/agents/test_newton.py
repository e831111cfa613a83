"""The exact solver: its step against plain linear algebra, its objective, what it refuses, and what it is for."""

from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from consilience import Consensus, ConsilienceError, SklearnAgent, TorchAgent, Uniform, check_agent, collaborate
from consilience.agents.input_cache import cached_rows
from consilience.agents.newton import metric
from consilience.core.duals import softmax
from consilience.privacy.options import Privacy
from tests.torch_options import torch_options

DECAY, LAM, CLASSES = 1e-3, 0.7, 3
pytestmark = pytest.mark.usefixtures("one_thread")


def data(seed: int, samples: int = 30, width: int = 5):
    draw = np.random.default_rng(seed)
    y = np.arange(samples) % CLASSES
    return (draw.normal(0, 1, (samples, width)) + np.eye(CLASSES, width)[y]).astype(np.float32), y


X, Y = data(0)
SHARED = data(1, 40)[0]
PSI = np.random.default_rng(2).dirichlet(np.ones(CLASSES), 40).astype(np.float32)


def agent(model=None, x=X, y=Y, **options) -> TorchAgent:
    model = nn.Linear(x.shape[1], CLASSES) if model is None else model
    return TorchAgent(model, x, y, "a", **torch_options(**{"solver": "exact", "decay": DECAY, "epochs": 1} | options))


def features(x):
    return np.c_[x, np.ones(len(x))].astype(np.float64)


def weights(one: TorchAgent):
    layer = [m for m in one.model.modules() if isinstance(m, nn.Linear)][-1]
    return torch.cat([layer.weight, layer.bias[:, None]], dim=1).detach().numpy().T.astype(np.float64)


def objective(w, x, y, s=None, psi=None, lam=0.0):
    """The local objective and its gradient, with plain loops over samples."""
    rows = s if s is not None else x
    ridge = DECAY * sum((row**2).sum() for row in rows) / len(rows)
    value, gradient = ridge / 2 * (w**2).sum(), ridge * w
    for row, label in zip(features(x), y, strict=True):
        p = softmax(row @ w)
        value -= np.log(p[label]) / len(x)
        gradient = gradient + np.outer(row, p - np.eye(CLASSES)[label]) / len(x)
    if s is not None:
        for row, soft in zip(features(s), psi.astype(np.float64), strict=True):
            t = np.log(soft) - np.log(soft).mean()
            value += lam / 2 * ((row @ w - t) ** 2).sum() / len(s)
            gradient = gradient + lam * np.outer(row, row @ w - t) / len(s)
    return value, gradient


@pytest.mark.parametrize("own", [30, 4], ids=["more private rows than features", "fewer private rows"])
@pytest.mark.parametrize("shared", [SHARED, SHARED[:4]], ids=["more shared rows", "fewer shared rows"])
def test_a_step_is_that_of_plain_linear_algebra(shared, own):
    psi, w = PSI[: len(shared)], np.zeros((6, CLASSES))
    X, Y = data(0, own)
    one = agent(x=X, y=Y)
    one.train(shared, psi, LAM)
    one.train(shared, psi, LAM)
    x, s = features(X), features(shared)
    h = x.T @ x / (2 * len(x)) + LAM / len(s) * s.T @ s + DECAY * (shared**2).sum(axis=1).mean() * np.eye(6)
    for _ in range(2):
        w = w - np.linalg.solve(h, objective(w, X, Y, shared, psi, LAM)[1])
    np.testing.assert_allclose(weights(one), w, atol=2e-5)


def test_another_lambda_and_other_shared_data_are_taken_up():
    one, w = agent(), np.zeros((6, CLASSES))
    x = features(X)
    for shared, lam in ((SHARED, LAM), (SHARED, 0.2), (SHARED[:20], 0.2)):
        psi, s = PSI[: len(shared)], features(shared)
        one.train(shared, psi, lam)
        h = x.T @ x / (2 * len(x)) + lam / len(s) * s.T @ s + DECAY * (shared**2).sum(axis=1).mean() * np.eye(6)
        w = w - np.linalg.solve(h, objective(w, X, Y, shared, psi, lam)[1])
        np.testing.assert_allclose(weights(one), w, atol=2e-5)


def test_a_method_may_change_the_gradient_of_each_tensor():
    seen, moved, plain = {}, agent(), agent()

    def correct(name, gradient, weight):
        seen[name] = (gradient.shape, weight.shape)
        return gradient + 1 if name == "bias" else gradient

    moved.train_alone(correct)
    plain.train_alone()
    assert seen == {"weight": ((CLASSES, 5), (CLASSES, 5)), "bias": ((CLASSES,), (CLASSES,))}
    assert np.abs(weights(moved) - weights(plain)).max() > 1e-3
    still = agent()
    still.train_alone(lambda name, gradient, weight: gradient * 0)
    np.testing.assert_array_equal(weights(still), 0)


def test_alone_it_uses_no_shared_data():
    one, other = agent(), agent()
    for _ in range(3):
        one.train(SHARED, None, 0.0)
        other.train_alone()
    np.testing.assert_array_equal(weights(one), weights(other))
    x, w = features(X), np.zeros((6, CLASSES))
    h = x.T @ x / (2 * len(x)) + DECAY * (X**2).sum(axis=1).mean() * np.eye(6)
    for _ in range(3):
        w = w - np.linalg.solve(h, objective(w, X, Y)[1])
    np.testing.assert_allclose(weights(one), w, atol=2e-5)


@pytest.mark.parametrize("seed", range(4))
def test_no_step_raises_the_objective_and_many_reach_its_minimum(seed):
    x, y = data(seed, 20 + 7 * seed)
    one, values = agent(x=x, y=y), []
    for _ in range(150):
        one.train(SHARED, PSI, LAM)
        values.append(objective(weights(one), x, y, SHARED, PSI, LAM))
    losses = [value for value, _ in values]
    assert all(after <= before + 1e-6 for before, after in pairwise(losses))
    assert np.abs(values[-1][1]).max() < 1e-4
    assert losses[0] - losses[-1] > 1e-3


@pytest.mark.parametrize("rows", [0, 3, 9])
def test_both_forms_of_the_metric_are_inverses(rows):
    s, v = torch.randn(rows, 6, dtype=torch.float64), torch.randn(6, 2, dtype=torch.float64)
    g = (0.4 / max(rows, 1)) * s.T @ s + 0.3 * torch.eye(6, dtype=torch.float64)
    torch.testing.assert_close(metric(s, 0.4, 0.3).inverse(v), torch.linalg.solve(g, v))


def test_samples_that_pass_are_counted():
    one = agent(epochs=3)
    assert one.train(SHARED, PSI, LAM).trained == 3 * (30 + 40)
    assert one.train(SHARED, None, 0.0).trained == 3 * 30
    assert one.steps == 3


def frozen() -> nn.Module:
    """A network with a backbone that is not trained, batch norm and dropout in it."""
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5))
    return nn.Sequential(backbone.requires_grad_(False), nn.Linear(8, CLASSES))


def test_a_frozen_backbone_stays_as_it_is_and_its_head_learns():
    one = agent(frozen())
    before = {name: value.clone() for name, value in one.model.state_dict().items()}
    for _ in range(5):
        one.train(SHARED, PSI, LAM)
    changed = {name for name, value in one.model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"1.weight", "1.bias"}
    other = agent(frozen())
    for _ in range(5):
        other.model.train()  # features are read in evaluation mode whatever the model was last used for
        other.train(SHARED, PSI, LAM)
    np.testing.assert_array_equal(weights(other), weights(one))
    found = one.model.eval()(torch.from_numpy(X)).softmax(dim=1).detach().numpy()
    np.testing.assert_allclose(one.predict(X), found, rtol=1e-5)


@pytest.mark.parametrize("model", [lambda: nn.Linear(4, 3), lambda: nn.Linear(4, 3, bias=False)])
@pytest.mark.parametrize("options", [{}, {"class_balanced": True}])
def test_it_is_an_agent_like_others(model, options):
    def make(x, y, name):
        with torch.random.fork_rng():
            return TorchAgent(model(), x, y, name, **torch_options(solver="exact", **options))

    check_agent(make)


def test_agents_with_other_features_of_the_same_rows_do_not_share_a_metric():
    """What is read once for all agents of a process is what all of them read alike."""

    def trained(rows):
        torch.manual_seed(1)
        agents = [agent(frozen()), agent(nn.Sequential(nn.Linear(5, 8).requires_grad_(False), nn.Linear(8, CLASSES)))]
        agents += [agent(nn.Sequential(nn.Linear(5, 8).requires_grad_(False), nn.Linear(8, CLASSES)))]
        agents += [agent(nn.Sequential(nn.Flatten(), nn.Linear(5, CLASSES)), decay=1e-2)]
        agents += [agent(nn.Sequential(nn.Flatten(), nn.Linear(5, CLASSES))) for _ in range(2)]
        for one in agents:
            one.train(rows, PSI, LAM)
        return agents

    apart = trained(SHARED)
    with cached_rows([SHARED]):
        together = trained(SHARED)
    for one, other in zip(apart, together, strict=True):
        np.testing.assert_array_equal(weights(one), weights(other))
    first, second = (one._exact._shared[2] for one in together[-2:])
    assert first is second


def test_a_copy_learns_by_itself_and_shares_features():
    one = agent()
    one.train(SHARED, PSI, LAM)
    before, copied = weights(one), deepcopy(one)
    copied.train(SHARED, PSI, LAM)
    np.testing.assert_array_equal(weights(one), before)
    one.train(SHARED, PSI, LAM)
    np.testing.assert_array_equal(weights(one), weights(copied))
    assert copied._exact._own is one._exact._own
    for each in (one, copied):
        each.train(SHARED[:20], PSI[:20], LAM)
    np.testing.assert_array_equal(weights(one), weights(copied))


def test_class_balance_moves_what_is_rare():
    rare = Y[:24] * (np.arange(24) % 4 == 0)
    plain, even = (agent(x=X[:24], y=rare, class_balanced=balanced) for balanced in (False, True))
    for one in (plain, even):
        for _ in range(20):
            one.train_alone()
    assert even.predict(SHARED)[:, 0].mean() < plain.predict(SHARED)[:, 0].mean() - 0.05


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)), {}, "this one trains 0.bias, 0.weight, 2.bias"),
        (nn.Sequential(nn.Linear(5, 3), nn.ReLU()), {}, "end with one linear layer"),
        (nn.Linear(5, 3), {"solver": "exactly"}, "it must be one of auto, steps, exact"),
        (nn.Linear(5, 3), {"augment": lambda x: x}, "images that are changed in training"),
        (nn.Linear(5, 3), {"privacy": Privacy(epsilon=1.0)}, "a private agent"),
        (nn.Linear(5, 3), {"task": "regression", "y": X[:, :3]}, "a model for regression"),
        (nn.Linear(5, 3), {"solver": "both", "privacy": Privacy(epsilon=1.0)}, "'both' cannot be used for a private"),
        (nn.Sequential(nn.Linear(5, 3), nn.ReLU()), {"solver": "both"}, "'both' is for models that end with one"),
    ],
)
def test_what_it_cannot_solve_is_refused(model, options, words):
    with pytest.raises(ConsilienceError, match=words):
        agent(model, **options)


@pytest.mark.parametrize("shared", [SHARED, SHARED[:4], None], ids=["more rows than features", "fewer rows", "alone"])
def test_after_steps_of_all_layers_the_last_is_solved_near_where_they_left_it(shared):
    """Both solvers, with plain linear algebra on the features of the first layer as Adam left it."""
    torch.manual_seed(3)
    network = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, CLASSES))
    psi = None if shared is None else PSI[: len(shared)]
    adam, both = (agent(deepcopy(network), solver=solver, batched=False) for solver in ("steps", "both"))
    losses = [one.train(shared, psi, LAM) if psi is not None else one.train_alone() for one in (adam, both)]
    assert losses[1].forward == len(X) + (0 if psi is None else len(psi)) and losses[0].forward == 0
    np.testing.assert_array_equal(adam.model[0].weight.detach(), both.model[0].weight.detach())
    with torch.no_grad():
        x, s = (adam.model[:2](torch.from_numpy(rows)).numpy() for rows in (X, SHARED if shared is None else shared))
    usual, centre = x if psi is None else s, weights(adam)
    ridge = 1e-3 * (usual**2).sum(axis=1).mean()
    x, s, w = features(x), features(s), centre
    h = x.T @ x / (2 * len(x)) + ridge * np.eye(7) + (0 if psi is None else LAM / len(s) * s.T @ s)
    for _ in range(3):
        gradient = x.T @ (softmax(x @ w) - np.eye(CLASSES)[Y]) / len(x) + ridge * (w - centre)
        if psi is not None:
            t = np.log(psi) - np.log(psi).mean(axis=1, keepdims=True)
            gradient = gradient + LAM / len(s) * s.T @ (s @ w - t)
        w = w - np.linalg.solve(h, gradient)
    np.testing.assert_allclose(weights(both), w, atol=1e-4)
    assert np.abs(w - centre).max() > 1e-2


def test_it_does_not_part_private_and_shared_data():
    with pytest.raises(ConsilienceError, match="learns private and shared data together"):
        agent().train_on_shared(SHARED, PSI, 1)


def test_with_duals_agents_come_to_what_one_model_of_all_data_says():
    """Three agents, each with two of three classes; what they share are predictions."""
    x, y = data(5, 120)
    parts = [np.flatnonzero(y != missing) for missing in range(CLASSES)]

    def together(duals):
        agents = [agent(x=x[part], y=y[part]) for part in parts]
        for number, one in enumerate(agents):
            one.name = str(number)
        method = Consensus(warmup=0, lam=0.2, trust=Uniform(), duals=duals)
        found = collaborate(agents, SHARED, method=method, rounds=60, baseline=False)
        return np.stack([one.predict(SHARED) for one in found.agents])

    pooled = agent(x=np.concatenate([x[p] for p in parts]), y=np.concatenate([y[p] for p in parts]))
    for _ in range(100):
        pooled.train_alone()
    truth = pooled.predict(SHARED)
    with_duals, without = together(1.0), together(0.0)
    assert np.abs(with_duals - truth).max() < 0.03
    assert np.abs(without - truth).max() > 0.1
    assert np.ptp(with_duals, axis=0).max() < 0.01


def test_peers_of_other_kinds_and_certain_ones_do_no_harm():
    """A tree says 0 and 1; logarithms of that stay finite."""
    from sklearn.tree import DecisionTreeClassifier

    x, y = data(6, 60)
    tree = SklearnAgent(DecisionTreeClassifier(), x[:30], y[:30], "tree", classes=CLASSES)
    one = agent(x=x[30:], y=y[30:])
    found = collaborate([tree, one], SHARED, method=Consensus(warmup=1, duals=0.5), rounds=8, baseline=False)
    assert all(np.isfinite(each.predict(SHARED)).all() for each in found.agents)
