"""Section 5.2: how many bytes all agents send and receive in a round, by method."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from consilience.methods import method_named
from consilience.paper.artefact import FromRuns, Runs, needs, verdict
from consilience.paper.figures import METHOD_COLOURS, blank, save, style
from consilience.paper.scales import CONSENSUS, METHODS

if TYPE_CHECKING:
    import pandas as pd


def tabulate(runs: Runs) -> "pd.DataFrame":
    """Bytes that all agents send and receive in a round, measured, beside the formula of section 5.2."""
    import pandas as pd

    rows = []
    for job, run in runs:
        sent = run.metrics.groupby("round")["bytes_sent"].sum()
        measured = int(sent[sent > 0].iloc[-1]) if (sent > 0).any() else 0
        agents, shared = len(run.names), run.summary.shared_samples
        classes, parameters = len(run.summary.classes), run.summary.agents[0].parameters or 0
        if job.method in CONSENSUS:
            formula, value = "4 N (N-1) n* C", 4 * agents * (agents - 1) * shared * classes
        else:
            twice = 2 if job.method == "scaffold" else 1
            formula, value = f"{4 * 2 * twice} N |params|", 4 * 2 * twice * agents * parameters
        if job.method == "alone":
            formula, value = "0", 0
        rows.append((job.settings.data.dataset, job.method, measured, formula, value))
    return pd.DataFrame(rows, columns=["dataset", "method", "bytes_per_round", "formula", "formula_bytes"])


def check(table: "pd.DataFrame") -> list[str]:
    """Both kinds of methods against their formulas, and against each other."""
    measured = table["bytes_per_round"]
    consensus = table["method"].isin(CONSENSUS)
    sentences = []
    for kind, chosen in (("Consensus", consensus), ("Server methods", ~consensus)):
        off = int((measured - table["formula_bytes"])[chosen].abs().max())
        sentences.append(f"{kind}: measured bytes equal the formula: {verdict(off == 0)} (at most {off:,} off).")
    most, least = int(measured[consensus].max()), int(measured[~consensus].min())
    against = f"{most:,} against {least:,}"
    sentences.append(f"Consensus sends less than every server method: {verdict(most < least)} ({against}).")
    return sentences


def draw(table: "pd.DataFrame", runs: Runs, stem: Path) -> tuple[Path, Path]:
    """A bar per method for what was measured, and a mark for the formula."""
    with style():
        once = table.drop_duplicates("method")
        figure = blank(5.6, 2.8)
        axes = figure.subplots()
        places = np.arange(len(once))[::-1]
        colours = [METHOD_COLOURS.get(method, "black") for method in once["method"]]
        axes.barh(places, once["bytes_per_round"] / 1e6, 0.6, color=colours)
        axes.scatter(once["formula_bytes"] / 1e6, places, marker="|", s=140, color="black", label="formula")
        axes.set_yticks(places, [method_named(method).title for method in once["method"]])
        axes.set_xlabel("megabytes of all agents in a round")
        axes.grid(True, axis="x")
        figure.legend(loc="outside lower center")
        return save(figure, stem)


ARTEFACTS = (
    FromRuns(
        "communication",
        "Section 5.2: bytes per round",
        "Measured bytes equal the formula; consensus sends less than the server methods.",
        needs(["cifar10"], ["regular"], METHODS),
        tabulate,
        check,
        draw,
    ),
)
