"""The Python interface: bring your own agents."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from consilience.agents.protocol import Agent, Array, describe
from consilience.agents.sklearn_agent import SklearnAgent
from consilience.core.consensus import influence
from consilience.core.trust import FLOOR, OFFSET
from consilience.errors import ConsilienceError
from consilience.experiments.folders import claim_folder
from consilience.runtime.exchange import InMemory
from consilience.runtime.history import Evaluation
from consilience.runtime.rounds import Method
from consilience.runtime.run import OnRound, Run, carry_out
from consilience.runtime.wire import Wire

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Result:
    """What a collaboration gave."""

    agents: list[Agent]
    """The improved agents, in the order of `trust`."""
    run: Run

    @property
    def history(self) -> "pd.DataFrame":
        """One row per round and agent: scores where labels were given, losses, disagreement, bytes sent."""
        return self.run.metrics

    @property
    def trust(self) -> Array:
        """Trust matrices (rounds of collaboration, agents, agents)."""
        return self.run.trust

    @property
    def influence(self) -> dict[str, float]:
        """How much each agent's first exchanged prediction counts in the last pseudo-labels; sums to one."""
        if not len(self.trust):
            return dict.fromkeys(self.run.names, 1 / len(self.agents))
        return dict(zip(self.run.names, influence(self.trust).tolist(), strict=True))

    def save(self, folder: str | Path) -> Path:
        """Writes metrics.parquet, trust.npz and summary.json into `folder`, which must not hold a run yet."""
        path = claim_folder(Path(folder), resume=False)
        self.run.save(path)
        return path

    def report(self, path: str | Path = "report.html") -> Path:
        """Writes the report, one page that opens offline."""
        from consilience.report.page import write_page

        return write_page(self.run, Path(path))


def collaborate(
    agents: Sequence[Agent],
    shared: Array,
    *,
    rounds: int = 20,
    warmup: int = 5,
    lam: float = 0.5,
    trust: str = "dynamic",
    similarity: str = "entropy",
    entropy_offset: float = OFFSET,
    entropy_floor: float = FLOOR,
    labels: str = "soft",
    wire: str = "float32",
    wire_top: int = 3,
    warmup_shared: bool = False,
    batched: bool = True,
    shared_labels: Array | None = None,
    target: tuple[Array, Array] | None = None,
    own: dict[str, tuple[Array, Array]] | None = None,
    class_names: Sequence[str] = (),
    out: str | Path | None = None,
    resume: bool = False,
    threads: int = 1,
    on_round: OnRound | None = None,
) -> Result:
    """Trains `agents` together by prediction consensus on the unlabelled `shared` data (Algorithm 1).

    `rounds` include the `warmup`, in which everyone trains alone. `trust` is "dynamic", "static", "every-K" or
    "naive". Predictions are published as `wire` says: "float32", "float16" or "top-k" (the `wire_top` largest). With
    `warmup_shared` batch norm sees the shared data in the warm-up too. Small torch models of one architecture train
    as one batch, unless `batched` is False. Labels of the shared data, a sample (x, y) of the `target` domain and
    each agent's `own` test data are used for measuring only. With `out` every round is saved there, and `resume` goes
    on from the last one. Raise `threads` for large torch models on the CPU; small ones are fastest with one.
    """
    published = Wire(wire, wire_top)
    method = Method(
        trust,
        rounds,
        warmup,
        lam,
        similarity,
        entropy_offset,
        entropy_floor,
        labels,
        published,
        warmup_shared,
        batched,
    )
    agents, shared = list(agents), np.asarray(shared)
    outputs = _agree(agents, shared)
    if shared_labels is not None and len(shared_labels) != len(shared):
        raise ConsilienceError(f"{len(shared_labels)} shared labels for {len(shared)} shared samples.")
    evaluation = Evaluation(shared_labels, target, own or {})
    classes = list(class_names) or [str(c) for c in range(outputs)]
    facts = {
        "method": trust,
        "task": agents[0].task,
        "rounds": rounds,
        "warmup": warmup,
        "lam": lam,
        "classes": classes if agents[0].task == "classification" else [],
        "shared_samples": len(shared),
        "agents": describe(agents),
    }
    folder = claim_folder(Path(out), resume) if out is not None else None
    exchange = InMemory(tuple(a.name for a in agents), published)
    run = carry_out(
        agents,
        shared,
        exchange,
        method,
        evaluation=evaluation,
        facts=facts,
        folder=folder,
        threads=threads,
        on_round=on_round,
    )
    return Result(agents, run)


def _agree(agents: list[Agent], shared: Array) -> int:
    """Checks that these agents can collaborate, names the nameless, and returns their number of outputs."""
    if len(agents) < 2:
        raise ConsilienceError(f"consensus needs at least two agents, got {len(agents)}.")
    if len(shared) == 0:
        raise ConsilienceError("the shared data are empty. Give unlabelled samples of the target domain.")
    for number, agent in enumerate(agents):
        agent.name = agent.name or str(number)
    names = [agent.name for agent in agents]
    for name in names:
        if names.count(name) > 1 or "/" in name:
            raise ConsilienceError(f"agent names must be unique and hold no slash; {name!r} does not fit.")
    if len({agent.task for agent in agents}) > 1:
        raise ConsilienceError("some agents do classification and some regression. All must do the same.")
    outputs = max(agent.outputs for agent in agents)
    for agent in agents:
        if isinstance(agent, SklearnAgent) and agent.task == "classification":
            agent.outputs = outputs
        if agent.outputs != outputs:
            raise ConsilienceError(
                f"agent {agent.name!r} predicts {agent.outputs} outputs, another agent {outputs}. "
                "All agents must predict the same classes."
            )
    return outputs
