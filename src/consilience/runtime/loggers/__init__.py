"""Experiment loggers by name: callbacks that write to a tracking tool.

All of them write the same: settings as hyperparameters, and for every round `mean/MEASURE`, `agent/NAME/MEASURE` and
the trust matrix as a picture.
"""

import math
import re
from collections.abc import Iterator

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.registry import Registry
from consilience.runtime.callbacks import Callback, Finished, RunInfo
from consilience.tasks.protocol import Array

LOGGERS = Registry("logger", "consilience.runtime.loggers", "consilience.loggers")
_LIGHT, _DARK = np.array([247.0, 251.0, 255.0]), np.array([8.0, 48.0, 107.0])


def logger(text: str) -> Callback:
    """A logger from its name and where it writes, such as tensorboard:logs."""
    name, colon, where = text.partition(":")
    if not colon or not where:
        raise ConsilienceError(
            f"--log {text}: write NAME:WHERE, such as tensorboard:logs. Loggers: {', '.join(LOGGERS.names())}."
        )
    made: Callback = LOGGERS.find(name)(where)
    return made


def lacking(package: str, extra: str) -> ConsilienceError:
    """The error for a logger whose tool is not installed."""
    return ConsilienceError(f"this logger needs {package}: pip install 'consilience[{extra}]'.")


def scalars(news: Finished) -> Iterator[tuple[str, float]]:
    """All finite measures by tag: means over agents first, then each agent's."""
    groups = {"mean": news.means} | {f"agent/{name}": measures for name, measures in news.agents.items()}
    for group, measures in groups.items():
        for key, value in measures.items():
            if key not in ("round", "agent") and math.isfinite(value):
                yield f"{group}/{key}", value


def trust_picture(trust: Array, side: int = 240) -> Array:
    """A trust matrix as a picture (height, width, 3) of bytes: white for 0, dark blue for the largest value."""
    share = np.asarray(trust, dtype=float) / max(float(np.max(trust)), 1e-12)
    cell = max(1, side // max(share.shape))
    colours = (_LIGHT + share[..., None] * (_DARK - _LIGHT)).round().astype(np.uint8)
    return np.repeat(np.repeat(colours, cell, axis=0), cell, axis=1)


def file_name(run: RunInfo) -> str:
    """The run's name as the name of a file.

    >>> file_name(RunInfo("fedprox(mu=0.1), seed 3"))
    'fedprox-mu-0.1-seed-3'
    """
    return re.sub(r"[^\w.+-]+", "-", run.name).strip("-") or "run"
