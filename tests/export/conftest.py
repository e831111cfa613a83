"""Trained agents of every kind that can be exported, with tiny data."""

import json
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import consilience as cs
from consilience.agents.models import AgentSpec, build_agent
from consilience.export.folder import export_agent
from consilience.export.manifest import checksum
from consilience.tasks import task_named

DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(40, 6)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
NEW = DRAW.normal(size=(30, 6)).astype(np.float32)
"""Samples that no agent was trained on."""


def _boosted() -> dict[str, tuple[Any, np.ndarray, int]]:
    import lightgbm
    import xgboost

    small = {"n_estimators": 3, "max_depth": 2}
    quiet = small | {"verbose": -1, "min_child_samples": 2}
    return {
        "xgboost": (xgboost.XGBClassifier(**small), Y, 3),
        "xgboost-two": (xgboost.XGBClassifier(**small), Y % 2, 2),
        "xgboost-pipeline": (make_pipeline(StandardScaler(), xgboost.XGBClassifier(**small)), Y, 3),
        "xgboost-values": (xgboost.XGBRegressor(**small), X[:, 0] ** 2, 1),
        "lightgbm": (lightgbm.LGBMClassifier(**quiet), Y, 3),
        "lightgbm-two": (lightgbm.LGBMClassifier(**quiet), Y % 2, 2),
        "lightgbm-values": (lightgbm.LGBMRegressor(**quiet), X[:, 0] ** 2, 1),
    }


@pytest.fixture(scope="session")
def trained() -> dict[str, Any]:
    """By name, each agent trained on private data and pseudo-labels."""
    estimators: dict[str, tuple[Any, np.ndarray, int]] = {
        "forest": (RandomForestClassifier(4), Y, 3),
        "histogram": (HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=3), Y, 3),
        "pipeline": (make_pipeline(StandardScaler(), LogisticRegression()), Y, 3),
        "values": (LinearRegression(), np.stack([X[:, 0], X[:, 1]], axis=1), 2),
        "neighbours": (KNeighborsClassifier(3), Y, 3),
        "neighbours-ball": (make_pipeline(StandardScaler(), KNeighborsClassifier(3, algorithm="ball_tree")), Y, 3),
        "neighbour-values": (KNeighborsRegressor(3, algorithm="kd_tree"), X[:, 0] ** 2, 1),
        "boosted": (GradientBoostingClassifier(n_estimators=2), Y, 3),
        "support-vectors": (CalibratedClassifierCV(SVC(), cv=2), Y, 3),
        "calibrated-forest": (CalibratedClassifierCV(RandomForestClassifier(2), cv=2), Y, 3),
        "labels": (LogisticRegression(), (X[:, :2] > 0).astype(int), 2),
        "unseen-class": (LogisticRegression(), Y + (Y > 0), 5),
        "one-class": (LogisticRegression(), np.ones(40, dtype=int), 3),
    } | _boosted()
    agents: dict[str, Any] = {}
    for name, (estimator, y, outputs) in estimators.items():
        agents[name] = cs.SklearnAgent(estimator, X, y, name, classes=outputs if y.ndim == 1 else 0)
    agents["mlp"] = build_agent(AgentSpec("mlp", "mlp", X, Y, 3, task_named("classification")))
    for name, agent in agents.items():
        alone = name == "one-class"
        said = agent.predict(NEW) if name in ("mlp",) else np.full((len(NEW), agent.outputs), 1 / agent.outputs)
        agent.train(NEW, None if alone else said.astype(np.float32), 0.0 if alone else 0.5)
    return agents


def reseal(folder: Path, change: Callable[[dict[str, Any]], None] | None = None) -> None:
    """The checksums of a folder made right again, after `change` of its manifest."""
    path = folder / "model.json"
    table = json.loads(path.read_text())
    if change:
        change(table)
    for name in table["files"]:
        if (folder / name).is_file():
            table["files"][name] = sha256((folder / name).read_bytes()).hexdigest()
    path.write_text(json.dumps(table | {"checksum": checksum(table)}))


def with_estimator(trained: dict[str, Any], folder: Path, estimator: Any) -> Path:
    """An exported model in which somebody has put another estimator."""
    import skops.io

    export_agent(trained["pipeline"], folder, NEW)
    (folder / "estimator-0.skops").write_bytes(skops.io.dumps(estimator))
    reseal(folder)
    return folder


def predict(folder: Path, model: Path, samples: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The command, typed in `folder`."""
    command = [sys.executable, "-m", "consilience", "predict", str(samples), "--model", str(model), *more]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def own_network_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported network that predicts through ONNX."""
    from torch import nn

    folder = tmp_path_factory.mktemp("network") / "model"
    agent = cs.TorchAgent(nn.Sequential(nn.Linear(6, 3)), X, Y, "own-network")
    agent.train(X, None, 0.0)
    return export_agent(agent, folder, NEW)
