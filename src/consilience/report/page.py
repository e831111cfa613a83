"""The report of a run: one self-contained page that opens offline.

Python prepares the numbers (`page_data`), `page.html` draws them.
"""

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from consilience.core import consensus
from consilience.errors import ConsilienceError
from consilience.report.gains import PLACES, Gain, Measure, gains, mean_gain, measures, verdicts
from consilience.report.many import MOST_AGENTS, Whole, part_of, sentences, shown_of, whole
from consilience.report.numbers import bounds, number, signed, size
from consilience.report.privacy import privacy_card
from consilience.report.tables import good_agents
from consilience.report.theory import findings, low_quality
from consilience.runtime.checkpoint import write_atomically
from consilience.runtime.run import Run
from consilience.runtime.summary import AgentSummary
from consilience.tasks.protocol import Array

MOST_TRUST_VALUES = 120_000
"""Trust values on a page. Longer runs show evenly spaced rounds, so that the page stays near one megabyte."""


def write_page(run: Run, path: Path) -> Path:
    """Writes the report of `run` to `path` and returns it."""
    template = (files("consilience.report") / "page.html").read_text(encoding="utf-8")
    before, after = template.split("__DATA__")
    text = json.dumps(page_data(run) | {"audit": _audit(path.parent)}, allow_nan=False, separators=(",", ":"))
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (before + safe + after).encode())
    return path


def _audit(folder: Path) -> Any:
    """What an audit of the run in this folder found, if there was one."""
    path = folder / "audit.json"
    try:
        found = json.loads(path.read_text()) if path.is_file() else None
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and {"attacks", "bound", "claimed", "canaries"} <= found.keys() else None


def page_data(run: Run) -> dict[str, Any]:
    """Everything the page shows, ready for JSON: numbers rounded, None for what is unknown.

    A part that the run cannot fill is None or empty, and the page leaves its section out or says why.
    """
    everyone, numbers, all_of = run, shown_of(run), whole(run)
    run = part_of(run, numbers)
    rows, found, known = _rows(run), [_measure(run, one) for one in measures(run)], run.summary
    square = len(run.trust) > 0 and len(rows) == len(run.names)
    site = run.names[rows[0]] if len(rows) == 1 else ""
    some = sentences(everyone, len(numbers)) if run is not everyone else []
    return {
        "title": (f"{site}: " if site else "") + known.title + (f" on {known.dataset}" if known.dataset else ""),
        "site": site,
        "verdicts": verdicts(everyone) + some,
        "facts": _facts(everyone),
        "footer": ", ".join(f"{name} {number}" for name, number in known.versions.items()),
        "agents": _agents(run, rows, numbers, all_of if square else None),
        "start": _start(run),
        "alone_note": _alone_note(run),
        "measures": found,
        "headline": _headline(everyone, site),
        "trust": _trust(run, rows, all_of.received[:, numbers] if run is not everyone else None),
        "by_class": _by_class(run, rows),
        "agreement": _agreement(everyone, rows, all_of if square else None),
        "influence": _influence(run, numbers, all_of) if square else None,
        "incidents": known.incidents,
        "suspicions": known.suspicions,
        "privacy": privacy_card(run),
        "theory": findings(everyone),
        "classes": _classes(run),
        "sent": _sent(run) | _total_sent(everyone),
    }


def _rows(run: Run) -> list[int]:
    """Positions in the roster of the agents of this process: the rows of the trust matrices."""
    own = list(dict.fromkeys(run.metrics["agent"]))
    place = {name: number for number, name in enumerate(run.names)}
    unknown = [name for name in own if name not in place]
    shape = run.trust.shape[1:] if len(run.trust) else (len(own), len(run.names))
    if unknown or shape != (len(own), len(run.names)):
        raise ConsilienceError(
            f"the run's parts do not fit together: metrics of {len(own)} agents, a summary of {len(run.names)}, "
            f"trust matrices of {shape[0]} x {shape[1]}. The summary must list every agent of the exchange."
        )
    return [place[name] for name in own]


def _start(run: Run) -> int | None:
    """The first round of collaboration."""
    if len(run.trust_rounds):
        return int(run.trust_rounds[0])
    active = run.metrics.loc[run.metrics["bytes_sent"] > 0, "round"]
    return int(active.min()) if len(active) else None


def _before(run: Run) -> list[int]:
    """Rounds before the first of collaboration. A site that comes late to a federation leaves out some."""
    start = _start(run)
    return sorted({int(number) for number in run.metrics["round"] if start is not None and number < start})


def _facts(run: Run) -> list[list[str]]:
    """What the run was, as pairs of a name and a value."""
    known, low, start, seconds = run.summary, len(low_quality(run)), _start(run), run.summary.seconds
    liars = sum(agent.attacker for agent in known.agents)
    lies = f", {liars} of them attackers ({known.attack})" if liars else ""
    warmup = "" if start is None else f", {len(_before(run))} of them warm-up"
    time = None if seconds is None else f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    facts: dict[str, Any] = {
        "method": known.title,
        "dataset": known.dataset or None,
        "agents": f"{len(run.names)}" + (f", {low} with shifted labels" if low else "") + lies,
        "rounds": f"{run.metrics['round'].max()}{warmup}",
        "shared data": f"{known.shared_samples} samples",
        "seed": known.seed,
        "wall time": time,
    }
    return [[name, str(value)] for name, value in facts.items() if value is not None]


def _agents(run: Run, rows: list[int], numbers: list[int], all_of: Whole | None) -> list[dict[str, Any]]:
    """One entry per agent of the roster, or of those shown. Little is known of those that live elsewhere."""
    received = [_received(w, rows) for w in run.trust[[0, -1]]] if len(run.trust) else []
    if all_of is not None:
        received = list(all_of.received[:, numbers])
    shares = None if all_of is None else all_of.influence[numbers]
    return [
        {
            "name": agent.name,
            "model": agent.model,
            "samples": agent.samples,
            "low": agent.low_quality or agent.attacker,
            "mark": "attacker" if agent.attacker else "labels shifted" if agent.low_quality else "",
            "here": number in rows,
            "received": [_rounded(column[number]) for column in received],
            "influence": None if shares is None else _rounded(shares[number]),
        }
        for number, agent in enumerate(run.summary.agents)
    ]


def _measure(run: Run, one: Measure) -> dict[str, Any]:
    """A score at a place: per agent and round, alone, together, gain (up is better); texts as tables have them."""
    found = gains(run, one)
    nothing = Gain(*[float("nan")] * 5)
    every = [found.get(name, nothing) for name in run.names]
    if _start(run) is None:  # everyone is alone
        every = [Gain(gain.together, *[float("nan")] * 4) for gain in every]
    others = {name: _curves(other, one.column) for name, other in run.references.items()}
    return {
        "column": one.column,
        "place": PLACES[one.place],
        "score": one.score.title,
        "lower_is_better": not one.score.higher_is_better,
        **(_curves(run, one.column) or {}),
        "others": {name: curves for name, curves in others.items() if curves is not None},
        "alone": _rounded([gain.alone for gain in every]),
        "together": _rounded([gain.together for gain in every]),
        "gain": _rounded([gain.gain for gain in every]),
        "verdict": [gain.verdict for gain in every],
        "texts": {
            "alone": [number(gain.alone) for gain in every],
            "together": [number(gain.together) for gain in every],
            "gain": [signed(gain.gain) for gain in every],
            "interval": [bounds(gain.low, gain.high) for gain in every],
        },
    }


def _curves(run: Run, column: str) -> dict[str, Any] | None:
    """Rounds, and the score of each agent of the roster in them; None when nobody has it."""
    series = _series(run, column)
    if series is None:
        return None
    scored = ~np.isnan(series).all(axis=0)
    rounds = np.array(sorted({int(one) for one in run.metrics["round"]}))
    return {"rounds": rounds[scored].tolist(), "series": _rounded(series[:, scored])}


def _series(run: Run, column: str) -> Array | None:
    """(agents of the roster, rounds), NaN for agents that live elsewhere; None when nobody has this score."""
    if column not in run.metrics.columns or run.metrics[column].isna().all():
        return None
    table = run.metrics.pivot(index="agent", columns="round", values=column)
    return table.reindex(run.names).to_numpy(dtype=np.float64)


def _alone_note(run: Run) -> str:
    start = _start(run)
    if start is None:
        return "Nobody collaborated in this run: all scores are of agents alone."
    if "alone" in run.references:
        return "Alone is the same agent, trained alone for as many rounds."
    return "No gain is shown: no copies of the agents trained alone for as many rounds, to compare with."


def _headline(run: Run, site: str) -> dict[str, Any] | None:
    """Means over the agents with good labels and over those without, for the references and the method.

    Where only one agent is known, as at a site, it is that agent's own score.
    """
    measure, low = next(iter(measures(run)), None), low_quality(run)
    if measure is None:
        return None
    good = [place for place, agent in enumerate(run.summary.agents) if not (agent.low_quality or agent.attacker)]
    references = sorted(run.references.items(), key=lambda item: item[0] != "alone")
    methods = [(one.summary.title, _last(one, measure.column)) for _, one in [*references, ("", run)]]
    whom = good_agents(run) if len(good) < len(run.names) else "all agents"
    title = measure.title.replace("each agent's", "its")
    gain = mean_gain(run, measure)
    return {
        "what": f"{site}: {title}" if site else f"Mean {title} over {whom}",
        "entries": [
            {"method": title, "mean": _mean(values, good), "low": _mean(values, low)} for title, values in methods
        ],
        "gain": "" if np.isnan(gain.gain) else signed(gain.gain),
        "interval": "" if np.isnan(gain.low) else bounds(gain.low, gain.high),
    }


def _last(run: Run, column: str) -> Array:
    series = _series(run, column)
    return np.full(len(run.names), np.nan) if series is None else np.asarray(series[:, -1])


def _mean(values: Array, numbers: list[int]) -> str | None:
    known = [value for value in values[numbers] if not np.isnan(value)]
    return number(float(np.mean(known))) if known else None


def _trust(run: Run, rows: list[int], ends: Array | None) -> dict[str, Any] | None:
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
        "matrices": _rounded(run.trust[shown]),
        "received": _rounded(
            np.array([_received(w, rows) for w in run.trust[shown]]) if ends is None else ends[: len(shown)]
        ),
    }


def _by_class(run: Run, rows: list[int]) -> dict[str, Any] | None:
    """Whom agents believe on each class in the last round, where the trust rule tells classes apart."""
    if not run.by_class or run.by_class["trust"].size > MOST_TRUST_VALUES:
        return None
    return {
        "rows": rows,
        "names": run.summary.classes,
        "matrices": _rounded(np.moveaxis(run.by_class["trust"], 2, 0)),
        "samples": [int(count) for count in run.by_class["samples"]],
        "unsure": _rounded(run.by_class["unsure"]),
    }


def _received(w: Array, rows: list[int]) -> Array:
    """Trust that each agent receives from the peers whose rows are known; NaN when there is no such peer.

    Where one row is known, at a site, it is the trust that this site gives.
    """
    if len(rows) == 1:
        return np.asarray(w[0])
    known = np.zeros((w.shape[1], w.shape[1]))
    known[rows] = w
    peers = len(rows) - np.isin(np.arange(len(known)), rows)
    return np.where(peers > 0, consensus.trust_received(known), np.nan)


def _agreement(run: Run, rows: list[int], all_of: Whole | None) -> dict[str, Any] | None:
    """Disagreement over rounds beside the bound of the ideal dynamics, and mean self-confidence tr(W)/N."""
    if len(rows) < 2:
        return None
    largest = run.metrics.groupby("round")["disagreement_all"].first()
    before, bound = (_start(run) or 0) - 1, None
    if all_of is not None and before in largest.index and run.sparse is None and len(run.names) <= MOST_AGENTS:
        values = largest[before] * np.r_[1.0, consensus.contraction_bound(run.trust)]
        bound = {"rounds": [before, *run.trust_rounds.tolist()], "values": _rounded(values)}
    own = run.trust[:, np.arange(len(rows)), rows].mean(axis=1) if len(run.trust) and all_of is None else np.zeros(0)
    own = own if all_of is None else all_of.confidence
    return {
        "rounds": largest.index.tolist(),
        "disagreement": _rounded(largest.to_numpy()),
        "bound": bound,
        "confidence": {"rounds": run.trust_rounds.tolist(), "values": _rounded(own)},
    }


def _influence(run: Run, numbers: list[int], all_of: Whole) -> dict[str, Any]:
    """Each agent's share in the product of all W, and in the first and the last W kept for ever."""
    return {
        "product": _rounded(all_of.influence[numbers]),
        "first": _rounded(all_of.first[numbers]),
        "last": _rounded(all_of.last[numbers]),
        "rounds": run.trust_rounds[[0, -1]].tolist(),
    }


def _classes(run: Run) -> dict[str, Any] | None:
    counts = [agent.class_counts for agent in run.summary.agents]
    if not any(counts):
        return None
    return {"names": run.summary.classes, "counts": counts}


def _sent(run: Run) -> dict[str, Any]:
    """Bytes that each agent sent, beside what sharing weights costs: up and down, 4 bytes a parameter, every round.

    At a site the total is that of its audit log.
    """
    total = run.metrics.groupby("agent")["bytes_sent"].sum().reindex(run.names)
    active = set(run.metrics.loc[run.metrics["bytes_sent"] > 0, "round"]) | set(run.trust_rounds.tolist())
    agents = run.summary.agents
    obstacle = _obstacle_to_weights(agents)
    cost = [] if obstacle else [2 * 4 * (agent.parameters or 0) * len(active) for agent in agents]
    sent = [None if np.isnan(number) else int(number) for number in total.astype(float)]
    logged = None if run.summary.sent is None else size(run.summary.sent)
    return {"bytes": sent, "rounds": len(active), "weights": cost, "obstacle": obstacle, "logged": logged}


def _total_sent(run: Run) -> dict[str, Any]:
    """What all agents sent together, and how many they are."""
    parameters = sum(agent.parameters or 0 for agent in run.summary.agents)
    active = set(run.metrics.loc[run.metrics["bytes_sent"] > 0, "round"]) | set(run.trust_rounds.tolist())
    return {
        "total": int(run.metrics["bytes_sent"].sum()),
        "senders": int(run.metrics["agent"].nunique()),
        "weights_total": 2 * 4 * parameters * len(active),
    }


def _obstacle_to_weights(agents: Sequence[AgentSummary]) -> str:
    """Why these agents could not share weights, and who is in the way; empty when they could."""
    if any(agent.model == "unknown" for agent in agents):
        return "What sharing weights would have cost is unknown: the models of peers elsewhere are not known here."
    kinds: dict[tuple[str, int | None], list[str]] = {}
    for agent in agents:
        kinds.setdefault((agent.model, agent.parameters), []).append(agent.name)
    if len(kinds) == 1 and agents[0].parameters is not None:
        return ""
    groups = []
    for (model, parameters), names in kinds.items():
        shown = ", ".join(names if len(names) <= 12 else [*names[:10], f"and {len(names) - 10} more"])
        what = "whose weights cannot be averaged" if parameters is None else f"{parameters:,} parameters"
        groups.append(f"agent{'s' if len(names) > 1 else ''} {shown}: {model}, {what}")
    return f"Sharing weights would not be possible with these models ({'; '.join(groups)})."


def _rounded(values: Any) -> Any:
    """`values` with four significant digits, as (lists of) floats; None for what is not finite."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim:
        return [_rounded(part) for part in array]
    return float(f"{array:.4g}") if np.isfinite(array) else None
