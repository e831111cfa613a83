"""The Python interface: bring your own agents."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from torch import nn

import consilience as cs
from tests.conftest import CLASSES, FEATURES, blobs

SHORT = cs.Consensus(warmup=1)


def three_agents(sizes=(30, 40, 50)) -> list[cs.extend.Agent]:
    torch.manual_seed(0)
    return [
        cs.TorchAgent(nn.Linear(FEATURES, CLASSES), *blobs(sizes[0], 1), "net"),
        cs.SklearnAgent(RandomForestClassifier(10), *blobs(sizes[1], 2), "forest"),
        cs.SklearnAgent(KNeighborsClassifier(3), *blobs(sizes[2], 3, classes=2), "neighbours"),
    ]


def test_agents_of_any_kind_improve_together(tmp_path, shared):
    target = blobs(500, seed=7)
    result = cs.collaborate(
        three_agents((60, 60, 50)), shared=shared, rounds=8, method=cs.Consensus(warmup=2), target=target
    )
    history = result.history
    assert isinstance(history, pd.DataFrame)
    assert len(history) == 8 * 3
    assert result.trust.shape == (6, 3, 3)
    np.testing.assert_allclose(result.trust.sum(axis=2), 1)
    assert sum(result.influence.values()) == pytest.approx(1)
    blind = history[history["agent"] == "neighbours"].set_index("round")["accuracy_target"]
    assert blind[8] > blind[2], "an agent that never saw a class learns it from its peers"
    np.testing.assert_allclose(result.agents[0].predict(target[0]).sum(axis=1), 1, atol=1e-5)
    folder = result.save(tmp_path / "saved")
    again = cs.load_run(folder)
    pd.testing.assert_frame_equal(again.metrics, history)
    np.testing.assert_array_equal(again.trust, result.trust)
    page = result.report(tmp_path / "report.html")
    assert "neighbours" in page.read_text()


def test_a_collaboration_without_any_labels_to_measure_on_works(tmp_path, shared):
    result = cs.collaborate(three_agents(), shared, rounds=3, method=SHORT)
    assert result.history["accuracy_target"].isna().all()
    result.report(tmp_path / "report.html")


def test_it_resumes_in_python_too(tmp_path, shared):
    whole = cs.collaborate(three_agents(), shared, rounds=5, method=SHORT)
    cs.collaborate(three_agents(), shared, rounds=3, method=SHORT, out=tmp_path / "run")
    resumed = cs.collaborate(three_agents(), shared, rounds=5, method=SHORT, out=tmp_path / "run", resume=True)
    pd.testing.assert_frame_equal(whole.history, resumed.history)
    np.testing.assert_array_equal(whole.trust, resumed.trust)


def test_every_method_by_its_name_or_as_an_object(shared):
    target = blobs(300, seed=7)

    def networks() -> list[cs.extend.Agent]:
        torch.manual_seed(0)
        return [cs.TorchAgent(nn.Linear(FEATURES, CLASSES), *blobs(30, seed), f"net {seed}") for seed in range(3)]

    def scores(method) -> pd.DataFrame:
        return cs.collaborate(networks(), shared, rounds=6, method=method, target=target).history

    for name, method in {
        "alone": cs.Alone(),
        "naive": cs.Consensus(trust=cs.Uniform()),
        "static": cs.Consensus(schedule="static"),
        "consensus(warmup=1)": cs.Consensus(warmup=1),
        "fedprox(mu=0.5)": cs.FedProx(mu=0.5),
        "scaffold": cs.Scaffold(),
    }.items():
        pd.testing.assert_frame_equal(scores(name), scores(method))
    assert not scores("naive")["loss_local"].equals(scores("consensus(warmup=1)")["loss_local"])


def test_any_function_is_a_trust_rule(shared):
    def only_the_first(f: np.ndarray) -> np.ndarray:
        return np.eye(len(f))[[0] * len(f)]

    method = cs.Consensus(warmup=1, trust=only_the_first)
    result = cs.collaborate(three_agents(), shared, rounds=3, method=method)
    np.testing.assert_array_equal(result.trust[-1], [[1, 0, 0]] * 3)
    assert result.influence == {"net": 1, "forest": 0, "neighbours": 0}


def test_multi_label_agents_of_both_kinds_learn_together(tmp_path):
    draw = np.random.default_rng(0)
    x = draw.normal(0, 1, (400, 5)).astype(np.float32)
    y = (x @ draw.normal(0, 1, (5, 3)) + draw.normal(0, 0.5, (400, 3)) > 0).astype(int)
    torch.manual_seed(0)
    agents = [
        cs.TorchAgent(nn.Linear(5, 3), x[:12], y[:12], "net", task="multilabel", training=cs.Training(epochs=20)),
        cs.SklearnAgent(LogisticRegression(), x[12:24], y[12:24], "logistic"),
        cs.SklearnAgent(KNeighborsClassifier(3), x[24:40], y[24:40], "neighbours"),
    ]
    names = ["red", "green", "blue"]
    method = cs.Consensus(warmup=1, lam=1.0)
    target = (x[150:], y[150:])
    result = cs.collaborate(agents, x[50:150], rounds=6, method=method, target=target, class_names=names)
    mean = result.history.groupby("round")[["accuracy_target", "auc_target", "subset_accuracy_target"]].mean()
    assert (mean.loc[6] > mean.loc[1]).all()
    page = result.report(tmp_path / "report.html").read_text()
    assert "all labels right" in page
    assert "green" in page


def test_regression(shared):
    x = np.linspace(-3, 3, 60, dtype=np.float32)[:, None]
    draw = np.random.default_rng(0)
    y = (x[:, 0] ** 2 + draw.normal(0, 0.3, 60)).astype(np.float32)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    from sklearn.ensemble import RandomForestRegressor

    agents = [
        cs.TorchAgent(net, x[:40], y[:40], "net", task="regression", training=cs.Training(epochs=50)),
        cs.SklearnAgent(RandomForestRegressor(20), x[20:], y[20:], "forest"),
    ]
    star = np.linspace(-3, 3, 50, dtype=np.float32)[:, None]
    method = cs.Consensus(warmup=1, lam=1.0)
    result = cs.collaborate(agents, star, rounds=6, method=method, target=(star, star[:, 0] ** 2))
    error = result.history.pivot(index="round", columns="agent", values="rmse_target")
    assert (error.loc[6] < error.loc[1]).all()


def test_nameless_agents_get_numbers_and_missing_classes_are_filled(shared):
    agents = [
        cs.SklearnAgent(LogisticRegression(), *blobs(30, 1, classes=2)),
        cs.SklearnAgent(LogisticRegression(), *blobs(30, 2)),
    ]
    result = cs.collaborate(agents, shared, rounds=3, method=SHORT)
    assert [agent.name for agent in result.agents] == ["0", "1"]
    assert agents[0].predict(shared).shape == (len(shared), 3)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"agents": three_agents()[:1]}, "at least two agents, got 1"),
        ({"shared": np.zeros((0, FEATURES), np.float32)}, "shared data are empty"),
        ({"rounds": 0}, "rounds is 0"),
        ({"method": "blind"}, "unknown method 'blind'"),
        ({"method": "fedavg"}, "has no weights that can be averaged"),
        ({"agents": [*three_agents(), "x"]}, r"agent 3 \(str\) does not implement Agent; missing: name"),
        ({"shared_labels": np.zeros(3, int)}, "3 shared labels for 40 shared samples"),
    ],
)
def test_bad_input_is_refused(change, says, shared):
    arguments = {"agents": three_agents(), "shared": shared, "rounds": 2, "method": SHORT} | change
    with pytest.raises(cs.ConsilienceError, match=says):
        cs.collaborate(**arguments)


def test_agents_that_cannot_agree_are_refused(shared):
    two_outputs = cs.TorchAgent(nn.Linear(FEATURES, 2), *blobs(30, 1, classes=2), "small")
    with pytest.raises(cs.ConsilienceError, match="agent 'small' predicts 2 outputs, another agent 3"):
        cs.collaborate([two_outputs, three_agents()[1]], shared, rounds=2)
    twins = [three_agents()[1], three_agents()[1]]
    with pytest.raises(cs.ConsilienceError, match="must be unique"):
        cs.collaborate(twins, shared, rounds=2)


def test_every_public_name_is_there_and_nothing_heavy_is_imported_early():
    import subprocess
    import sys

    for name in cs.__all__:
        assert getattr(cs, name) is not None
    assert 15 <= len(cs.__all__) <= 80
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        cs.nothing  # noqa: B018
    code = "import sys, consilience; print('torch' in sys.modules, 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False False"


def test_collaborate_says_how_a_shared_table_was_read(tmp_path, capsys):
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"age": draw.integers(20, 80, 120), "weight": draw.normal(70, 9, 120), "code": 0})
    y = (table["age"] > 50).astype(int).to_numpy()
    table["code"] = y * 3 + draw.integers(0, 2, 120)
    first, second, shared = table[:40], table[40:80].assign(weight=table["weight"] * 1000), table[80:]
    agents = [
        cs.SklearnAgent(LogisticRegression(max_iter=5000), first, y[:40], "kilos"),
        cs.SklearnAgent(RandomForestClassifier(5), second, y[40:80], "grams"),
    ]
    result = cs.collaborate(agents, shared, rounds=2, method=SHORT)
    assert "age: number, no gaps" in result.run.summary.notes
    warnings = result.run.summary.warnings
    assert any(text.startswith("kilos: code alone predicts the label almost perfectly") for text in warnings)
    assert any(text.startswith("weight: ") and "at kilos" in text and "elsewhere" in text for text in warnings)
    printed = capsys.readouterr().err
    assert "age: number, no gaps" in printed
    assert "Warning: kilos: code alone predicts the label" in printed
    assert "age: number, no gaps" in result.report(tmp_path / "report.html").read_text()


@pytest.mark.parametrize("name", ["a/b", ".."])
def test_a_name_that_cannot_be_part_of_a_path_is_refused(tmp_path, shared, name):
    """Its checkpoint could not be read again."""
    agents = [*three_agents()[:2], cs.SklearnAgent(LogisticRegression(), *blobs(40, 5), name)]
    with pytest.raises(cs.ConsilienceError, match=r"hold no slash|cannot be part of a file's name"):
        cs.collaborate(agents, shared, rounds=2, method=SHORT, out=tmp_path / "run")
