"""How agents read rows of any kind: what an estimator takes, and the cache of what a transform made."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, final

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows, as_rows, count, sample_x

Transform = Callable[[Rows], Any]
"""Raw rows in, what the model takes out, row by row the same. It is called once for every set of rows."""
REMEMBERED = 4
"""Sets of rows whose inputs an agent keeps: its own, the shared data, the target domain, its own test data."""

_kept: dict[int, tuple[Rows, dict[Hashable, Any]]] = {}
"""By identity of cached rows: the rows, and what was read from them in each way."""


@contextmanager
def cached_rows(many: Iterable[Rows]) -> Iterator[None]:
    """Within it, none of these rows change, and each is read once in this process for all agents."""
    new = {id(rows): (rows, dict[Hashable, Any]()) for rows in many if id(rows) not in _kept}
    _kept.update(new)
    try:
        yield
    finally:
        for number in new:
            _kept.pop(number, None)


def read_once(rows: Rows, way: Hashable, read: Callable[[], Any]) -> Any:
    """The result of `read`; for cached rows the same object as when they were last read in this `way`."""
    if id(rows) not in _kept:
        return read()
    known = _kept[id(rows)][1]
    if way not in known:
        known[way] = read()
    return known[way]


@final
class Reader:
    """What one agent reads of raw rows: its transform, then `read`, each done once for every set of rows.

    Agents that read the same rows in the same way, which is the same for `read` and `way`, share what they read.
    """

    def __init__(
        self, who: str, transform: Transform | None, read: Callable[[Rows], Any], way: Callable[[], Hashable]
    ) -> None:
        self._who, self._transform, self._read, self._way = who, transform, read, way
        self._known: list[tuple[Rows, Any]] = []

    def __call__(self, rows: Rows) -> Any:
        """The rows as the model takes them."""
        if id(rows) in _kept:
            way = (id(self._transform), self._way())
            return read_once(rows, way, lambda: (self._transform, self._made(as_rows(rows))))[1]
        if self._transform is None and isinstance(rows, np.ndarray):
            return self._read(rows)
        for known, made in self._known:
            if known is rows:
                return made
        made = self._made(as_rows(rows))
        self._known = [*self._known[-REMEMBERED + 1 :], (rows, made)]
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> "Reader":
        """The copy of an agent reads as the agent does; what was read is not copied."""
        return Reader(self._who, self._transform, deepcopy(self._read, memo), deepcopy(self._way, memo))

    def _made(self, rows: Rows) -> Any:
        if self._transform is None:
            return self._read(rows)
        try:
            made = self._transform(rows)
        except ConsilienceError:
            raise
        except Exception as error:
            raise ConsilienceError(
                f"{self._who}: its transform fails on {count(rows)} rows ({type(rows).__name__}) with "
                f"{type(error).__name__}: {error}"
            ) from error
        made = self._read(as_rows(made))
        if count(made) != count(rows):
            raise ConsilienceError(
                f"{self._who}: its transform made {count(made)} rows of {count(rows)}. Return one for each, in order."
            )
        return made


def for_estimator(who: str, rows: Rows) -> Rows:
    """Rows as an estimator takes them: tables, texts and sparse matrices as they are; images as rows of numbers."""
    if isinstance(rows, np.ndarray):
        return _flat(rows)
    if hasattr(rows, "to_pandas"):
        return rows.to_pandas()
    if hasattr(rows, "detach"):
        return _flat(np.asarray(rows.detach().cpu()))
    if isinstance(rows, Mapping):
        raise ConsilienceError(
            f"{who}: an estimator takes no dict of rows. Give the agent a transform, such as "
            f"transform=lambda rows: rows[{next(iter(rows))!r}]."
        )
    if hasattr(rows, "__getitem__") and not hasattr(rows, "shape") and not isinstance(rows, list):
        return _flat(np.stack([np.asarray(sample_x(rows[number])) for number in range(count(rows))]))
    return rows


def _flat(x: Any) -> Any:
    """Images as rows: estimators take (samples, features)."""
    return x.reshape(len(x), -1) if x.ndim > 2 else x
