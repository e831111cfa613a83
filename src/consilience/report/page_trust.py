"""The parts of a report's page that are about trust: the matrices, agreement and influence, ready for JSON."""

from typing import Any

import numpy as np

from consilience.core import consensus
from consilience.report.large_runs import MOST_AGENTS, LargeRun
from consilience.report.numbers import rounded
from consilience.runtime.run import Run
from consilience.tasks.protocol import Array

MOST_TRUST_VALUES = 120_000
"""Trust values on a page. Longer runs show evenly spaced rounds, so that the page stays near one megabyte."""


def first_round(run: Run) -> int | None:
    """The first round of collaboration."""
    if len(run.trust_rounds):
        return int(run.trust_rounds[0])
    active = run.metrics.loc[run.metrics["bytes_sent"] > 0, "round"]
    return int(active.min()) if len(active) else None


def trust_matrices(run: Run, rows: list[int], ends: Array | None) -> dict[str, Any] | None:
    """The trust matrices, thinned out to what a page can hold, and what each agent receives.

    Where these are of some agents only, the first and the last round are, in which `ends` is what all give them.
    """
    if not len(run.trust):
        return None
    most = max(2, MOST_TRUST_VALUES // run.trust[0].size) if ends is None else 2
    shown = np.unique(np.linspace(0, len(run.trust) - 1, min(most, len(run.trust))).round().astype(int))
    return {
        "rounds": run.trust_rounds[shown].tolist(),
        "of": len(run.trust),
        "rows": rows,
        "matrices": rounded(run.trust[shown]),
        "received": rounded(
            np.array([received(w, rows) for w in run.trust[shown]]) if ends is None else ends[: len(shown)]
        ),
    }


def trust_by_class(run: Run, rows: list[int]) -> dict[str, Any] | None:
    """Trust by class in the last round, where the trust rule distinguishes classes."""
    if not run.by_class or run.by_class["trust"].size > MOST_TRUST_VALUES:
        return None
    return {
        "rows": rows,
        "names": run.summary.classes,
        "matrices": rounded(np.moveaxis(run.by_class["trust"], 2, 0)),
        "samples": [int(count) for count in run.by_class["samples"]],
        "unsure": rounded(run.by_class["unsure"]),
    }


def received(w: Array, rows: list[int]) -> Array:
    """Trust that each agent receives from the peers whose rows are known; NaN when there is no such peer.

    Where one row is known, at a site, it is the trust that this site gives.
    """
    if len(rows) == 1:
        return np.asarray(w[0])
    known = np.zeros((w.shape[1], w.shape[1]))
    known[rows] = w
    peers = len(rows) - np.isin(np.arange(len(known)), rows)
    return np.where(peers > 0, consensus.trust_received(known), np.nan)


def agreement(run: Run, rows: list[int], all_of: LargeRun | None) -> dict[str, Any] | None:
    """Disagreement over rounds beside the bound of the ideal dynamics, and mean self-confidence tr(W)/N."""
    if len(rows) < 2:
        return None
    largest = run.metrics.groupby("round")["disagreement_all"].first()
    before, bound = (first_round(run) or 0) - 1, None
    if all_of is not None and before in largest.index and run.sparse is None and len(run.names) <= MOST_AGENTS:
        values = largest[before] * np.r_[1.0, consensus.contraction_bound(run.trust)]
        bound = {"rounds": [before, *run.trust_rounds.tolist()], "values": rounded(values)}
    own = run.trust[:, np.arange(len(rows)), rows].mean(axis=1) if len(run.trust) and all_of is None else np.zeros(0)
    own = own if all_of is None else all_of.confidence
    return {
        "rounds": largest.index.tolist(),
        "disagreement": rounded(largest.to_numpy()),
        "bound": bound,
        "confidence": {"rounds": run.trust_rounds.tolist(), "values": rounded(own)},
    }


def influence(run: Run, numbers: list[int], all_of: LargeRun) -> dict[str, Any]:
    """Each agent's share in the product of all W, and in the first and the last W kept forever."""
    return {
        "product": rounded(all_of.influence[numbers]),
        "first": rounded(all_of.first[numbers]),
        "last": rounded(all_of.last[numbers]),
        "rounds": run.trust_rounds[[0, -1]].tolist(),
    }
