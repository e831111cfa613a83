"""What a finished run says of one of its agents, for the model card."""

from math import isfinite
from typing import Any

from consilience.export.folder import Facts
from consilience.runtime.history import PLACES
from consilience.runtime.run import Run


def facts_of(run: Run, agent: str, columns: tuple[str, ...] = (), about: str = "") -> Facts:
    """Class names, how the agent was trained, and its scores after its last round."""
    summary, table = run.summary, run.last_round()
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
        "privacy": _privacy(next((one.privacy for one in summary.agents if one.name == agent), {})),
    }
    row = table[table["agent"] == agent].iloc[0]
    names = [f"{one.name}_{place}" for place in PLACES for one in summary.scores]
    scores = {name: float(row[name]) for name in names if name in row and isfinite(row[name])}
    return Facts(
        tuple(summary.classes),
        {key: value for key, value in training.items() if value not in (None, "")},
        scores,
        columns,
        about,
    )


def _privacy(spent: dict[str, Any]) -> str:
    """What a private agent promises of each of its private rows; empty if nothing."""
    if not spent or spent["epsilon"] is None:
        return ""
    return f"epsilon {spent['epsilon']:.3f} at delta {spent['delta']:g} for each private row"
