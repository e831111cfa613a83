"""Sparse exchange: each agent hears a few peers, and computes trust by itself (`core/sparse.py`)."""

from dataclasses import dataclass, replace
from typing import cast, final

import numpy as np

from consilience.agents.protocol import implements
from consilience.base.errors import ConsilienceError
from consilience.base.options import Options, option
from consilience.core.sparse import Indices, heard_peers
from consilience.core.streams import stream
from consilience.methods.listening import LISTENING
from consilience.methods.listening.protocol import Heard, ListeningContext
from consilience.methods.memory import ConsensusMemory
from consilience.methods.mixing import View
from consilience.methods.protocol import SparseExchange
from consilience.tasks.protocol import Array

_NO_PEERS = np.zeros(0, dtype=np.int64)


@LISTENING.add("sparse")
@final
@dataclass(frozen=True)
class Sparse(Options):
    """H_i(t) = {i} u {the `peers` that i trusts most of those it heard last} u {`random_peers` others, drawn evenly}.

    Each agent computes trust in the peers it heard as if there were no others. Peers change in rounds in which trust
    is due.
    """

    peers: int = option(8, "number of most trusted peers to hear", at_least=1)
    random_peers: int = option(4, "number of other peers to hear, drawn in every round", at_least=1)

    def listen(self, context: ListeningContext, t: int, own: dict[str, Array], memory: ConsensusMemory) -> Heard:
        """f_j of the peers of each agent; then w_ij and psi_i from these alone."""
        agents, exchange, mixing = context.agents, context.exchange, context.mixing
        if not implements(exchange, SparseExchange):
            raise ConsilienceError(
                "this exchange carries predictions from everyone to everyone, so that nobody can hear a few peers "
                "only. Set listening=everyone."
            )
        due = not memory.agents or mixing.is_due(t)
        wanted = self._wanted(context, memory, due, t)
        answer = cast(SparseExchange, exchange).gather_some(t, own, wanted)
        psi, now, trust = dict[str, Array](), ConsensusMemory(memory.rule, agents=dict(memory.agents)), []
        for name, peers in wanted.items():
            names = tuple(exchange.roster[peer] for peer in peers)
            told, kept = answer.told.get(name, {}), memory.of(name)
            view = View((name,), names, np.stack([told.get(peer, answer.predictions[peer]) for peer in names]), True)
            row, labels = kept.trust, None
            if due:
                result = mixing.trust_and_labels(view, agents, t, kept.rule)
                row, labels = result.trust[names.index(name)], result.labels
                now.agents[name] = replace(kept, peers=peers, trust=row, rule=result.memory)
            row = np.zeros(0) if row is None else row
            trust.append(row)
            psi[name] = mixing.labels(row[None], view, agents.first.task)[0] if labels is None else labels[0]
        everyone, peers = exchange.roster, np.stack([*wanted.values()])
        return Heard(t, everyone, answer.predictions, np.stack(trust), psi, now, answer.sent, peers=peers)

    def _wanted(self, context: ListeningContext, memory: ConsensusMemory, due: bool, t: int) -> dict[str, Indices]:
        """The peers that each agent hears in round t; unless trust is `due`, the same as before."""
        roster = context.exchange.roster
        index = {name: row for row, name in enumerate(roster)}
        wanted: dict[str, Indices] = {}
        for name in context.agents.names:
            kept = memory.of(name)
            before = _NO_PEERS if kept.peers is None else kept.peers
            if due or not len(before):
                trust, draw = np.zeros(0) if kept.trust is None else kept.trust, stream(context.seed, "peers", name, t)
                wanted[name] = heard_peers(index[name], len(roster), before, trust, self.peers, self.random_peers, draw)
            else:
                wanted[name] = before
        return wanted
