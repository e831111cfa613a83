"""Pictures of what the paper gives as tables or text: Table 1, bytes per round, and the theory on recorded matrices."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from consilience.core.consensus import contraction_bound, products, row_difference, self_confidence
from consilience.paper.figures import METHOD_COLOURS, blank, save, style
from consilience.report.tables import method_title
from consilience.tasks.protocol import Array

if TYPE_CHECKING:
    import pandas as pd


def draw_table(table: "pd.DataFrame", stem: Path) -> tuple[Path, Path]:
    """Table 1: one panel for regular and one for low-quality labels; our score with its interval, and the printed one.

    `table` has the columns labels, method, ours, half_width and paper.
    """
    with style():
        labels = list(dict.fromkeys(table["labels"]))
        figure = blank(3.6 * len(labels), 2.9)
        panels = figure.subplots(1, len(labels), squeeze=False, sharex=True, sharey=True)[0]
        for axes, kind in zip(panels, labels, strict=True):
            part = table[table["labels"] == kind]
            places = np.arange(len(part))[::-1]
            colours = [METHOD_COLOURS.get(method, "black") for method in part["method"]]
            half = np.nan_to_num(part["half_width"].to_numpy(float))
            axes.barh(places, part["ours"], 0.6, color=colours, xerr=half if half.any() else None, capsize=3)
            axes.scatter(part["paper"], places, marker="|", s=140, color="black", label="printed in the paper")
            axes.set_yticks(places, [method_title(method) for method in part["method"]])
            axes.set(title=f"{kind} labels", xlabel="score on the shared data")
            axes.grid(True, axis="x")
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center")
        return save(figure, stem)


def draw_bytes(table: "pd.DataFrame", stem: Path) -> tuple[Path, Path]:
    """Bytes that all agents send in a round, by method: measured, and by the formula."""
    with style():
        once = table.drop_duplicates("method")
        figure = blank(5.6, 2.8)
        axes = figure.subplots()
        places = np.arange(len(once))[::-1]
        colours = [METHOD_COLOURS.get(method, "black") for method in once["method"]]
        axes.barh(places, once["bytes_per_round"] / 1e6, 0.6, color=colours)
        axes.scatter(once["formula_bytes"] / 1e6, places, marker="|", s=140, color="black", label="formula")
        axes.set_yticks(places, [method_title(method) for method in once["method"]])
        axes.set_xlabel("megabytes of all agents in a round")
        axes.grid(True, axis="x")
        figure.legend(loc="outside lower center")
        return save(figure, stem)


def draw_theory(trust: Mapping[str, Array], stem: Path) -> tuple[Path, Path]:
    """Trust matrices (rounds, agents, agents) by run: self-confidence, and how much rows of their product differ."""
    with style():
        figure = blank(8.4, 3.2)
        left, right = figure.subplots(1, 2)
        for (name, w), colour in zip(trust.items(), METHOD_COLOURS.values(), strict=False):
            rounds = np.arange(1, len(w) + 1)
            left.plot(rounds, self_confidence(w), marker="o", markersize=3, color=colour, label=name)
            differences = [row_difference(one) for one in products(w)]
            right.semilogy(rounds, np.maximum(differences, 1e-17), marker="o", markersize=3, color=colour)
            right.semilogy(rounds, np.maximum(contraction_bound(w), 1e-17), linestyle=":", color=colour)
        left.set(xlabel="round of collaboration", ylabel="trace of W", title="self-confidence (Claim 2: never rises)")
        right.set(xlabel="round of collaboration", title="largest difference of rows of W(t)...W(1); dotted: bound")
        for axes in (left, right):
            axes.grid(True)
        figure.legend(loc="outside lower center", ncols=2)
        return save(figure, stem)
