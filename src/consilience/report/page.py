"""The report of a run: one self-contained page that opens offline.

Python prepares the numbers (`page_data`), `page.html` draws them.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.files import write_atomically
from consilience.report import html
from consilience.report.gains import PLACES, Gain, Measure, gains, mean_gain, measures, verdicts
from consilience.report.home import calibration_grid, home_grid, home_sentences, reliability_data
from consilience.report.large_runs import LargeRun, large_run, sentences, shown_agents, subset
from consilience.report.numbers import bounds, number, rounded, signed
from consilience.report.page_trust import (
    agreement,
    first_round,
    influence,
    received,
    sent,
    total_sent,
    trust_by_class,
    trust_matrices,
    trust_sentences,
)
from consilience.report.privacy import privacy_card
from consilience.report.tables import good_agents
from consilience.report.theory import brief, findings, low_quality
from consilience.runtime.run import Run
from consilience.tasks.protocol import Array

TEXTS = ("alone", "together", "gain", "interval")
"""Names of `Gain.texts`."""


def write_page(run: Run, path: Path) -> Path:
    """Writes the report of `run` to `path` and returns it."""
    before, after = html.template("page.html").split("__DATA__")
    text = safe_json(page_data(run) | {"audit": audit_of(path.parent)})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (before + text + after).encode())
    return path


def safe_json(data: Any) -> str:
    """As JSON that can stand within a script element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def audit_of(folder: Path) -> Any:
    """The results of an audit of the run in this folder, if there was one."""
    path = folder / "audit.json"
    try:
        content = json.loads(path.read_text()) if path.is_file() else None
        json.dumps(content, allow_nan=False)
    except (OSError, ValueError, RecursionError):
        return None
    expected = {"attacks", "bound", "claimed", "canaries"}
    return content if isinstance(content, dict) and expected <= content.keys() else None


def page_data(run: Run) -> dict[str, Any]:
    """Everything the page shows, ready for JSON: numbers rounded, None for what is unknown.

    What the run does not know is None or empty, and the page leaves its section out or says why.
    """
    whole, numbers, all_of = run, shown_agents(run), large_run(run)
    run = subset(run, numbers)
    rows, scores, known = _rows(run), [_measure(run, measure) for measure in measures(run)], run.summary
    square = len(run.trust) > 0 and len(rows) == len(run.names)
    site = run.names[rows[0]] if len(rows) == 1 else ""
    about_shown = sentences(whole, len(numbers)) if run is not whole else []
    return {
        "title": (f"{site}: " if site else "") + known.title + (f" on {known.dataset}" if known.dataset else ""),
        "site": site,
        "on_purpose": known.wrong_on_purpose,
        "verdicts": verdicts(whole) + home_sentences(whole) + about_shown,
        "home": _home(run),
        "facts": _facts(whole),
        "footer": ", ".join(f"{name} {number}" for name, number in known.versions.items()),
        "agents": _agents(run, rows, numbers, all_of if square else None),
        "start": first_round(run),
        "alone_note": _alone_note(run),
        "measures": scores,
        "headline": _headline(whole, site),
        "trust": trust_matrices(run, rows, all_of.received[:, numbers] if run is not whole else None),
        "trusted": trust_sentences(whole, rows, all_of.received if square else whole.trust[[0, -1]][:, 0])
        if len(whole.trust)
        else [],
        "by_class": trust_by_class(run, rows),
        "agreement": agreement(whole, rows, all_of if square else None),
        "influence": influence(run, numbers, all_of) if square else None,
        "notes": known.notes,
        "warnings": known.warnings,
        "incidents": known.incidents,
        "suspicions": known.suspicions,
        "privacy": privacy_card(run),
        "theory": {"brief": brief(whole), "findings": findings(whole)},
        "classes": _classes(run),
        "sent": sent(run) | total_sent(whole),
    }


def _home(run: Run) -> dict[str, Any] | None:
    """Which model to use where, and the reliability diagrams; None where the run keeps nothing to know it by."""
    if run.home is None:
        return None
    grids = [grid for grid in (home_grid(run), calibration_grid(run)) if grid is not None]
    tables = [{"title": grid.title, "heads": grid.headings, "rows": grid.rows} for grid in grids]
    return {"tables": tables, "reliability": reliability_data(run)}


def _rows(run: Run) -> list[int]:
    """Positions in the roster of the agents of this process: the rows of the trust matrices."""
    own = list(dict.fromkeys(run.metrics["agent"]))
    position = {name: number for number, name in enumerate(run.names)}
    unknown = [name for name in own if name not in position]
    shape = run.trust.shape[1:] if len(run.trust) else (len(own), len(run.names))
    if unknown or shape != (len(own), len(run.names)):
        raise ConsilienceError(
            f"the run's parts do not fit together: metrics of {len(own)} agents, a summary of {len(run.names)}, "
            f"trust matrices of {shape[0]} x {shape[1]}. The summary must list every agent of the exchange."
        )
    return [position[name] for name in own]


def _before(run: Run) -> list[int]:
    """Rounds before the first of collaboration. A site that joins late has fewer."""
    start = first_round(run)
    return sorted({int(number) for number in run.metrics["round"] if start is not None and number < start})


def _facts(run: Run) -> list[list[str]]:
    known, low, start, seconds = run.summary, len(low_quality(run)), first_round(run), run.summary.seconds
    attackers = sum(agent.attacker for agent in known.agents)
    attack = f", {attackers} of them attackers ({known.attack})" if attackers else ""
    warmup = "" if start is None else f", {len(_before(run))} of them warm-up"
    time = None if seconds is None else f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    facts: dict[str, Any] = {
        "method": known.title,
        "dataset": known.dataset or None,
        "agents": f"{len(run.names)}" + (f", {low} with shifted labels" if low else "") + attack,
        "rounds": f"{run.metrics['round'].max()}{warmup}",
        "shared data": known.shared_text,
        "seed": known.seed,
        "wall time": time,
    }
    return [[name, str(value)] for name, value in facts.items() if value is not None]


def _agents(run: Run, rows: list[int], numbers: list[int], all_of: LargeRun | None) -> list[dict[str, Any]]:
    """One entry per agent of the roster, or of those shown. Little is known about agents at other sites."""
    given = [received(w, rows) for w in run.trust[[0, -1]]] if len(run.trust) else []
    if all_of is not None:
        given = list(all_of.received[:, numbers])
    shares = None if all_of is None else all_of.influence[numbers]
    return [
        {
            "name": agent.name,
            "model": agent.model,
            "samples": agent.samples,
            "low": not agent.good,
            "mark": "attacker" if agent.attacker else "labels shifted" if agent.low_quality else "",
            "here": number in rows,
            "received": [rounded(column[number]) for column in given],
            "influence": None if shares is None else rounded(shares[number]),
        }
        for number, agent in enumerate(run.summary.agents)
    ]


def _measure(run: Run, measure: Measure) -> dict[str, Any]:
    """A score at a place: per agent and round, alone, together, gain (up is better); texts as tables have them."""
    known = gains(run, measure)
    nothing = Gain(*[float("nan")] * 5)
    every = [known.get(name, nothing) for name in run.names]
    if first_round(run) is None:  # everyone is alone
        every = [Gain(gain.together, *[float("nan")] * 4) for gain in every]
    others = {name: _curves(other, measure.column) for name, other in run.references.items()}
    return {
        "column": measure.column,
        "place": PLACES[measure.place],
        "score": measure.score.title,
        "lower_is_better": not measure.score.higher_is_better,
        **(_curves(run, measure.column) or {}),
        "others": {name: curves for name, curves in others.items() if curves is not None},
        **{key: rounded([getattr(gain, key) for gain in every]) for key in TEXTS[:3]},
        "verdict": [gain.verdict for gain in every],
        "texts": {key: [gain.texts[i] for gain in every] for i, key in enumerate(TEXTS)},
    }


def _curves(run: Run, column: str) -> dict[str, Any] | None:
    """Rounds, and the score of each agent of the roster in them; None if no agent has it."""
    series = _series(run, column)
    if series is None:
        return None
    scored = ~np.isnan(series).all(axis=0)
    rounds = np.unique(run.metrics["round"].to_numpy(dtype=int))
    return {"rounds": rounds[scored].tolist(), "series": rounded(series[:, scored])}


def _series(run: Run, column: str) -> Array | None:
    """(agents of the roster, rounds), NaN for agents at other sites; None if no agent has this score."""
    if column not in run.metrics.columns or run.metrics[column].isna().all():
        return None
    table = run.metrics.pivot(index="agent", columns="round", values=column)
    return table.reindex(run.names).to_numpy(dtype=np.float64)


def _alone_note(run: Run) -> str:
    start = first_round(run)
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
    good = [index for index, agent in enumerate(run.summary.agents) if agent.good]
    references = sorted(run.references.items(), key=lambda item: item[0] != "alone")
    methods = [(other.summary.title, _last(other, measure.column)) for _, other in [*references, ("", run)]]
    group = good_agents(run) if len(good) < len(run.names) else "all agents"
    title = measure.title.replace("each agent's", "its")
    gain = mean_gain(run, measure)
    means = {title: float(np.nanmean(values[good])) for title, values in methods if not np.isnan(values[good]).all()}
    top = (max if measure.score.higher_is_better else min)(means.values(), default=0.0)
    best = [title for title, mean in means.items() if number(mean) == number(top)] if len(means) > 1 else []
    return {
        "what": f"{site}: {title}" if site else f"Mean {title} over {group}",
        "entries": [
            {"method": title, "mean": _mean(values, good), "low": _mean(values, low), "best": title in best}
            for title, values in methods
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


def _classes(run: Run) -> dict[str, Any] | None:
    counts = [agent.class_counts if any(agent.class_counts) else [] for agent in run.summary.agents]
    if not any(counts):
        return None
    return {"names": run.summary.classes, "counts": counts}
