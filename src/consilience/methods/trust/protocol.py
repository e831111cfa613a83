"""What a trust rule is given, and what it returns."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from consilience.base.errors import ConsilienceError
from consilience.tasks.protocol import Array, Task


@dataclass(frozen=True)
class Context:
    """What a rule may want to know beside the predictions."""

    task: Task
    names: tuple[str, ...]
    """Agents that were heard, in the order of the predictions."""
    rows: NDArray[np.intp]
    """Those of them that live in this process: the only rows of trust that count here."""
    noise: Array
    """Scale of the noise in each agent's own labels; NaN for those that live elsewhere."""
    round: int
    memory: dict[str, Array] = field(default_factory=dict)
    """What the rule kept from its last call; the same in every process."""
    single: bool = False
    """In sparse exchange: no other process judges by these predictions, so that only `rows` need be right."""


@dataclass(frozen=True)
class ByClass:
    """Whom agents believe on each class, for reports."""

    trust: Array
    """(classes, agents, agents); NaN for a class that no sample seems to have."""
    samples: Array
    """That seem to have each class, (classes,)."""
    unsure: Array
    """The share of them of which all together are rather unsure, (classes,)."""


@dataclass(frozen=True)
class TrustResult:
    """What a rule returns that does more than to make a matrix."""

    trust: Array
    """(agents, agents); for a rule that weighs peers anew for every sample the mean over samples, for the record."""
    labels: Array | None = None
    """Pseudo-labels (context.rows, samples, outputs) of such a rule; None where they follow from the matrix."""
    memory: dict[str, Array] = field(default_factory=dict)
    """What the next call shall find in its context. It must not depend on which agents live in this process."""
    by_class: ByClass | None = None
    """For rules that weigh peers differently on each class."""


class Trust(Protocol):
    """A rule. Options are the fields of its dataclass; any function (predictions) -> matrix is one, too."""

    def __call__(self, f: Array, context: Context) -> Array | TrustResult:
        """Row-stochastic trust (agents, agents) from the predictions `f` (agents, samples, outputs) of all heard.

        Every process computes all rows and uses its own: one matrix product of the same shape everywhere gives the
        same bits everywhere, however the agents are spread over processes.
        """


def apply_rule(rule: Callable[..., Any], f: Array, context: Context) -> TrustResult:
    """What `rule` says, checked: rows that sum to one, and nothing negative."""
    found = rule(f, context) if _wants_context(rule) else rule(f)
    said = _as_arrays(rule, found if isinstance(found, TrustResult) else TrustResult(found))
    agents = len(f)
    if said.trust.shape != (agents, agents):
        raise ConsilienceError(
            f"the trust rule {_name(rule)} returned an array of shape {said.trust.shape} for {agents} agents. "
            f"Return a matrix ({agents}, {agents}) whose rows sum to one."
        )
    own = said.trust[context.rows]
    if not (np.isfinite(own).all() and (own >= 0).all() and np.allclose(own.sum(axis=1), 1, rtol=0, atol=1e-5)):
        raise ConsilienceError(
            f"the trust rule {_name(rule)} returned rows that are not weights (a row sums to "
            f"{own.sum(axis=1)[np.abs(own.sum(axis=1) - 1).argmax()]:.4g}). Rows must be at least 0 and sum to one."
        )
    wanted = (len(context.rows), *f.shape[1:])
    if said.labels is not None and not (said.labels.shape == wanted and np.isfinite(said.labels).all()):
        raise ConsilienceError(
            f"the trust rule {_name(rule)} returned pseudo-labels of shape {said.labels.shape}, or some that are not "
            f"finite. Return {wanted}: one table for each of context.rows."
        )
    return said


def same_for_all(labels: Array, f: Array, context: Context) -> TrustResult:
    """The opinion of a rule that weighs nobody: `labels` (samples, outputs) for everyone, and equal trust on record."""
    agents = len(f)
    return TrustResult(np.full((agents, agents), 1 / agents), np.tile(labels, (len(context.rows), 1, 1)))


def check_rule(rule: object) -> None:
    """Refuses what cannot be a rule."""
    if isinstance(rule, type):
        raise ConsilienceError(f"trust is the class {rule.__name__}; make a rule of it: {rule.__name__}().")
    if rule is not None and not callable(rule):
        raise ConsilienceError(
            f"trust is {rule!r}; it must be a rule such as Entropy(), or a function (predictions) -> matrix."
        )


def needed_probabilities(rule: object, f: Array, context: Context) -> Array:
    """Predictions as distributions, for rules that compare such; an error for tasks that have none."""
    probabilities = context.task.probabilities(f)
    if probabilities is None:
        raise ConsilienceError(
            f"the trust rule {_name(rule)} compares probabilities, and {context.task.name} has none. "
            f"Use the rule {context.task.trust}."
        )
    return probabilities


def label_of_rows(f: Array, context: Context) -> NDArray[np.intp] | None:
    """The label that each row of `needed_probabilities` is about, where samples have several; otherwise None."""
    return None if context.task.sums_to_one else np.tile(np.arange(f.shape[2]), f.shape[1])


def _as_arrays(rule: object, said: TrustResult) -> TrustResult:
    """The same in arrays, which is what the memory is after a checkpoint, too."""
    try:
        trust = np.asarray(said.trust, dtype=np.float64)
    except (TypeError, ValueError):
        raise ConsilienceError(
            f"the trust rule {_name(rule)} returned {said.trust!r}. Return a matrix whose rows sum to one."
        ) from None
    labels = None if said.labels is None else np.asarray(said.labels, dtype=np.float32)
    memory = {key: np.asarray(value) for key, value in said.memory.items()}
    return replace(said, trust=trust, labels=labels, memory=memory)


def _wants_context(rule: Callable[..., Any]) -> bool:
    try:
        wanted = [p for p in signature(rule).parameters.values() if p.default is p.empty and p.kind < p.VAR_POSITIONAL]
    except (TypeError, ValueError):  # functions written in C do not always tell
        return False
    return len(wanted) > 1


def _name(rule: object) -> str:
    return getattr(rule, "__name__", type(rule).__name__)
