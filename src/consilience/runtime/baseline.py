"""What gains are measured against: a copy of every agent, which trains alone for as many rounds."""

from dataclasses import replace
from typing import final

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import copied
from consilience.base.errors import ConsilienceError
from consilience.methods.alone import Alone
from consilience.methods.protocol import Start
from consilience.runtime.checkpoint import by_agent, flat, with_prefix
from consilience.runtime.crossed_shared import on_shared_rows
from consilience.runtime.exchange import InMemory
from consilience.runtime.held_out import held_out
from consilience.runtime.history import Evaluation, History
from consilience.runtime.run import Run
from consilience.runtime.summary import Summary
from consilience.tasks.protocol import Array

NAME = "alone"
"""The name of this reference in a run."""


@final
class Baseline:
    """The method alone with copies of the agents of one process, round by round beside the agents themselves."""

    def __init__(
        self,
        agents: LocalAgents,
        shared: Array,
        measured: int,
        evaluation: Evaluation,
        rounds: int,
        everyone: bool = True,
    ) -> None:
        """The first `measured` shared rows are not crossed."""
        self._measured = measured
        self.agents = LocalAgents((copied(agent) for agent in agents), agents.names)
        self._evaluation, self._history = evaluation, History(agents.names, everyone)
        self._rounds = Alone().rounds(self.agents, shared, InMemory(agents.names), Start(rounds))

    def train(self, number: int, last: bool) -> None:
        """One round of training, recorded under the `number` that it has for the agents."""
        done = replace(next(self._rounds), number=number)
        done = replace(done, record=on_shared_rows(done.record, self._measured))
        published = done.record.predictions
        self._history.add(done, self._evaluation.scores_of(self.agents, published, number, last))
        if last:
            self._history.add_draws(self._evaluation.draws_of(self.agents, published, len(self.agents)))
            self._history.held = held_out(self.agents, self._evaluation, len(self.agents))

    def arrays(self) -> dict[str, Array]:
        """All of it, for a checkpoint."""
        states = flat({agent.name: agent.state() for agent in self.agents}, "agent/")
        return states | flat({"history": self._history.arrays()})

    def restore(self, saved: dict[str, Array], shared: Array) -> None:
        """Restores what `arrays` returned."""
        if not saved:
            raise ConsilienceError(
                "the run was begun without copies of the agents that train alone, so it cannot go on with them. "
                "Resume without them too (baseline false), or start again in another folder."
            )
        self._history.restore(with_prefix(saved, "history/"))
        states = by_agent(saved, "agent/")
        for agent in self.agents:
            agent.restore(states[agent.name], shared)

    def run(self, summary: Summary) -> Run:
        """What the copies reached, as a run of the method alone; its other facts are those of `summary`."""
        method = Alone()
        trust, rounds = self._history.trust()
        summary = replace(summary, method=method.label, title=method.title, warmup=method.warmup)
        return Run(self._history.frame(), trust, rounds, summary, draws=self._history.draws, held=self._history.held)
