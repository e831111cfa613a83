"""The shared data that a run learns from: the shared rows, then rows that are crossed from them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from consilience.base.rows import Rows, count, join
from consilience.data.columns import Column
from consilience.data.crossed import crossed_in_features, crossed_rows, why_not
from consilience.data.options import check_crossed
from consilience.methods.protocol import Record
from consilience.tasks.protocol import Array

AUTO = 3000
"""Crossed rows where nothing is said and every agent learns one layer on a backbone (research/crossed.md)."""


def crossed_number(crossed: str | int, shared: Rows, backbones: Sequence[str], columns: Sequence[Column] = ()) -> int:
    """How many crossed rows there are.

    Args:
        crossed: A number, or auto: `AUTO` where all agents have a backbone and the rows can be crossed, else none.
        shared: The shared rows.
        backbones: By agent what tells its backbone from others; empty for an agent without.
        columns: What the columns of the shared rows hold, where that is known.
    """
    check_crossed(crossed)
    if isinstance(crossed, int):
        return crossed
    able = count(shared) > 1 and (len(set(backbones)) == 1 or not why_not(shared, columns))
    return AUTO if all(backbones) and able else 0


def with_crossed(
    shared: Rows, number: int, seed: int, backbones: Sequence[str], columns: Sequence[Column] = ()
) -> Rows:
    """The shared rows, then `number` crossed ones: in the space of features where all agents have one backbone.

    Args:
        shared: The shared rows.
        number: How many to add.
        seed: Of the run.
        backbones: By agent what tells its backbone from others; empty for an agent without.
        columns: What the columns of the shared rows hold, where that is known.
    """
    if not number:
        return shared
    if all(backbones) and len(set(backbones)) == 1 and count(shared) > 1:
        return crossed_in_features(shared, number, seed)
    return join(shared, crossed_rows(shared, number, seed, columns))


def on_shared_rows(record: Record, rows: int) -> Record:
    """The record of a round with predictions on the first `rows` alone: those that are not crossed."""

    def first(predictions: dict[str, Array]) -> dict[str, Array]:
        return {name: np.asarray(f)[:rows] for name, f in predictions.items()}

    return replace(record, predictions=first(record.predictions), received=first(record.received))
