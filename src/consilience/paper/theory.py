"""The theorem, the claims and the propositions of the paper on recorded trust matrices."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from consilience.core.consensus import (
    contraction_bound,
    is_stochastic,
    lower_importance,
    products,
    row_difference,
    self_confidence,
)
from consilience.paper.artefact import FromRuns, Runs, marked_agents, needs, verdict
from consilience.paper.figures import METHOD_COLOURS, blank, save, style
from consilience.paper.scales import experiment
from consilience.tasks.protocol import Array

if TYPE_CHECKING:
    import pandas as pd


def tabulate(runs: Runs) -> "pd.DataFrame":
    """One row per run: in how many rounds each claim holds, and both sides of the lemma."""
    import pandas as pd

    rows = []
    for job, run in runs:
        trace = self_confidence(run.trust)
        low = marked_agents(run)
        bound = contraction_bound(run.trust)[-1]
        rows.append(
            {
                "experiment": experiment(job),
                "method": job.method,
                "rounds": len(run.trust),
                "stochastic": sum(is_stochastic(w) for w in run.trust),
                "trace_falls": int((np.diff(trace) <= 1e-9).sum()),
                "trace_first": float(trace[0]),
                "trace_last": float(trace[-1]),
                "delta": row_difference(products(run.trust)[-1]),
                "bound": float(bound),
                "proposition": int(lower_importance(run.trust, low).holds.sum()) if low else -1,
            }
        )
    return pd.DataFrame(rows)


def check(table: "pd.DataFrame") -> list[str]:
    """What holds in each run, and in how many rounds."""
    sentences = []
    for row in table.to_dict("records"):
        where, rounds = f"{row['experiment']}, {row['method']}", row["rounds"]
        sentences.append(f"{where}: W is row-stochastic and positive in {row['stochastic']} of {rounds} rounds.")
        fell = f"self-confidence fell in {row['trace_falls']} of {rounds - 1} rounds"
        sentences.append(f"{where}: {fell}, from {row['trace_first']:.2f} to {row['trace_last']:.2f}.")
        holds = verdict(row["delta"] <= row["bound"] * (1 + 1e-9))
        sentences.append(f"{where}: the bound of the lemma {holds} ({row['delta']:.1e} against {row['bound']:.1e}).")
        if row["proposition"] >= 0:
            kept = f"{row['proposition']} of {rounds} rounds"
            sentences.append(f"{where}: the conditions of the proposition on low-quality agents hold in {kept}.")
    return sentences


def draw(table: "pd.DataFrame", runs: Runs, stem: Path) -> tuple[Path, Path]:
    """The runs of the first seed."""
    first = runs[0][0].settings.run.seed
    chosen = [(job, run) for job, run in runs if job.settings.run.seed == first]
    return draw_theory({f"{experiment(job)}, {job.method}": run.trust for job, run in chosen}, stem)


def draw_theory(trust: Mapping[str, Array], stem: str | Path) -> tuple[Path, Path]:
    """Trust matrices (rounds, agents, agents) by title: self-confidence, and how much rows of their product differ."""
    with style():
        figure = blank(8.4, 3.2)
        left, right = figure.subplots(1, 2)
        for (name, w), colour in zip(trust.items(), METHOD_COLOURS.values(), strict=False):
            rounds = np.arange(1, len(w) + 1)
            left.plot(rounds, self_confidence(w), marker="o", markersize=3, color=colour, label=name)
            differences = [row_difference(product) for product in products(w)]
            right.semilogy(rounds, np.maximum(differences, 1e-17), marker="o", markersize=3, color=colour)
            right.semilogy(rounds, np.maximum(contraction_bound(w), 1e-17), linestyle=":", color=colour)
        left.set(xlabel="round of collaboration", ylabel="trace of W", title="self-confidence (Claim 2: never rises)")
        right.set(xlabel="round of collaboration", title="largest difference of rows of W(t)...W(1); dotted: bound")
        for axes in (left, right):
            axes.grid(True)
        figure.legend(loc="outside lower center", ncols=2)
        return save(figure, stem)


ARTEFACTS = (
    FromRuns(
        "theory",
        "Theorem 1, Claim 2, the lemma and the propositions on recorded trust matrices",
        "W is row-stochastic and positive and the bound of the lemma holds in every run; self-confidence never rises.",
        needs(["cifar10"], ["regular", "low-quality"], ("static", "paper")),
        tabulate,
        check,
        draw,
    ),
)
