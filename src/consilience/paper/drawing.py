"""Figures of the paper from our runs: which function draws which artefact."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from consilience.paper import figures, table_figures, toy_figures
from consilience.paper.scales import DATASETS, settings_for
from consilience.paper.tables import Runs, marked_agents, trust_matrix

if TYPE_CHECKING:
    from consilience.paper.toys import Claim

_AXES = {
    "fig6-epochs": ("local epochs", "accuracy on the shared data"),
    "fig6-rounds": ("round", "accuracy on the shared data"),
    "lambda": ("lambda", "accuracy on the shared data"),
}


def draw(name: str, table: pd.DataFrame, runs: Runs, folder: Path) -> list[Path]:
    """Draws the artefact `name` into PNG and SVG files."""
    stem = folder / name
    if name == "fig4":
        matrices = {one.folder.parts[-3]: trust_matrix(run) for one, run in runs}
        marked = {one.folder.parts[-3]: marked_agents(run) for one, run in runs}
        return list(figures.draw_trust(matrices, marked, stem))
    if name == "fig5":
        return list(figures.draw_bars(table, stem))
    if name in _AXES:
        return list(figures.draw_lines(table, stem, *_AXES[name]))
    if name == "communication":
        return list(table_figures.draw_bytes(table, stem))
    if name == "theory":
        first = runs[0][0].settings.run.seed
        titles = {f"{one.folder.parts[-3]}, {one.method}": run for one, run in runs if one.settings.run.seed == first}
        return list(table_figures.draw_theory({title: run.trust for title, run in titles.items()}, stem))
    return list(table_figures.draw_table(table, stem))


def draw_class_distributions(scale: str, seed: int, folder: Path) -> list[Path]:
    """Fig. 3: classes among agents for CIFAR-10 and Fed-ISIC2019, with a CSV of the counts beside it."""
    from consilience.settings.wiring import build_agents, build_scenario

    counts, names, rows = {}, {}, []
    for dataset in (DATASETS[0], DATASETS[2]):
        settings = settings_for(dataset, "regular", scale, seed)
        scenario = build_scenario(settings)
        agents = build_agents(settings, scenario)
        table = pd.DataFrame([agent.class_counts for agent in agents]).fillna(0).astype(int)
        table = table.reindex(columns=range(len(scenario.classes)), fill_value=0)
        counts[dataset], names[dataset] = table.to_numpy(), scenario.classes
        rows.append(table.set_axis(list(scenario.classes), axis=1).melt(ignore_index=False).assign(dataset=dataset))
    folder.mkdir(parents=True, exist_ok=True)
    long = pd.concat(rows).reset_index(names="agent").rename(columns={"variable": "class", "value": "samples"})
    long.to_csv(folder / "fig3.csv", index=False)
    return [folder / "fig3.csv", *figures.draw_bubbles(counts, names, folder / "fig3")]


def draw_toy(name: str, seed: int, folder: Path) -> tuple[list["Claim"], list[Path]]:
    """Computes and draws fig1, figA1 or fig2: the paper's claims with what we measured, and the files written."""
    from consilience.paper import toys

    folder.mkdir(parents=True, exist_ok=True)
    if name == "fig1":
        first = toys.fig1(seed)
        claims, paths = first.claims, toy_figures.draw_fig1(first, folder / name)
    elif name == "figA1":
        weak = toys.figA1(seed)
        claims, paths = weak.claims, toy_figures.draw_figA1(weak, folder / name)
    else:
        flipped = toys.fig2(seed)
        claims, paths = flipped.claims, toy_figures.draw_fig2(flipped, folder / name)
    table = pd.DataFrame([(c.name, c.expectation, c.holds, c.measured) for c in claims])
    table.columns = pd.Index(["claim", "expectation", "holds", "measured"])
    table.to_csv(folder / f"{name}.csv", index=False)
    return claims, [folder / f"{name}.csv", *paths]
