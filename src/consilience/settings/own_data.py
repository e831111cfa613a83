"""Settings that follow from data of one's own: who learns, with which models, and how many rows are shared."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from consilience.data.columns import Column
from consilience.data.datasets import Dataset, load
from consilience.data.options import Data
from consilience.data.pictures import picture_count
from consilience.privacy.options import Privacy
from consilience.rows import Rows, count
from consilience.settings.wiring import request_of

MOST_AGENTS = 5
"""Where no column says whose a row is."""
ROWS_EACH = 60
"""Rows for each of these agents, at least, as long as there are two agents."""
MOST_SHARED = 30
"""Rows that every agent contributes to the shared data, at most."""
SMALL_IMAGE = 3 * 64 * 64
"""Values of an image up to which a fully connected network is small."""


def tables_for(data: Data, privacy: Privacy, agents: int = 0) -> dict[str, Any]:
    """Tables of settings for data of one's own: no wrong labels, no attackers, models that fit, nobody short of rows.

    Args:
        data: What is known of them: the path, the columns of labels and agents, the task.
        privacy: What agents promise; private ones are networks.
        agents: Their number, where the user has chosen it; otherwise it follows from the data.
    """
    path = Path(data.dataset)
    images = picture_count(path) if not data.agent else 0
    if images:  # which would all have to be decoded
        models, sizes, groups = ("cnn", "mlp") if data.side <= 64 else ("cnn", "convnet"), images, ()
    else:
        found = load(data.dataset, request_of(data, agents, 0))
        assert isinstance(found, Dataset)
        models, sizes, groups = fitting_models(found, privacy), count(found.x), found.group_names
    number = len(groups) or agents or min(MOST_AGENTS, max(2, sizes // ROWS_EACH))
    smallest = int(np.bincount(found.groups).min()) if groups else sizes // number
    return {
        "data": {
            "partition": "natural" if groups else "iid",
            "shared_per_agent": max(1, min(MOST_SHARED, smallest // 4)),
        },
        "agents": {"count": number, "models": list(models)},
    }


def fitting_models(data: Dataset, privacy: Privacy) -> tuple[str, ...]:
    """Built-in models for such rows, to be dealt out in turn; none but networks where agents are private."""
    shape = _shape(data.x)
    if len(shape) == 3 and min(shape[1:]) >= 4:
        if privacy.on or np.prod(shape) <= SMALL_IMAGE:
            return ("cnn", "mlp")
        return ("cnn", "convnet")
    by_class = data.task == "classification"
    if privacy.on:
        return ("logistic", "mlp") if by_class else ("linear", "mlp")
    if not by_class:
        return ("forest", "boosting", "mlp")
    return ("forest", "logistic", "mlp") if _has_texts(data.columns) else ("forest", "logistic", "boosting")


def _has_texts(columns: Sequence[Column]) -> bool:
    return any(column.kind == "text" and column.used for column in columns)


def _shape(rows: Rows) -> tuple[int, ...]:
    """Of a sample; empty for rows that are no arrays."""
    return tuple(rows.shape[1:]) if isinstance(rows, np.ndarray) else ()
