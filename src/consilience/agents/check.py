"""A conformance suite for anyone's agent class."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, cast

import numpy as np

from consilience.agents.base import Wrapper
from consilience.agents.protocol import (
    AcceptsMoreClasses,
    Agent,
    Averageable,
    Losses,
    Publishes,
    implements,
    missing,
    published,
)
from consilience.base.errors import ConsilienceError
from consilience.core.streams import stream
from consilience.tasks.protocol import Array, checked_predictions

MakeAgent = Callable[[Array, Array, str], Agent]


def check_agent(make_agent: MakeAgent, x: Array | None = None, y: Array | None = None) -> None:
    """Checks that agents made by `make_agent(x, y, name)` will work in every method, with workers and after a kill.

    Args:
        make_agent: Makes an agent from private rows, labels and a name.
        x: Rows to try it on: two thirds are private, the rest shared; by default a small dataset of three classes.
        y: Their labels.

    Raises:
        ConsilienceError: The first thing that is wrong, in a sentence.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> from consilience import SklearnAgent
    >>> check_agent(lambda x, y, name: SklearnAgent(GaussianNB(), x, y, name))
    """
    x, y = _blobs() if x is None or y is None else (np.asarray(x), np.asarray(y))
    own = 2 * len(x) // 3
    shared = x[own:]

    def make() -> Agent:
        return make_agent(x[:own], y[:own], "checked")

    with _Step("making it"):
        agent = make()
    _check_attributes(agent, own)
    with _Step("predicting before any training"):
        _check_predictions(agent, shared)
        labels = _pseudo_labels(agent, shared)
    with _Step("training"):
        _check_training(agent, shared, labels)
    with _Step("training it again"):
        _check_determinism(make, shared, labels)
    with _Step("saving and restoring it"):
        _check_restore(make, shared, labels)
    with _Step("training in a wrapper"):
        _check_wrapper(make, shared, labels)
    if implements(agent, AcceptsMoreClasses):
        with _Step("telling it of one more class"):
            _check_widened(make(), shared)
    if implements(agent, Averageable):
        with _Step("averaging its weights"):
            _check_weights(make, shared)


def _check_attributes(agent: Agent, samples: int) -> None:
    lacking = missing(agent, Agent)
    if lacking:
        raise ConsilienceError(f"{type(agent).__name__} lacks {', '.join(lacking)} of an agent.")
    _require(agent.name == "checked", f"its name is {agent.name!r}, but make_agent was given 'checked'.")
    _require(agent.samples == samples, f"samples is {agent.samples}, but it was given {samples}.")
    lacking = [name for name in ("labels", "scores", "trust", "distance", "problem") if not hasattr(agent.task, name)]
    _require(
        not lacking, f"task is {agent.task!r}; use consilience.extend.TASKS.find('classification') or another task."
    )


def _check_predictions(agent: Agent, x: Array) -> None:
    """Before any training, as the first exchange may come without a warm-up."""
    before, half = x.copy(), len(x) // 2
    f = np.array(agent.predict(x))
    checked_predictions(agent.name, f, len(x), agent.outputs, agent.task)
    _require(np.array_equal(f, agent.predict(x)), "predicting twice gives different numbers.")
    f_half = checked_predictions(agent.name, agent.predict(x[:half]), half, agent.outputs, agent.task)
    _require(
        np.allclose(f_half, f[:half], atol=1e-4),
        "what it predicts for a sample depends on the other samples (is a network in training mode?).",
    )
    if implements(agent, Publishes):
        published_f = cast(Publishes, agent).publish(x)
        checked_predictions(agent.name, published_f, len(x), agent.outputs, agent.task)
    _require(np.array_equal(x, before), "predict changed the samples that it was given.")


def _check_training(agent: Agent, shared: Array, labels: Array) -> None:
    before, kept = labels.copy(), shared.copy()
    for given, lam in ((None, 0.0), (labels, 0.5), (labels, 0.0)):
        losses: Any = agent.train(shared, given, lam)
        _require(isinstance(losses, Losses), f"train returned {type(losses).__name__}, not consilience.extend.Losses.")
        _require(np.isfinite(losses.local), f"the local loss after training is {losses.local}.")
        checked_predictions(agent.name, agent.predict(shared), len(shared), agent.outputs, agent.task)
    _require(np.array_equal(labels, before), "train changed the pseudo-labels that it was given.")
    _require(np.array_equal(shared, kept), "train changed the shared data that it was given.")
    _require(0 < agent.noise < np.inf, f"noise is {agent.noise}; it must be a number above 0 (1 where there is none).")


def _check_determinism(make: Callable[[], Agent], shared: Array, labels: Array) -> None:
    first, second = (np.array(_trained(make(), shared, labels, 2).predict(shared)) for _ in range(2))
    _require(
        np.array_equal(first, second),
        "two agents made and trained in the same way predict differently. Draw from a generator seeded by the agent; "
        "or is a model made outside make_agent?",
    )


def _check_restore(make: Callable[[], Agent], shared: Array, labels: Array) -> None:
    whole = _trained(make(), shared, labels, 2)
    saved: Any = whole.state()
    numbers = isinstance(saved, dict) and all(
        isinstance(key, str) and isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
        for key, value in saved.items()
    )
    _require(numbers, "state() must be a dict of NumPy arrays of numbers: it is never pickled.")
    _require(saved, "state() is empty. Let it hold at least the number of rounds trained.")
    copies = {key: value.copy() for key, value in saved.items()}
    whole = _trained(whole, shared, labels, 1)
    _require(
        all(np.array_equal(saved[key], value, equal_nan=value.dtype.kind == "f") for key, value in copies.items()),
        "what state() returned changed when the agent trained on. Return copies.",
    )
    resumed = make()
    resumed.restore(copies, shared)
    resumed = _trained(resumed, shared, labels, 1)
    _require(
        np.array_equal(whole.predict(shared), resumed.predict(shared)),
        "after restore(state()) and one more round it predicts otherwise than without the interruption. "
        "Does the state hold the optimizer, and the number of rounds that its random numbers depend on?",
    )


def _check_wrapper(make: Callable[[], Agent], shared: Array, labels: Array) -> None:
    wrapped = cast(Agent, Wrapper(make()))
    _trained(wrapped, shared, labels, 1)
    plain = _trained(make(), shared, labels, 1)
    _require(
        np.array_equal(published(wrapped, shared), published(plain, shared)),
        "in a wrapper that passes everything on it behaves otherwise.",
    )


def _check_widened(agent: Agent, shared: Array) -> None:
    cast(AcceptsMoreClasses, agent).accept_classes(agent.outputs + 1)
    checked_predictions(agent.name, agent.predict(shared), len(shared), agent.outputs, agent.task)


def _check_weights(make: Callable[[], Agent], shared: Array) -> None:
    agent = make()
    source, target = cast(Averageable, agent), cast(Averageable, make())
    first = source.weights()
    copies = {name: value.copy() for name, value in first.items()}
    losses: Any = source.train_alone()
    _require(
        isinstance(losses, Losses), f"train_alone returned {type(losses).__name__}, not consilience.extend.Losses."
    )
    unchanged = all(np.array_equal(first[name], value) for name, value in copies.items())
    _require(unchanged, "what weights() returned changed when the agent trained on. Return copies.")
    unknown = [name for name in source.trained_names if name not in first]
    _require(not unknown, f"trained_names has {', '.join(unknown)}, which weights() does not.")
    target.set_weights(source.weights())
    _require(
        np.array_equal(agent.predict(shared), cast(Agent, target).predict(shared)),
        "an agent that took over the weights of another predicts otherwise. Is a part missing from weights()?",
    )


def _trained(agent: Agent, shared: Array, labels: Array, rounds: int) -> Agent:
    for _ in range(rounds):
        agent.train(shared, labels, 0.5)
    return agent


def _pseudo_labels(agent: Agent, shared: Array) -> Array:
    """What peers might say: the agent's own predictions, halfway to those of another sample."""
    f = np.asarray(agent.predict(shared), dtype=np.float32)
    return (f + f[::-1]) / 2


def _blobs() -> tuple[Array, Array]:
    draw = stream(0, "check_agent")
    y = np.arange(90) % 3
    return (draw.normal(0, 1, (90, 4)) + 2 * np.eye(3, 4)[y]).astype(np.float32), y


def _require(holds: Any, problem: str) -> None:
    if not holds:
        raise ConsilienceError(f"the agent does not conform: {problem}")


class _Step:
    """One part of the suite: nothing in it may fail, nor draw from a global random generator or change its state."""

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        self._before = _global_state()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, ConsilienceError):
            raise ConsilienceError(
                f"the agent does not conform: {self._doing} raised {type(error).__name__}: {error}."
            ) from error
        _require(
            kind is not None or _global_state() == self._before,
            f"{self._doing} changed the state of a global random generator. Use np.random.default_rng(seed), or "
            "torch.random.fork_rng().",
        )


def _global_state() -> tuple[Any, ...]:
    import random

    import torch

    legacy = np.random.get_state(legacy=True)  # noqa: NPY002
    return random.getstate(), legacy[1].tobytes(), legacy[2], torch.get_rng_state().numpy().tobytes()  # type: ignore[index]
