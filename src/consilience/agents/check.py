"""A conformance suite for anyone's agent class."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from consilience.agents.protocol import Agent, Losses, Publishes, can, lacks, published
from consilience.agents.wrapper import Wrapper
from consilience.core.streams import stream
from consilience.errors import ConsilienceError
from consilience.tasks.protocol import Array, checked_predictions

MakeAgent = Callable[[Array, Array, str], Agent]


def check_agent(make_agent: MakeAgent, x: Array | None = None, y: Array | None = None) -> None:
    """Checks that agents made by `make_agent(x, y, name)` will work in every method, with workers and after a kill.

    They are made on a small dataset of three classes, or on the first two thirds of (x, y); the rest of x is shared
    data. The first thing that is wrong is raised as a ConsilienceError, in a sentence.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> from consilience import SklearnAgent
    >>> check_agent(lambda x, y, name: SklearnAgent(GaussianNB(), x, y, name))
    """
    x, y = _blobs() if x is None or y is None else (np.asarray(x), np.asarray(y))
    own = 2 * len(x) // 3

    def make() -> Agent:
        return make_agent(x[:own], y[:own], "checked")

    with _Unchanged("making it"):
        agent = make()
    _check_attributes(agent, own)
    with _Unchanged("predicting"):
        _check_predictions(agent, x[own:])
    labels = _pseudo_labels(agent, x[own:])
    with _Unchanged("training"):
        _check_training(agent, x[own:], labels)
    _check_determinism(make, x[own:], labels)
    _check_restore(make, x[own:], labels)
    _check_wrapper(make, x[own:], labels)


def _check_attributes(agent: Agent, samples: int) -> None:
    missing = lacks(agent, Agent)
    if missing:
        raise ConsilienceError(f"{type(agent).__name__} lacks {', '.join(missing)} of an agent.")
    _require(agent.name == "checked", f"its name is {agent.name!r}, but make_agent was given 'checked'.")
    _require(agent.samples == samples, f"samples is {agent.samples}, but it was given {samples}.")
    lacking = [name for name in ("labels", "scores", "trust", "distance", "problem") if not hasattr(agent.task, name)]
    _require(not lacking, f"task is {agent.task!r}; use consilience.TASKS.find('classification') or another task.")


def _check_predictions(agent: Agent, x: Array) -> None:
    """Before any training, as the first exchange may come without a warm-up."""
    f = checked_predictions(agent.name, agent.predict(x), len(x), agent.outputs, agent.task)
    _require(np.array_equal(f, agent.predict(x)), "predicting twice gives different numbers.")
    half = agent.predict(x[: len(x) // 2])
    _require(
        np.allclose(half, f[: len(x) // 2], atol=1e-4),
        "what it predicts for a sample depends on the other samples (is a network in training mode?).",
    )
    if can(agent, Publishes):
        said = cast(Publishes, agent).publish(x)
        checked_predictions(agent.name, said, len(x), agent.outputs, agent.task)


def _check_training(agent: Agent, shared: Array, labels: Array) -> None:
    before, kept = labels.copy(), shared.copy()
    for given, lam in ((None, 0.0), (labels, 0.5), (labels, 0.0)):
        losses: Any = agent.train(shared, given, lam)
        _require(isinstance(losses, Losses), f"train returned {type(losses).__name__}, not consilience.Losses.")
        _require(np.isfinite(losses.local), f"the local loss after training is {losses.local}.")
        checked_predictions(agent.name, agent.predict(shared), len(shared), agent.outputs, agent.task)
    _require(np.array_equal(labels, before), "train changed the pseudo-labels that it was given.")
    _require(np.array_equal(shared, kept), "train changed the shared data that it was given.")


def _check_determinism(make: Callable[[], Agent], shared: Array, labels: Array) -> None:
    one, other = (_trained(make(), shared, labels, 2) for _ in range(2))
    _require(
        np.array_equal(one.predict(shared), other.predict(shared)),
        "two agents made and trained in the same way predict differently. Draw from a generator seeded by the agent.",
    )


def _check_restore(make: Callable[[], Agent], shared: Array, labels: Array) -> None:
    whole = _trained(make(), shared, labels, 2)
    saved: Any = whole.state()
    arrays = isinstance(saved, dict) and all(isinstance(value, np.ndarray) for value in saved.values())
    _require(arrays, "state() must be a dict of NumPy arrays.")
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


class _Unchanged:
    """Nothing in the block may draw from a global random generator, or change its state."""

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        self._before = _global_state()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and _global_state() != self._before:
            raise ConsilienceError(
                f"the agent does not conform: {self._doing} changed the state of a global random generator. Use "
                "np.random.default_rng(seed), or torch.random.fork_rng()."
            )


def _global_state() -> tuple[Any, ...]:
    import random

    import torch

    legacy = np.random.get_state(legacy=True)  # noqa: NPY002
    return random.getstate(), legacy[1].tobytes(), legacy[2], torch.get_rng_state().numpy().tobytes()  # type: ignore[index]
