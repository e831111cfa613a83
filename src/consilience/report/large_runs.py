"""Runs of many agents: a page shows some of them, and statistics of all."""

from dataclasses import dataclass, replace

import numpy as np

from consilience.core import consensus
from consilience.report.gains import gains, measures
from consilience.report.numbers import number, spread
from consilience.runtime.run import Run
from consilience.tasks.protocol import Array

MOST_AGENTS = 100
"""Up to this number of agents a page shows all."""
SHOWN = 50
"""Number of agents shown otherwise."""
PERCENTILES = ("worst", "10 %", "median", "90 %", "best")


@dataclass(frozen=True)
class LargeRun:
    """Statistics of the trust of all agents, whichever of them a page shows. Empty without trust of all."""

    received: Array
    """Trust received by each agent in the first and the last round of collaboration, (2, agents)."""
    confidence: Array
    """Mean trust of agents in themselves, by round."""
    influence: Array
    first: Array
    last: Array
    """The influence of each agent if the first, or the last, trust were kept forever."""


def large_run(run: Run) -> LargeRun:
    """Statistics of all agents of a run."""
    if run.sparse is not None:
        sparse = run.sparse
        received = np.stack([sparse.received(0), sparse.received(-1)])
        ends = sparse.stationary(0), sparse.stationary(-1)
        return LargeRun(received, sparse.own().mean(axis=1), sparse.influence(), *ends)
    ws = run.trust
    if not len(ws) or ws.shape[1] != ws.shape[2]:
        nothing = np.zeros(0)
        return LargeRun(np.zeros((2, 0)), nothing, nothing, nothing, nothing)
    received = np.stack([consensus.trust_received(ws[0]), consensus.trust_received(ws[-1])])
    ends = consensus.stationary(ws[0]), consensus.stationary(ws[-1])
    return LargeRun(received, consensus.self_confidence(ws) / ws.shape[1], consensus.influence(ws), *ends)


def shown_agents(run: Run) -> list[int]:
    """Numbers of the agents that a page shows: all, or some from the worst to the best in even steps."""
    if len(run.names) <= MOST_AGENTS:
        return list(range(len(run.names)))
    order = np.arange(len(run.names))
    for measure in measures(run)[:1]:
        score = run.last_round().set_index("agent")[measure.column].reindex(run.names).to_numpy(dtype=np.float64)
        order = np.argsort(score if measure.score.higher_is_better else -score, kind="stable")
    steps = np.linspace(0, len(order) - 1, SHOWN).round().astype(int)
    return sorted(order[steps].tolist())


def subset(run: Run, numbers: list[int]) -> Run:
    """The run of these agents only, in the order of the roster, with their trust in each other."""
    if len(numbers) == len(run.names):
        return run
    names = [run.names[index] for index in numbers]
    rows = {name: row for row, name in enumerate(dict.fromkeys(run.metrics["agent"]))}
    kept = [rows[name] for name in names if name in rows]
    by_class = dict(run.by_class)
    if by_class:
        by_class["trust"] = by_class["trust"][kept][:, numbers]
    return replace(
        run,
        metrics=run.metrics[run.metrics["agent"].isin(names)],
        trust=_trust_among(run, numbers),
        summary=replace(run.summary, agents=[run.summary.agents[index] for index in numbers]),
        references={name: subset(other, numbers) for name, other in run.references.items()},
        by_class=by_class,
        draws={column: values[kept] for column, values in run.draws.items()},
        sparse=None,
    )


def _trust_among(run: Run, numbers: list[int]) -> Array:
    if run.sparse is None:
        return run.trust[:, numbers][:, :, numbers] if len(run.trust) else run.trust
    column_of = np.full(run.sparse.agents, -1)
    column_of[numbers] = np.arange(len(numbers))
    columns, weights = column_of[run.sparse.peers[:, numbers]], run.sparse.weights[:, numbers]
    among = np.zeros((len(columns), len(numbers), len(numbers)))
    rounds, row, at = np.nonzero(columns >= 0)
    among[rounds, row, columns[rounds, row, at]] = weights[rounds, row, at]
    return among


def sentences(run: Run, shown: int) -> list[str]:
    """The distribution of the scores of many agents, and which agents a page shows."""
    texts = []
    for measure in measures(run)[:1]:
        known = list(gains(run, measure).values())
        for key in ("alone", "together"):
            values = [getattr(gain, key) for gain in known]
            if values and not np.isnan(values).any():
                statistics = spread(values, measure.score.higher_is_better)[1:]
                parts = [f"{title} {number(value)}" for title, value in zip(PERCENTILES, statistics, strict=True)]
                texts.append(f"{measure.title[:1].upper()}{measure.title[1:]}, {key}: {', '.join(parts)}.")
    return [
        *texts,
        f"Of {len(run.names):,} agents this page shows {shown}, from the worst to the best in even steps, and their "
        "trust in each other. Sums, means, influence and theory are of all agents.",
    ]
