"""What gains are measured against: a copy of every agent, which trains alone beside it for as many rounds."""

from dataclasses import replace
from typing import final

from consilience.agents.copies import copied
from consilience.agents.local_agents import LocalAgents
from consilience.base.errors import ConsilienceError
from consilience.methods.alone import Alone
from consilience.methods.protocol import Record, Round
from consilience.runtime.checkpoint import by_agent, with_prefix
from consilience.runtime.history import Evaluation, History
from consilience.runtime.run import Run
from consilience.runtime.summary import Summary
from consilience.tasks.protocol import Array

NAME = "alone"
"""Of the reference that it leaves in a run."""


@final
class Baseline:
    """Copies of the agents of one process. They hear nobody and see the shared data only to be measured on them."""

    def __init__(self, team: LocalAgents) -> None:
        self._team = LocalAgents((copied(agent) for agent in team), team.names)
        self._history = History(team.names, everyone=False)

    def train(self, number: int, shared: Array, evaluation: Evaluation, last: bool) -> None:
        """One round of training, recorded under the `number` that it has for the agents."""
        losses = self._team.train(shared, {}, lam=0.0)
        known = evaluation.shared_y is not None
        found = {agent.name: f for agent, f in self._team.predicted(shared)} if known else {}
        on_shared = {name: found[name] for name in self._team.names if name in found}
        scores = evaluation.scores_of(self._team, on_shared, number, last)
        self._history.add(Round(number, Record(on_shared, losses, dict.fromkeys(self._team.names, 0))), scores)
        if last:
            self._history.add_draws(evaluation.draws_of(self._team, on_shared, len(self._team)))

    def arrays(self) -> dict[str, Array]:
        """All of it, for a checkpoint."""
        states = {f"agent/{agent.name}/{key}": value for agent in self._team for key, value in agent.state().items()}
        return states | {f"history/{key}": value for key, value in self._history.arrays().items()}

    def restore(self, saved: dict[str, Array], shared: Array) -> None:
        """Takes up what `arrays` gave."""
        if not saved:
            raise ConsilienceError(
                "the run was begun without copies of the agents that train alone, so that there is nothing to go on "
                "from. Resume without them too (baseline false), or start again in another folder."
            )
        self._history.restore(with_prefix(saved, "history/"))
        states = by_agent(saved, "agent/")
        for agent in self._team:
            agent.restore(states[agent.name], shared)

    def run(self, summary: Summary) -> Run:
        """What the copies reached, as a run of the method alone beside the one of `summary`."""
        method = Alone()
        trust, rounds = self._history.trust()
        summary = replace(summary, method=method.label, title=method.title, warmup=method.warmup)
        return Run(self._history.frame(), trust, rounds, summary, draws=self._history.draws)
