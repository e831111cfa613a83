"""What a finished run says of one of its agents, for the model card."""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

from consilience.export.folder import Facts
from consilience.runtime.history import PLACES
from consilience.runtime.run import Run

_COMMON = ("target", "")
"""In an experiment the sample of the target domain is common to all; at a site it is the site's own."""


Advise = Callable[[Run, str], Sequence[str]]
"""Says which model an agent should use where."""


def no_advice(run: Run, agent: str) -> Sequence[str]:
    """Nothing."""
    return ()


def facts_of(run: Run, agent: str, columns: tuple[str, ...] = (), about: str = "", advise: Advise = no_advice) -> Facts:
    """Class names, how the agent was trained, and its scores after its last round.

    Of an agent that promises privacy there are no scores on an organisation's own rows, and no fingerprint of data with
    private rows in it.
    """
    summary, table = run.summary, run.last_round()
    spent = next((entry.privacy for entry in summary.agents if entry.name == agent), {})
    measured_on = [on for on in PLACES if not spent or on == "shared" or (on, summary.federation) == _COMMON]
    training: dict[str, Any] = {
        "dataset": summary.dataset,
        "method": summary.title,
        "peers": len(summary.agents),
        "rounds": summary.rounds,
        "round": int(table["round"].max()),
        "warmup": summary.warmup,
        "seed": summary.seed,
        "shared_data" if summary.federation else "data": summary.data,
        "federation": summary.federation,
        "privacy": _privacy(spent),
    }
    row = table[table["agent"] == agent].iloc[0]
    names = [f"{score.name}_{on}" for on in measured_on for score in summary.scores]
    scores = {name: float(row[name]) for name in names if name in row and isfinite(row[name])}
    return Facts(
        tuple(summary.classes),
        {key: value for key, value in training.items() if value not in (None, "")},
        scores,
        columns,
        about,
        advice=tuple(advise(run, agent)),
    )


def _privacy(spent: dict[str, Any]) -> str:
    """What a private agent promises of each of its private rows; empty if nothing."""
    if not spent:
        return ""
    if spent["epsilon"] is None:
        return "no bound: the noise is too small for one"
    return f"epsilon {spent['epsilon']:.3f} at delta {spent['delta']:g} for each private row"
