"""Names of classes, which must be the same, in the same order, for all agents."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from consilience.agents.protocol import Agent, NamesClasses, implements
from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows, count, labelled_rows
from consilience.tasks.protocol import Array, Task, numbered


def renumbered(name: str, y: Array, before: tuple[str, ...], now: tuple[str, ...], trained: bool) -> Array:
    """Class numbers in the order of the classes `before` as numbers in the order of `now`."""
    missing = [label for label in before if label not in now]
    if missing:
        raise ConsilienceError(f"agent {name!r} has the class {missing[0]!r}, which is none of {', '.join(now)}.")
    numbers = np.array([now.index(label) for label in before], dtype=np.int64)
    if trained and not np.array_equal(numbers, np.arange(len(numbers))):
        raise ConsilienceError(
            f"agent {name!r} was trained with the classes {', '.join(before)}, and all together have {', '.join(now)}. "
            "Give every agent the same classes=[...] when it is made."
        )
    return np.asarray(numbers[y]) if len(numbers) else y


def agree_on_classes(agents: Sequence[Agent], given: Sequence[str] = ()) -> tuple[str, ...]:
    """Names of the classes in the order of the outputs: those `given`, or all that the agents' labels show.

    Agents that know names of their own take this order up. Empty where nobody knows any.
    """
    naming = [cast(NamesClasses, agent) for agent in agents if implements(agent, NamesClasses)]
    naming = [agent for agent in naming if agent.class_names]
    names = tuple(str(name) for name in given)
    if not agents[0].task.has_classes:
        different = {agent.class_names for agent in naming} - {names}
        if len(different) > 1 or (names and different):
            raise ConsilienceError(
                "the labels of agents have different names, or another order. Give all the same columns."
            )
        return names or next(iter(different), ())
    if naming and len(naming) < len(agents):
        unnamed = {agent.name for agent in agents if not getattr(agent, "class_names", ())}
        if not names:
            raise ConsilienceError(
                f"the labels of some agents are words, those of agent {min(unnamed)!r} are numbers. Give "
                "class_names, in the order of the numbers, or words to all."
            )
    if naming and not names:
        names = next(
            (a.class_names for a in naming if all(set(b.class_names) <= set(a.class_names) for b in naming)), ()
        )
        names = names or tuple(sorted({name for agent in naming for name in agent.class_names}))
    for agent in naming:
        agent.rename(names)
    return names


def evaluate(task: Task, class_names: Sequence[str], x: Rows, y: Any, what: str) -> tuple[Rows, Array]:
    """Rows and labels to measure on; words become numbers in the order of the classes."""
    rows, labels = labelled_rows(x, y, what)
    try:
        numbers, _ = numbered(task, labels, class_names)
        if task.has_classes and numbers.dtype.kind == "f" and len(numbers):
            numbers = task.labels(numbers)
    except ConsilienceError as error:
        raise ConsilienceError(f"{what}: {error}") from None
    if len(numbers) != count(rows):
        raise ConsilienceError(f"{what}: {count(rows)} samples but {len(numbers)} labels. Give one label per sample.")
    return rows, numbers
