"""How far each agent counts in a collective prediction, from what a run recorded of trust."""

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.core.sparse import SparseTrust
from consilience.methods.ensemble import AgentWeights, own_weights, shared_weights
from consilience.runtime.run import Run


def weights_of(run: Run, agent: str = "") -> AgentWeights:
    """The weights that the last trust of a run gives: of all together, or as the one called `agent` trusts."""
    if run.sparse is not None and not len(run.trust):
        return _sparse_weights(run.names, run.sparse, agent)
    by_class = run.by_class.get("trust")
    here = run.names if len(run.trust) and run.trust.shape[1] == len(run.names) else known_here(run)
    last = run.trust[-1] if len(run.trust) else run.trust
    if not agent:
        if len(here) < len(run.names) and len(run.trust):
            raise ConsilienceError("only the trust of this site is known here; name the agent as which to predict.")
        return shared_weights(run.names, last, by_class)
    if agent not in here:
        raise ConsilienceError(f"there is no trust of an agent {agent!r} here. There is that of {', '.join(here)}.")
    if not len(run.trust):
        return shared_weights(run.names, last, None)
    row = here.index(agent)
    return own_weights(run.names, last[row], None if by_class is None else by_class[row])


def _sparse_weights(names: list[str], trust: SparseTrust, agent: str) -> AgentWeights:
    """The same where agents heard some peers only."""
    if not agent:
        return AgentWeights(tuple(names), trust.stationary(-1))
    if agent not in names:
        raise ConsilienceError(f"there is no agent {agent!r}.")
    row, place = np.zeros(len(names)), names.index(agent)
    row[trust.peers[-1, place]] = trust.weights[-1, place]
    return AgentWeights(tuple(names), row)


def known_here(run: Run) -> list[str]:
    """The agents of which this process recorded the rounds."""
    return list(dict.fromkeys(run.metrics["agent"]))
