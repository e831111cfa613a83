"""Trained agents of every kind that can be exported, with tiny data."""

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
