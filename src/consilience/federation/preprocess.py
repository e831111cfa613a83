"""Preprocessing of a site: rows become numbers by the shared data alone, which are the same everywhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from consilience.base.errors import ConsilienceError
from consilience.base.registry import load_plugin
from consilience.base.rows import Rows
from consilience.data.columns import Column
from consilience.export.inputs import AS_ARRAY, Prepare, Scale
from consilience.settings.wiring import reading
from consilience.tasks.protocol import Array


def preprocessing(
    asked: str, folder: Path, shared: Rows, built_in: bool, columns: Sequence[Column] = ()
) -> Callable[[Rows], Any] | None:
    """The preprocessing of a site, by its file or, for tables and built-in models, by default; None for none.

    A file has a function transform(rows), or a scikit-learn transformer `preprocessing`, which is fitted to the shared
    data: so it does not depend on a site's own data. `columns` say what a table holds.
    """
    if asked in ("", "table"):
        table = hasattr(shared, "iloc")
        if asked and not table:
            raise ConsilienceError("preprocess is 'table', but the shared data are no table. Leave it out.")
        return reading(shared, columns) if table and (asked or built_in) else None
    path = (folder / asked).resolve()
    module = load_plugin(path)
    if hasattr(module, "transform"):
        made: Callable[[Rows], Any] = module.transform
        return made
    steps = getattr(module, "preprocessing", None)
    if not hasattr(steps, "fit"):
        raise ConsilienceError(f"{path} has neither a function transform(rows) nor a transformer `preprocessing`.")
    return Fitted(clone(steps).fit(shared))


@dataclass(frozen=True)
class Fitted:
    """A fitted transformer of scikit-learn, whose output is an array in single precision."""

    transformer: Any

    def transform(self, rows: Rows) -> Any:
        """The rows as the model takes them."""
        numbers = self.transformer.transform(rows)
        return np.asarray(numbers.toarray() if hasattr(numbers, "toarray") else numbers, dtype=np.float32)

    __call__ = transform

    def steps(self) -> list[Prepare]:
        """The steps of an exported model that do the same."""
        return [self.transformer, AS_ARRAY]


def scale_of(shared: Array) -> Scale:
    """Scaling by mean and deviation of the shared data."""
    deviation = shared.std(axis=0)
    return Scale(shared.mean(axis=0), np.where(deviation > 0, deviation, np.ones_like(deviation)))
