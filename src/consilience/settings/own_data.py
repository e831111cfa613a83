"""Settings that follow from the user's own data: agents, models, and the number of shared rows."""

from pathlib import Path
from typing import Any

import numpy as np

from consilience.base.rows import count
from consilience.data.datasets import Dataset
from consilience.data.files import picture_count
from consilience.data.loading import load
from consilience.data.options import Data
from consilience.privacy.options import Privacy
from consilience.settings.wiring import request_of

MOST_AGENTS = 5
"""Agents, if no column says which agent a row belongs to."""
ROWS_EACH = 60
"""Rows for each of these agents, at least, as long as there are two agents."""
MOST_SHARED = 30
"""Rows that every agent contributes to the shared data, at most."""
SMALL_IMAGE = 3 * 64 * 64
"""Values of an image up to which a fully connected network is small."""


def tables_for(data: Data, privacy: Privacy, agents: int = 0) -> dict[str, Any]:
    """Tables of settings for the user's own data: no wrong labels, no attackers, fitting models, enough rows for all.

    Args:
        data: What is known of them: the path, the columns of labels and agents, the task.
        privacy: What agents promise; private ones are networks.
        agents: Their number, where the user has chosen it; otherwise it follows from the data.
    """
    if not Path(data.dataset).exists():  # which is said when they are read: they may be on another machine
        return {"data": {"partition": "natural" if data.agent else "iid"}, "agents": {}}
    rows = picture_count(Path(data.dataset)) if not data.agent else 0
    members, models = tuple[int, ...](), image_models(3 * data.side**2, privacy)
    if not rows:  # images would all have to be decoded
        dataset = load(data.dataset, request_of(data, agents, 0))
        assert isinstance(dataset, Dataset)
        rows, models = count(dataset.x), fitting_models(dataset, privacy)
        members = () if dataset.groups is None else tuple(np.bincount(dataset.groups).tolist())
    number = len(members) or agents or min(MOST_AGENTS, max(2, rows // ROWS_EACH))
    smallest = min(members, default=rows // number)
    return {
        "data": {
            "partition": "natural" if members else "iid",
            "shared_per_agent": max(1, min(MOST_SHARED, smallest // 4)),
        },
        "agents": {"count": number, "models": list(models)},
    }


def fitting_models(data: Dataset, privacy: Privacy) -> tuple[str, ...]:
    """Built-in models for such rows, to be dealt out in turn; none but networks where agents are private."""
    shape = data.x.shape[1:] if isinstance(data.x, np.ndarray) else ()
    if len(shape) == 3 and min(shape[1:]) >= 4:
        return image_models(int(np.prod(shape)), privacy)
    by_class = data.task == "classification"
    if privacy.on:
        return ("logistic", "mlp") if by_class else ("linear", "mlp")
    if not by_class:
        return ("forest", "boosting", "mlp")
    has_texts = any(column.kind == "text" and column.used for column in data.columns)
    return ("forest", "logistic", "mlp") if has_texts else ("forest", "logistic", "boosting")


def image_models(values: int, privacy: Privacy) -> tuple[str, ...]:
    """Small networks for images with this number of values; none with batch norm where agents are private."""
    return ("cnn", "mlp") if privacy.on or values <= SMALL_IMAGE else ("cnn", "convnet")
