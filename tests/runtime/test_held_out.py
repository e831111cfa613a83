"""Rows kept back, and the models at home and on the target domain that they lead to, through whole runs."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from torch import nn

import consilience as cs
from consilience.agents.calibrated import MODELS
from consilience.agents.calibration import POOLED_FREQUENCY
from tests.conftest import CLASSES, FEATURES, blobs

TARGET, HOME = blobs(60, seed=7), blobs(40, seed=8)


def network(name="net", seed=3, kept_back=0.0, y=None, **more) -> cs.TorchAgent:
    torch.manual_seed(0)
    x, truth = blobs(40, seed)
    training = cs.Training(epochs=1, kept_back=kept_back)
    return cs.TorchAgent(nn.Linear(FEATURES, CLASSES), x, truth if y is None else y, name, training=training, **more)


def forest(name="forest", seed=1) -> cs.SklearnAgent:
    return cs.SklearnAgent(RandomForestClassifier(5), *blobs(40, seed), name, classes=CLASSES)


def together(agents, shared, rounds=4, **more) -> cs.Result:
    own = {agent.name: HOME for agent in agents}
    method = more.pop("method", cs.Consensus(warmup=1))
    return cs.collaborate(agents, shared, method=method, rounds=rounds, target=TARGET, own=own, progress=False, **more)


def test_rows_kept_back_are_never_trained_on(shared):
    first = network(kept_back=0.25)
    rows = np.flatnonzero(np.isin(blobs(40, 3)[0][:, 0], first._kept[0][:, 0]))
    assert len(rows) == 10 and first.samples == 30
    y = blobs(40, 3)[1]
    y[rows] = (y[rows] + 1) % CLASSES
    second = network(kept_back=0.25, y=y)
    for agent in (first, second):
        agent.train(shared, np.full((len(shared), CLASSES), 1 / CLASSES, np.float32), 0.5)
    np.testing.assert_array_equal(first.predict(shared), second.predict(shared))
    assert (first.held_out()[1] != second.held_out()[1]).all()
    assert not np.array_equal(network(name="other", kept_back=0.25)._kept[0], first._kept[0])


def test_an_estimator_is_held_out_of_every_row_and_loses_none(shared):
    agent = forest()
    agent.train(shared, np.full((len(shared), CLASSES), 1 / CLASSES, np.float32), 0.5)
    f, y = agent.held_out()
    assert agent.samples == len(f) == 40
    assert (f.argmax(axis=1) == y).mean() < (agent.predict(blobs(40, 1)[0]).argmax(axis=1) == y).mean() == 1
    assert len(agent.held_out(refit=False)[1]) == 0


def test_every_agent_predicts_with_each_of_its_models(shared):
    result = together([forest(), network()], shared)
    for agent in result.agents:
        f = {at: agent.predict(HOME[0], at=at) for at in MODELS}
        assert all(np.allclose(values.sum(axis=1), 1, atol=1e-5) for values in f.values())
        np.testing.assert_array_equal(f["target"].argmax(axis=1), f["together"].argmax(axis=1))
        assert not np.allclose(f["home"], f["together"]) and not np.allclose(f["alone"], f["together"])
        held = result.run.held[agent.name]
        np.testing.assert_allclose(f["together"], held["own"], atol=1e-6)
    sets = result.agents[0].predict_sets(HOME[0], 0.9)
    assert sets.shape == (40, CLASSES) and sets.dtype == bool
    with pytest.raises(cs.ConsilienceError, match=r"training\.kept_back=0\.2"):
        result.agents[1].predict_sets(HOME[0], 0.9)
    with pytest.raises(cs.ConsilienceError, match="no model for 'hom'"):
        result.agents[0].predict(HOME[0], at="hom")


def test_without_the_copies_that_train_alone_there_is_a_home_model_without_them(shared):
    result = together([forest(), network()], shared, baseline=False)
    for agent in result.agents:
        assert not agent.calibration.needs_alone
        assert agent.predict(HOME[0], at="home").shape == (40, CLASSES)
        with pytest.raises(cs.ConsilienceError, match="no copy that trained alone"):
            agent.predict(HOME[0], at="alone")


def test_agents_that_dual_variables_made_one_have_a_prior_of_their_own(shared):
    method = cs.Consensus(warmup=1, duals=1.0, mean="geometric")
    pooled = together([network("a"), network("b", 4)], shared, method=method).run.calibrations["a"]
    other = together([network("a"), network("b", 4)], shared).run.calibrations["a"]
    assert other.home[0, 1] < pooled.home[0, 1] == POOLED_FREQUENCY[0], "frequencies"
    assert 1 < pooled.target[0, 0] < other.target[0, 0], "their predictions hedge less"


def test_after_a_resume_all_of_it_is_the_same_to_the_bit(shared, tmp_path):
    def agents():
        return [forest(), network(kept_back=0.2)]

    whole = together(agents(), shared, rounds=5).run
    together(agents(), shared, rounds=3, out=tmp_path / "run")
    resumed = together(agents(), shared, rounds=5, out=tmp_path / "run", resume=True).run
    for run in (resumed, cs.load_run(tmp_path / "run")):
        for name, held in whole.held.items():
            assert run.held[name].keys() == held.keys()
            for key, values in held.items():
                np.testing.assert_array_equal(run.held[name][key], values)
    for name, calibration in whole.calibrations.items():
        assert resumed.calibrations[name].table() == calibration.table()


def test_of_a_private_agent_nothing_is_kept(shared):
    pytest.importorskip("opacus")
    privacy = cs.Privacy(epsilon=8.0, delta=1e-3)
    result = together([network("a", privacy=privacy), network("b", 4)], shared)
    assert set(result.run.held) == {"b"}
    with pytest.raises(cs.ConsilienceError, match="An agent that promises privacy keeps nothing"):
        result.agents[0].predict(HOME[0], at="home")
    with pytest.raises(cs.ConsilienceError, match="A private agent keeps none back"):
        network("a", kept_back=0.2, privacy=privacy)


@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_values_get_intervals_and_labels_a_temperature_each(task, shared):
    def labels(x):
        return x[:, 0] + x[:, 1] if task == "regression" else (x[:, :2] > 0).astype(int)

    def agent(name, seed):
        x = blobs(80, seed)[0]
        model = Ridge() if task == "regression" else LogisticRegression()
        return cs.SklearnAgent(model, x, labels(x), name)

    def forest(name, seed):
        x = blobs(80, seed)[0]
        model = RandomForestRegressor(5) if task == "regression" else RandomForestClassifier(5)
        return cs.SklearnAgent(model, x, labels(x), name)

    new = blobs(200, 9)[0]
    method = cs.Consensus(warmup=1)
    result = cs.collaborate(
        [agent("a", 1), forest("b", 2)], shared, method=method, rounds=3, target=(new, labels(new)), progress=False
    )
    for member in result.agents:
        assert member.predict(new, at="home").shape == member.predict(new, at="target").shape
        if task == "multilabel":
            assert member.calibration.target.shape == (2, 1)
            assert member.calibration.target[0, 0] != member.calibration.target[1, 0]
        else:
            ends = member.predict_sets(new, 0.9)
            inside = (ends[:, 0, 0] <= labels(new)) & (labels(new) <= ends[:, 0, 1])
            assert 0.8 < inside.mean() < 0.99
