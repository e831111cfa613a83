"""The agents of one process, which train together and report when each has trained."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, cast, final

from consilience.agents.protocol import (
    Agent,
    Averageable,
    Correction,
    GradientCorrection,
    Losses,
    OwnRows,
    Publishes,
    TrainsOnShared,
    implements,
    published,
)
from consilience.agents.unreadable import refuse_gaps, rows_called
from consilience.base.errors import ConsilienceError
from consilience.base.malloc import give_memory_back
from consilience.base.rows import Rows, count
from consilience.tasks.protocol import Array, checked_predictions


@final
class LocalAgents:
    """Agents in the order of the roster, so that no number depends on the order in which they are listed.

    `on_trained` is called with the name of every agent that has trained.
    """

    def __init__(
        self,
        agents: Iterable[Agent],
        roster: tuple[str, ...] = (),
        on_trained: Callable[[str], None] = lambda name: None,
    ) -> None:
        given, order = list(agents), {name: number for number, name in enumerate(roster)}
        self._agents = sorted(given, key=lambda agent: order[agent.name]) if roster else given
        self._among = max(len(roster), len(given))
        self._on_trained = on_trained
        _check_models(self._agents)

    def __iter__(self) -> Iterator[Agent]:
        return iter(self._agents)

    def __len__(self) -> int:
        return len(self._agents)

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(agent.name for agent in self._agents)

    @property
    def first(self) -> Agent:
        """All have the same task and outputs as this one."""
        return self._agents[0]

    def subset(self, names: Collection[str], report: bool = True) -> "LocalAgents":
        """Those called `names`, in the same order; without `report` nobody hears when one of them has trained."""
        chosen = copy(self)
        chosen._agents = [agent for agent in self._agents if agent.name in names]
        chosen._on_trained = self._on_trained if report else lambda name: None
        return chosen

    def train(self, shared: Rows, labels: Mapping[str, Array], lam: float | Mapping[str, float]) -> dict[str, Losses]:
        """One round of local training of everyone on its private data and its pseudo-labels, where it has some.

        `lam` is one weight of the pseudo-labels, or one for each agent.
        """
        weights = lam if isinstance(lam, Mapping) else dict.fromkeys(labels, lam)

        def alone(agent: Agent) -> Losses:
            return agent.train(shared, labels.get(agent.name), weights[agent.name] if agent.name in labels else 0.0)

        def key(agent: Agent, network: Any) -> Hashable:
            return agent.name not in labels

        losses = self._together("train", alone, key, shared=shared, labels=labels, lam=weights)
        give_memory_back()  # of a thousand agents it is half a gigabyte
        return losses

    def train_alone(self, corrections: Mapping[str, Correction | None]) -> dict[str, Losses]:
        """One round of everyone on its private data, with its gradients changed by its correction, if it has one."""
        from consilience.agents.batch_plan import MANY, Lesson
        from consilience.agents.batched import same_correction

        def alone(agent: Agent) -> Losses:
            return cast(Averageable, agent).train_alone(corrections.get(agent.name))

        def key(agent: Agent, network: Any) -> Hashable:
            correction = same_correction(corrections.get(agent.name))
            return (correction, lesson.width(network)) if lesson.narrow and correction != -1 else correction

        own = {name: correct for name, correct in corrections.items() if isinstance(correct, GradientCorrection)}
        lesson = Lesson(corrections=own, narrow=self._among >= MANY)
        return self._together("train_alone", alone, key, **vars(lesson))

    def train_on_shared(self, shared: Rows, labels: Mapping[str, Array], passes: int) -> dict[str, Losses]:
        """Everyone trains on the shared data alone, with its own pseudo-labels, for so many passes."""

        def alone(agent: Agent) -> Losses:
            return cast(TrainsOnShared, agent).train_on_shared(shared, labels[agent.name], passes)

        weights = dict.fromkeys(labels, 1.0)
        return self._together("train_on_shared", alone, shared=shared, labels=labels, lam=weights, passes=passes)

    def train_on_own(self, labels: Mapping[str, Array], lam: float) -> dict[str, Losses]:
        """One round of everyone on its private data, with its own labels and with these of the same rows."""

        def alone(agent: Agent) -> Losses:
            return agent.train(cast(OwnRows, agent).rows, labels[agent.name], lam)

        def key(agent: Agent, network: Any) -> Hashable:
            return lesson.width(network)

        from consilience.agents.batch_plan import Lesson

        lesson = Lesson(None, labels, dict.fromkeys(labels, lam))
        return self._together("train", alone, key, **vars(lesson))

    def _together(
        self,
        how: str,
        alone: Callable[[Agent], Losses],
        key: Callable[[Agent, Any], Hashable] = lambda agent, network: 0,
        **lesson: Any,
    ) -> dict[str, Losses]:
        """Everyone trains by its method `how`: small networks of one architecture and `key` as one computation."""
        from consilience.agents.batch_plan import Lesson
        from consilience.agents.batched import train_together

        return train_together(self._agents, how, Lesson(**lesson), key, alone, self._on_trained)

    def published(self, shared: Rows) -> dict[str, Array]:
        """What everyone publishes for the shared data, checked."""
        samples = count(shared)
        own = [agent for agent in self._agents if implements(agent, Publishes)]
        with rows_called("the shared data"):
            predictions = {agent.name: published(agent, shared) for agent in own}
            others = [agent for agent in self._agents if agent.name not in predictions]
            predictions |= {agent.name: f for agent, f in self.predicted(shared, others)}
            for agent in self._agents:
                refuse_gaps(agent, predictions[agent.name], shared)
        return {
            agent.name: checked_predictions(agent.name, predictions[agent.name], samples, agent.outputs, agent.task)
            for agent in self._agents
        }

    def predicted(self, rows: Rows, agents: Sequence[Agent] | None = None) -> Iterator[tuple[Agent, Array]]:
        """What agents, by default all, predict for the same rows, in any order: a few at a time, to save room."""
        from consilience.agents.batched_prediction import predict_all

        return predict_all(self._agents if agents is None else agents, rows, self._among)


def _check_models(agents: list[Agent]) -> None:
    """Refuses two agents that train the same weights: each would learn from the other's private data."""
    owners: dict[int, str] = {}
    for agent in agents:
        model = getattr(agent, "model", None)
        for weight in model.parameters() if model is not None and hasattr(model, "parameters") else ():
            other = owners.setdefault(id(weight), agent.name) if weight.requires_grad else agent.name
            if other != agent.name:
                raise ConsilienceError(
                    f"agents {other!r} and {agent.name!r} were given one model, or share weights that are trained. "
                    "Give each a model of its own, such as copy.deepcopy(model)."
                )
