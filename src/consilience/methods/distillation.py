"""The loop that FedMD, DS-FL, FedCT and Cronus share: everyone labels the shared data together and learns from that.

A method is a subclass that changes some of the steps `labels`, `before` and `learn`. In the papers a server collects
the predictions and sends the labels back; here everyone publishes to everyone, as in consensus, and makes the same
labels.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from consilience.agents.protocol import Agent, Losses, predicted
from consilience.agents.team import Team
from consilience.core.wire import Wire
from consilience.errors import ConsilienceError
from consilience.methods.phases import after
from consilience.methods.protocol import Exchange, NamedByClass, Received, Record, Round, Start, check_wire
from consilience.options import Options, option
from consilience.rows import Rows, count
from consilience.tasks.protocol import Array, Task


@dataclass(frozen=True)
class Distillation(NamedByClass, Options):
    """Rounds include the warm-up, in which agents train alone. Labels are the same for all, and nobody is weighed."""

    warmup: int = option(5, "rounds of training alone before the first exchange", at_least=0)
    weight: float = option(1.0, "of a shared sample, where both are learned at once and a private one has 1", above=0)
    wire: Wire = option(Wire(), "predictions as they are published")

    uses_shared = True
    needs_classes = True
    """Whether the labels are made of probabilities that sum to one."""
    trains_first = False
    """Whether some agents do something `before` they speak. Processes must not differ in whether they speak anew."""

    def labels(self, f: Array) -> Array:
        """Labels of the shared data (samples, outputs) from what everyone heard says (agents, samples, outputs)."""
        raise NotImplementedError

    def alone(self, agents: Team, shared: Rows, number: int) -> dict[str, Losses]:
        """A round of the warm-up."""
        return agents.train(shared, {}, lam=0.0)

    def before(self, agents: Team, shared: Rows) -> dict[str, Losses]:
        """What agents do before they speak; the losses of those who trained."""
        return {}

    def learn(self, agent: Agent, shared: Rows, labels: Array) -> Losses:
        """What an agent does with the labels: it trains on its private samples and the labelled shared ones as one set.

        1/n sum_i L_i + lam 1/n* sum_s L*_s with lam = weight n*/n: every shared sample counts `weight` private ones.
        """
        return agent.train(shared, labels, self.weight * count(shared) / agent.samples)

    def rounds(self, agents: Team, shared: Rows, exchange: Exchange, start: Start) -> Iterator[Round]:
        """Rounds of publishing, labelling and learning. Labels are made from whoever was heard."""
        self.check(agents.first.task, count(shared))
        own: dict[str, Array] = {}
        t = start.done
        while t < start.rounds:
            t += 1
            heard: tuple[str, ...] = ()
            received: dict[str, Array] = {}
            sent = dict.fromkeys(agents.names, 0)
            if t <= self.warmup:
                losses = self.alone(agents, shared, t)
            else:
                trained = self.before(agents, shared)
                own = agents.published(shared) if self.trains_first or not own else own
                spoken = self._spoken(own)
                answer = exchange.gather(t, spoken)
                t, sent = max(t, answer.number), answer.sent
                heard = tuple(name for name in exchange.roster if name in answer.predictions)
                if spoken is own and not self.trains_first:  # they are what everyone said after the last round
                    received = answer.predictions
                learned = self._learned(agents, shared, heard, answer)
                losses = {
                    name: predicted(after(trained.get(name), one), count(shared)) for name, one in learned.items()
                }
            own = agents.published(shared)
            yield Round(t, Record(own, losses, sent, heard, received))

    def check(self, task: Task, samples: int) -> None:
        """Refuses a task, or a number of shared samples, with which the method cannot do anything."""
        if self.needs_classes and not task.sums_to_one:
            raise ConsilienceError(
                f"{self.title} makes labels of the probabilities of classes, and {task.name} has none. Use consensus, "
                "or cronus."
            )
        check_wire(self.wire, task)

    def _spoken(self, own: dict[str, Array]) -> dict[str, Array]:
        """Predictions as everyone will read them."""
        return own if self.wire.form == "float32" else {name: self.wire.rounded(f) for name, f in own.items()}

    def _learned(self, agents: Team, shared: Rows, heard: tuple[str, ...], answer: Received) -> dict[str, Losses]:
        """Everyone learns, from what it was told; without anybody to hear, from its private data alone."""
        if not heard:
            return agents.train(shared, {}, lam=0.0)
        made: dict[int, Array] = {}

        def learned(agent: Agent) -> Losses:
            told = answer.told.get(agent.name, {})
            view = id(told) if told else 0
            if view not in made:
                made[view] = self.labels(np.stack([told.get(name, answer.predictions[name]) for name in heard]))
            return self.learn(agent, shared, made[view])

        return agents.each(learned)
