"""Fig. 3: how the classes are divided among the agents. It needs the data, but no runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from consilience.paper.artefact import Outcome, Runs, write_csv
from consilience.paper.figures import METHOD_COLOURS, STYLE, blank, save, style
from consilience.paper.scales import settings_for
from consilience.tasks.protocol import Array
from consilience.workers.job import Job


@final
@dataclass(frozen=True)
class ClassDistributions:
    """Samples of each class at each agent, for some datasets."""

    name: str
    title: str
    datasets: tuple[str, ...]
    expectation: str = ""

    def jobs(self, scale: str, seeds: Sequence[int], folder: Path) -> list[Job]:
        """None: agents are made, and none is trained."""
        return []

    def finish(self, runs: Runs, scale: str, seeds: Sequence[int], folder: Path) -> Outcome:
        """The counts for the first seed, as a CSV and as a figure."""
        import pandas as pd

        from consilience.settings.wiring import build_agents, build_scenario

        counts, names, rows = {}, {}, []
        for dataset in self.datasets:
            settings = settings_for(dataset, "regular", scale, seeds[0])
            scenario = build_scenario(settings)
            agents = build_agents(settings, scenario)
            width = len(scenario.classes)
            samples = [[*agent.class_counts, *[0] * (width - len(agent.class_counts))] for agent in agents]
            table = pd.DataFrame(samples, columns=list(scenario.classes))
            counts[dataset], names[dataset] = table.to_numpy(), scenario.classes
            rows.append(table.melt(ignore_index=False).assign(dataset=dataset))
        long = pd.concat(rows).reset_index(names="agent").rename(columns={"variable": "class", "value": "samples"})
        written = write_csv(long, folder / f"{self.name}.csv")
        return Outcome([], [written, *draw_bubbles(counts, names, folder / self.name)])


def draw_bubbles(
    counts: Mapping[str, Array], class_names: Mapping[str, Sequence[str]], stem: str | Path
) -> tuple[Path, Path]:
    """One panel per dataset, a bubble for every agent and class, its area proportional to its count.

    `counts` are samples (agents, classes) by dataset. `class_names` are by dataset as well; where a dataset has none,
    classes are numbered.
    """
    with style():
        figure = blank(4.4 * len(counts), 4.0)
        panels = figure.subplots(1, len(counts), squeeze=False)[0]
        for axes, (title, table) in zip(panels, counts.items(), strict=True):
            agents, classes = table.shape
            names = class_names.get(title) or [str(number) for number in range(classes)]
            largest = max(float(table.max()), 1.0)
            diameter = 72 * max(0.1, 0.9 * min(3.0 / agents, 2.9 / classes))
            area = diameter**2 / largest
            agent, label = np.nonzero(table)
            looks: dict[str, Any] = {"color": METHOD_COLOURS["paper"], "alpha": 0.7, "linewidths": 0}
            axes.scatter(agent, label, s=area * table[agent, label], **looks)
            for value in _legend_sizes(largest):
                axes.scatter([], [], s=area * value, label=f"{value:,}", **looks)
            apart = max(0.5, diameter / STYLE["legend.fontsize"] - 0.8)
            axes.legend(title="samples", loc="upper left", bbox_to_anchor=(1, 1), labelspacing=apart, borderpad=0.8)
            axes.set(title=title, xlabel="agent", ylabel="class", xlim=(-0.7, agents - 0.3), ylim=(classes - 0.3, -0.7))
            axes.set_xticks(range(agents))
            shown = range(0, classes, 1 if classes <= 20 else 10)
            axes.set_yticks(shown, [names[number] for number in shown])
            axes.grid(True)
        return save(figure, stem)


def _legend_sizes(largest: float) -> list[int]:
    """Two or three round numbers up to the largest count.

    >>> _legend_sizes(4321)
    [400, 2000, 4000]
    """
    unit = 10 ** int(np.log10(largest))
    top = int(largest / unit) * unit
    return sorted({max(1, top // 10), max(1, top // 2), top})


ARTEFACTS = (ClassDistributions("fig3", "Fig. 3: class distributions among agents", ("cifar10", "fed-isic2019")),)
