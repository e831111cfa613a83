"""The federated methods as a user meets them: against the papers' algorithms in plain loops, and where they end up."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from consilience.runtime.federated_rounds import FEDERATED, Federated, federated
from consilience.runtime.rounds import Round
from sklearn.linear_model import LogisticRegression
from torch import nn

from consilience import ConsilienceError, InMemory, SklearnAgent, TorchAgent
from consilience.agents.protocol import describe
from consilience.runtime import checkpoint
from consilience.runtime.history import Evaluation
from consilience.runtime.run import carry_out
from tests.conftest import CLASSES, FEATURES, blobs

SIZES = {"a": 20, "b": 40, "c": 70}


pytestmark = pytest.mark.usefixtures("one_thread")


def network(seed: int, width: int = 8, norm: bool = True) -> nn.Module:
    torch.manual_seed(seed)
    middle: list[nn.Module] = [nn.BatchNorm1d(width)] if norm else []
    return nn.Sequential(nn.Linear(FEATURES, width), *middle, nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, CLASSES))


def classifier(name: str, **kwargs) -> TorchAgent:
    number = list(SIZES).index(name)
    x, y = blobs(SIZES[name], seed=number)
    return TorchAgent(network(number), x, y, name, epochs=2, batch=16, **kwargs)


def classifiers(**kwargs) -> list[TorchAgent]:
    return [classifier(name, **kwargs) for name in SIZES]


def run(agents, method: Federated, shared) -> list[Round]:
    rounds: list[Round] = []
    federated(agents, shared, method, rounds.append)
    return rounds


def assert_same_weights(one, two, **tolerance) -> None:
    assert one.keys() == two.keys()
    for key in one:
        np.testing.assert_allclose(one[key], two[key], **({"rtol": 0, "atol": 0} | tolerance), err_msg=key)


# Linear regressions of different curvature, optimum and size: loss (1/n) |X w - y|^2, full-batch SGD.

RATE, DIMENSIONS = 0.2, 3
QUADRATICS = {"a": (40, (1.0, 0.5, 0.3), 5), "b": (20, (0.3, 1.0, 0.5), 10), "c": (60, (0.5, 0.3, 1.0), 15)}


def quadratic_data(iid: bool = False) -> dict[str, tuple[np.ndarray, np.ndarray, int]]:
    data = {}
    for number, (name, (samples, scale, epochs)) in enumerate(QUADRATICS.items()):
        draw = np.random.default_rng(0 if iid else number)
        x = draw.normal(size=(30 if iid else samples, DIMENSIONS)) * (1.0 if iid else np.array(scale))
        y = x @ draw.normal(0, 2, size=DIMENSIONS) + 0.1 * draw.normal(size=len(x))
        data[name] = x.astype(np.float32), y.astype(np.float32), epochs
    return data


def quadratics(data) -> list[TorchAgent]:
    agents = []
    for number, (name, (x, y, epochs)) in enumerate(data.items()):
        torch.manual_seed(number)
        model = nn.Linear(DIMENSIONS, 1, bias=False)
        options = {"epochs": epochs, "batch": 1000, "optimizer": lambda p: torch.optim.SGD(p, lr=RATE)}
        agents.append(TorchAgent(model, x, y, name, task="regression", **options))
    return agents


def pooled_optimum(data) -> np.ndarray:
    x, y = np.vstack([x for x, _, _ in data.values()]), np.hstack([y for _, y, _ in data.values()])
    return np.linalg.lstsq(x.astype(float), y.astype(float), rcond=None)[0]


def algorithms_as_printed(name: str, data, start: np.ndarray, rounds: int, mu: float, alpha: float) -> np.ndarray:
    """All four papers' algorithms with plain loops; 1/N there is n_i/n here."""
    total = sum(len(x) for x, _, _ in data.values())
    weight = {a: len(x) / total for a, (x, _, _) in data.items()}
    server, zero = start.astype(float), np.zeros(DIMENSIONS)
    c, h, c_of, lambda_of = zero, zero, dict.fromkeys(data, zero), dict.fromkeys(data, zero)
    for _ in range(rounds):
        local, change = {}, {}
        for a, (x, y, steps) in data.items():
            w = server
            for _ in range(steps):
                gradient = sum(2 * (x[s] @ w - y[s]) * x[s].astype(float) for s in range(len(x))) / len(x)
                if name == "fedprox":
                    gradient = gradient + mu * (w - server)
                if name == "scaffold":
                    gradient = gradient - c_of[a] + c
                if name == "feddyn":
                    gradient = gradient - lambda_of[a] + alpha * (w - server)
                w = w - RATE * gradient
            renewed = c_of[a] - c + (server - w) / (steps * RATE)
            local[a], change[a], c_of[a] = w, renewed - c_of[a], renewed
            lambda_of[a] = lambda_of[a] - alpha * (w - server)
        c = c + sum(weight[a] * change[a] for a in data)
        h = h - alpha * sum(weight[a] * (local[a] - server) for a in data)
        server = sum(weight[a] * local[a] for a in data) - (h / alpha if name == "feddyn" else 0)
    return server


@pytest.mark.parametrize("name", FEDERATED)
def test_every_method_is_the_algorithm_of_its_paper(name):
    """Three rounds, in which agents differ in samples and in the number of local steps."""
    data = quadratic_data()
    agents = quadratics(data)
    start = agents[0].weights()["weight"][0]
    run(agents, Federated(name, rounds=3, mu=0.5, alpha=0.4), data["a"][0])
    expected = algorithms_as_printed(name, data, start, rounds=3, mu=0.5, alpha=0.4)
    np.testing.assert_allclose(agents[1].weights()["weight"][0], expected, rtol=1e-4, atol=1e-5)


def test_scaffolds_variates_from_gradients_and_from_steps_are_the_same_under_plain_sgd():
    data = quadratic_data()
    ends = []
    for variates in ("gradients", "steps"):
        agents = quadratics(data)
        run(agents, Federated("scaffold", rounds=5, variates=variates), data["a"][0])
        ends.append(agents[0].weights()["weight"][0])
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-4, atol=1e-5)


def test_only_scaffold_and_feddyn_reach_the_optimum_of_different_agents():
    """The optimum is the least-squares solution of all samples together, so that it also tells the sample weights."""
    data = quadratic_data()
    best = pooled_optimum(data)

    def distance(method: Federated) -> float:
        agents = quadratics(data)
        run(agents, method, data["a"][0])
        return float(np.linalg.norm(agents[0].weights()["weight"][0] - best))

    fedavg, fedprox = distance(Federated("fedavg", 25)), distance(Federated("fedprox", 25, mu=0.5))
    assert 0.05 < fedprox < fedavg and fedavg > 0.3
    assert distance(Federated("scaffold", 25)) < 1e-4
    assert distance(Federated("feddyn", 25, alpha=1.0)) < 1e-4


@pytest.mark.parametrize("name", FEDERATED)
def test_with_the_same_data_everywhere_all_methods_end_at_the_same_model(name):
    data = quadratic_data(iid=True)
    agents = quadratics(data)
    run(agents, Federated(name, rounds=25, mu=0.5, alpha=1.0), data["a"][0])
    np.testing.assert_allclose(agents[0].weights()["weight"][0], pooled_optimum(data), atol=1e-4)


def test_fedprox_without_its_term_is_fedavg_to_the_bit(shared):
    one, two = classifiers(), classifiers()
    run(one, Federated("fedavg", rounds=3), shared)
    run(two, Federated("fedprox", rounds=3, mu=0.0), shared)
    assert_same_weights(one[0].weights(), two[0].weights())


@pytest.mark.parametrize("keep_optimizer", [False, True])
@pytest.mark.parametrize("name", ["fedavg", "fedprox", "scaffold"])
def test_one_agent_is_plain_training_to_the_bit(shared, name, keep_optimizer):
    """With one optimizer throughout, or with a new one every round."""
    alone, agent, losses = classifier("b"), classifier("b"), []
    for _ in range(3):
        if not keep_optimizer:
            alone.optimizer = torch.optim.Adam(alone.model.parameters(), lr=5e-3)
        losses.append(alone.train(shared, None, 0.0).local)
    rounds = run([agent], Federated(name, rounds=3, mu=0.0, keep_optimizer=keep_optimizer), shared)
    assert_same_weights(alone.weights(), agent.weights())
    assert [done.losses["b"].local for done in rounds] == losses


def test_models_and_batch_norm_statistics_are_averaged_by_samples(shared):
    """One round is: train each from the first agent's weights, then average with n_i / n."""
    start = classifier("a").weights()
    trained = {}
    for name in SIZES:
        agent = classifier(name)
        agent.set_weights(start)
        agent.train(shared, None, 0.0)
        trained[name] = agent.weights()
    assert {"1.running_mean", "1.running_var"} < start.keys()
    assert "1.num_batches_tracked" not in start
    agents = classifiers()
    run(agents, Federated(rounds=1), shared)
    total = sum(SIZES.values())
    expected = {k: sum(SIZES[a] * trained[a][k].astype(float) for a in SIZES) / total for k in start}
    for agent in agents:
        assert_same_weights(agent.weights(), expected, rtol=1e-6, atol=1e-8)
    assert [int(agent.model[1].num_batches_tracked) for agent in agents] == [4, 6, 10]


@pytest.mark.parametrize("name", FEDERATED)
def test_after_a_round_everyone_holds_the_same_model(shared, name):
    agents = classifiers()
    for done in run(agents, Federated(name, rounds=2), shared):
        assert done.heard == ("a", "b", "c")
        assert done.trust is None
        for agent in agents:
            np.testing.assert_array_equal(done.predictions[agent.name], done.predictions["a"])
    np.testing.assert_array_equal(done.predictions["a"], agents[2].predict(shared))


def test_bytes_are_the_model_up_and_down_and_twice_that_for_scaffold(shared):
    """Three weights of four bytes; with batch norm also its statistics, for which SCAFFOLD has no variates."""
    data, parameters, statistics = quadratic_data(), (FEATURES + 1 + 2) * 8 + (8 + 1) * CLASSES, 2 * 8
    for name in FEDERATED:
        twice = 2 if name == "scaffold" else 1
        assert run(quadratics(data), Federated(name, 1), data["a"][0])[0].sent["a"] == 2 * 4 * 3 * twice
        sent = run(classifiers(), Federated(name, 1), shared)[0].sent
        assert sent == dict.fromkeys(SIZES, 2 * 4 * (parameters * twice + statistics))


def through_a_folder(agents, method, shared, folder: Path | None = None):
    known = {"evaluation": Evaluation(), "facts": {"agents": describe(agents)}}
    return carry_out(agents, shared, InMemory(tuple(SIZES)), method, folder=folder, **known)


@pytest.mark.parametrize("keep_optimizer", [False, True])
@pytest.mark.parametrize("name", FEDERATED)
def test_a_resumed_run_ends_bit_identical(shared, tmp_path, name, keep_optimizer):
    settings = {"name": name, "mu": 0.1, "alpha": 0.1, "keep_optimizer": keep_optimizer}
    whole, half, rest = classifiers(), classifiers(), classifiers()
    expected = through_a_folder(whole, Federated(rounds=5, **settings), shared, tmp_path / "whole")
    through_a_folder(half, Federated(rounds=2, **settings), shared, tmp_path / "parts")
    result = through_a_folder(rest, Federated(rounds=5, **settings), shared, tmp_path / "parts")
    assert_same_weights(whole[0].weights(), rest[0].weights())
    pd.testing.assert_frame_equal(expected.metrics, result.metrics, check_exact=True)
    _, one, _ = checkpoint.read(tmp_path / "whole" / "checkpoint")
    _, two, _ = checkpoint.read(tmp_path / "parts" / "checkpoint")
    assert_same_weights(*({k: v for k, v in saved.items() if k != "seconds"} for saved in (one, two)))
    assert any(key.startswith("server/") for key in one) == (name in ("scaffold", "feddyn"))


def test_a_checkpoint_of_another_method_is_refused(shared, tmp_path):
    through_a_folder(classifiers(), Federated("scaffold", rounds=1), shared, tmp_path)
    with pytest.raises(ConsilienceError, match="does not hold what feddyn keeps"):
        through_a_folder(classifiers(), Federated("feddyn", rounds=2), shared, tmp_path)


@pytest.mark.parametrize("name", FEDERATED)
def test_the_order_in_which_agents_are_listed_changes_no_bit(shared, name):
    listed, backwards = classifiers(), classifiers()[::-1]
    one = through_a_folder(listed, Federated(name, rounds=3), shared).metrics
    two = through_a_folder(backwards, Federated(name, rounds=3), shared).metrics
    assert_same_weights(listed[0].weights(), backwards[0].weights())
    one, two = (table.sort_values(["round", "agent"], ignore_index=True) for table in (one, two))
    pd.testing.assert_frame_equal(one, two, check_exact=True)


def test_frozen_parameters_stay_as_they_are(shared):
    for name in FEDERATED:
        agents = classifiers()
        for agent in agents:
            agent.model[0].requires_grad_(False)
        before = agents[0].weights()["0.weight"]
        run(agents, Federated(name, rounds=3), shared)
        np.testing.assert_array_equal(agents[2].weights()["0.weight"], before)


@pytest.mark.parametrize(
    ("make", "model", "says"),
    [
        (TorchAgent, lambda: network(0, width=9), r"differs from agent 'a' .* 0.weight: \(9, 6\) against \(8, 6\)"),
        (TorchAgent, lambda: network(0, norm=False), "differs from agent 'a' .* missing"),
        (SklearnAgent, LogisticRegression, "has no weights"),
    ],
)
def test_different_models_are_refused_with_advice(shared, make, model, says):
    other = make(model(), *blobs(30, seed=5), "other")
    with pytest.raises(ConsilienceError, match=f"agent 'other' .*{says}.*consensus works for agents with different"):
        run([*classifiers(), other], Federated(), shared)


def test_agents_elsewhere_are_refused_with_advice(shared):
    with pytest.raises(ConsilienceError, match="agents c live in another process"):
        through_a_folder(classifiers()[:2], Federated(), shared)


def test_scaffold_refuses_several_learning_rates(shared):
    def two_rates(parameters):
        first, *others = parameters
        return torch.optim.SGD([{"params": [first], "lr": 0.1}, {"params": others, "lr": 0.2}])

    with pytest.raises(ConsilienceError, match=r"agent 'a': the optimizer has learning rates \[0.1, 0.2\]"):
        run(classifiers(optimizer=two_rates), Federated("scaffold", variates="steps"), shared)


def test_bad_settings_are_refused_with_advice():
    for settings, says in (
        ({"name": "fedsgd"}, "unknown method 'fedsgd'. Known: fedavg, fedprox, scaffold, feddyn"),
        ({"rounds": 0}, "rounds is 0; use at least 1"),
        ({"mu": -0.1}, "mu is -0.1"),
        ({"alpha": 0.0}, "alpha is 0, but FedDyn divides by it"),
        ({"variates": "both"}, "unknown variates 'both'"),
    ):
        with pytest.raises(ConsilienceError, match=says):
            Federated(**settings)
