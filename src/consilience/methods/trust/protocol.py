"""The interface of a trust rule: its arguments and its result."""

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
    """What a rule may use besides the predictions."""

    task: Task
    names: tuple[str, ...]
    """Agents that were heard, in the order of the predictions."""
    rows: NDArray[np.intp]
    """Indices of this process's agents: only these rows of trust are used here."""
    noise: Array
    """Scale of the noise in each agent's own labels; NaN for agents of other processes."""
    round: int
    memory: dict[str, Array] = field(default_factory=dict)
    """The memory that the rule returned last; the same in every process."""
    single: bool = False
    """In sparse exchange: no other process uses these predictions, so that only `rows` are needed."""
    weights: Array | None = None
    """Weights of the agents by their samples, for rules that make pseudo-labels; None if all count the same."""
    scale: str = ""
    """The scale of `core.duals.SCALES` on which such rules take means of predictions; empty for the predictions."""


@dataclass(frozen=True)
class ByClass:
    """Trust on each class, for reports."""

    trust: Array
    """(classes, agents, agents); NaN for a class without samples."""
    samples: Array
    """Number of samples that seem to have each class, (classes,)."""
    unsure: Array
    """Share of them on which the reference is unsure, (classes,)."""


@dataclass(frozen=True)
class TrustResult:
    """Result of a rule that returns more than a matrix."""

    trust: Array
    """(agents, agents); if trust differs between samples, its mean over samples, for the record."""
    labels: Array | None = None
    """Pseudo-labels (context.rows, samples, outputs) of such a rule; None if they follow from the matrix."""
    memory: dict[str, Array] = field(default_factory=dict)
    """Memory for the next call. It must not depend on which agents belong to this process."""
    by_class: ByClass | None = None
    """For rules whose trust differs between classes."""


class Trust(Protocol):
    """A trust rule: a dataclass whose fields are its options, or any function (predictions) -> matrix."""

    def __call__(self, f: Array, context: Context) -> Array | TrustResult:
        """Row-stochastic trust (agents, agents).

        Every process computes all rows and uses its own: a matrix product of the same shape gives the same bits,
        however the agents are spread over processes.

        Args:
            f: Predictions of all agents that were heard, (agents, samples, outputs).
            context: Task, names, round, and the rule's memory.
        """


def apply_rule(rule: Callable[..., Any], f: Array, context: Context) -> TrustResult:
    """The result of `rule`, after a check that rows are not negative and sum to one."""
    returned = rule(f, context) if _wants_context(rule) else rule(f)
    result = _as_arrays(rule, returned if isinstance(returned, TrustResult) else TrustResult(returned))
    agents = len(f)
    if result.trust.shape != (agents, agents):
        raise ConsilienceError(
            f"the trust rule {_name(rule)} returned an array of shape {result.trust.shape} for {agents} agents. "
            f"Return a matrix ({agents}, {agents}) whose rows sum to one."
        )
    own = result.trust[context.rows]
    if not (np.isfinite(own).all() and (own >= 0).all() and np.allclose(own.sum(axis=1), 1, rtol=0, atol=1e-5)):
        raise ConsilienceError(
            f"the trust rule {_name(rule)} returned rows that are not weights (a row sums to "
            f"{own.sum(axis=1)[np.abs(own.sum(axis=1) - 1).argmax()]:.4g}). Rows must be at least 0 and sum to one."
        )
    wanted = (len(context.rows), *f.shape[1:])
    if result.labels is not None and not (result.labels.shape == wanted and np.isfinite(result.labels).all()):
        raise ConsilienceError(
            f"the trust rule {_name(rule)} returned pseudo-labels of shape {result.labels.shape}, or some that are not "
            f"finite. Return {wanted}: one table for each of context.rows."
        )
    return result


def same_for_all(labels: Array, f: Array, context: Context) -> TrustResult:
    """The same `labels` (samples, outputs) for all agents, with equal trust for the record."""
    agents = len(f)
    return TrustResult(np.full((agents, agents), 1 / agents), np.tile(labels, (len(context.rows), 1, 1)))


def check_rule(rule: object) -> None:
    """Raises an error if `rule` cannot be a trust rule."""
    if isinstance(rule, type):
        raise ConsilienceError(f"trust is the class {rule.__name__}; create an instance: {rule.__name__}().")
    if rule is not None and not callable(rule):
        raise ConsilienceError(
            f"trust is {rule!r}; it must be a rule such as Entropy(), or a function (predictions) -> matrix."
        )


def needed_probabilities(rule: object, f: Array, context: Context) -> Array:
    """Predictions as distributions, for rules that compare them; an error for tasks without."""
    probabilities = context.task.probabilities(f)
    if probabilities is None:
        raise ConsilienceError(
            f"the trust rule {_name(rule)} compares probabilities, and {context.task.name} has none. "
            f"Use the rule {context.task.trust}."
        )
    return probabilities


def label_of_rows(f: Array, context: Context) -> NDArray[np.intp] | None:
    """The label of each row of `needed_probabilities` if samples have several labels; otherwise None."""
    return None if context.task.sums_to_one else np.tile(np.arange(f.shape[2]), f.shape[1])


def _as_arrays(rule: object, result: TrustResult) -> TrustResult:
    """The same as arrays, as the memory is after a checkpoint."""
    try:
        trust = np.asarray(result.trust, dtype=np.float64)
    except (TypeError, ValueError):
        raise ConsilienceError(
            f"the trust rule {_name(rule)} returned {result.trust!r}. Return a matrix whose rows sum to one."
        ) from None
    labels = None if result.labels is None else np.asarray(result.labels, dtype=np.float32)
    memory = {key: np.asarray(value) for key, value in result.memory.items()}
    return replace(result, trust=trust, labels=labels, memory=memory)


def _wants_context(rule: Callable[..., Any]) -> bool:
    try:
        wanted = [p for p in signature(rule).parameters.values() if p.default is p.empty and p.kind < p.VAR_POSITIONAL]
    except (TypeError, ValueError):  # functions written in C may have no signature
        return False
    return len(wanted) > 1


def _name(rule: object) -> str:
    return getattr(rule, "__name__", type(rule).__name__)
