"""Comparison: KT-pFL, whose weights of peers are learned by gradient descent, one step per round."""

import json
from dataclasses import dataclass
from typing import final

import numpy as np

from consilience.base.options import Options, option
from consilience.core.distillation import knowledge_step
from consilience.methods.trust import TRUST
from consilience.methods.trust.protocol import Context, TrustResult, needed_probabilities
from consilience.tasks.protocol import Array


@TRUST.add("kt-pfl")
@final
@dataclass(frozen=True)
class KTpFL(Options):
    """w <- the weights nearest to w - step d/dw [sum_i KL(sum_j w_ij f_j || f_i) + rho |w - 1/N|^2], from w = 1/N.

    Zhang et al., Parameterized knowledge transfer for personalized federated learning (NeurIPS 2021). Agents there
    train on private data, publish and distil: `learning=sequential` of consensus. An agent that is not heard keeps its
    weight; an agent that joins later starts with an equal share.
    """

    step: float = option(0.03, "of the descent in a round", above=0)
    rho: float = option(0.7, "how strongly weights are held at an equal share", at_least=0)

    def __call__(self, f: Array, context: Context) -> TrustResult:
        """`core.ktpfl.knowledge_step` from the weights of the last round."""
        f = needed_probabilities(self, f, context)
        names, c = _with_new_agents(context)
        heard = np.array([names.index(name) for name in context.names])
        block = np.ix_(heard, heard)
        mass = c[block].sum(axis=1, keepdims=True)
        w = knowledge_step(c[block] / mass, f, self.step, self.rho)
        c[block] = w * mass
        written = np.frombuffer(json.dumps(names).encode(), np.uint8)
        return TrustResult(w, memory={"names": written, "weights": c})


def _with_new_agents(context: Context) -> tuple[list[str], Array]:
    """All agents that were ever heard, and the weights among them, with equal shares for new agents."""
    kept = context.memory
    names = json.loads(bytes(kept["names"])) if kept else []
    new = [name for name in context.names if name not in names]
    before, total = len(names), len(names) + len(new)
    c = np.full((total, total), 1 / total)
    if before:
        c[:before, :before] = kept["weights"] * (before / total)
    return names + new, c
