"""The trade between privacy and accuracy: a table, a picture and what they say."""

from pathlib import Path

import numpy as np

from consilience.errors import ConsilienceError
from consilience.experiments.compare import Estimate
from consilience.experiments.trade import Line, Trade, best_rounds, summarise
from consilience.report.tables import Grid
from consilience.runtime.checkpoint import write_atomically

COLOURS = {"alone": "#999999", "together": "#0072B2"}


def trade_grid(found: Trade) -> Grid:
    """One row per budget and number of rounds."""
    best, several = best_rounds(found), found.table["rounds"].nunique() > 1
    rows = [
        (
            budget(line),
            f"{line.rounds}{' (best)' if several and best[line.epsilon].rounds == line.rounds else ''}",
            _interval(line.alone),
            _interval(line.together),
            _interval(line.gain, signed=True),
            "-" if np.isnan(line.spent) else f"{line.spent:.3f}",
        )
        for line in summarise(found)
    ]
    seeds = found.table["seed"].nunique()
    name = found.score.rpartition("_")[0].replace("_", " ")
    title = f"{name} on the target domain, mean over agents with good labels and {seeds} seeds; ± 95 % interval"
    return Grid(title, ("epsilon", "rounds", "alone", "together", "gain", "spent"), rows, words=1)


def sentences(found: Trade) -> list[str]:
    """The best number of rounds for each budget."""
    return [
        f"{'Without privacy' if not line.epsilon else f'At epsilon {line.epsilon:g}'} {line.rounds} rounds are best: "
        f"{line.together.mean:.3f} together, {line.alone.mean:.3f} alone."
        for line in best_rounds(found).values()
    ]


def write_trade(found: Trade, folder: Path) -> list[Path]:
    """Writes trade.csv, trade.md and, where matplotlib is installed, trade.svg; their paths."""
    grid = trade_grid(found)
    said = "\n".join(f"- {sentence}" for sentence in sentences(found))
    texts = {"trade.csv": found.table.to_csv(index=False), "trade.md": f"{grid.title}\n\n{grid.markdown()}\n{said}\n"}
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())
    written = [folder / name for name in texts]
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return written
    return [*written, draw_trade(found, folder / "trade.svg")]


def draw_trade(found: Trade, path: Path) -> Path:
    """Accuracy against epsilon at the best number of rounds, and against the number of rounds for every budget."""
    from io import BytesIO

    import matplotlib
    from matplotlib.figure import Figure

    name = found.score.rpartition("_")[0].replace("_", " ")
    lines = summarise(found)
    if not lines:
        raise ConsilienceError("there is nothing to draw.")
    several = len({line.rounds for line in lines}) > 1
    with matplotlib.rc_context({"font.size": 9, "svg.hashsalt": "consilience", "svg.fonttype": "none"}):
        figure = Figure(figsize=(7.2 if several else 4.0, 3.0), layout="constrained")
        axes = figure.subplots(1, 2 if several else 1, squeeze=False)[0]
        best = sorted(best_rounds(found).values(), key=lambda line: line.epsilon or np.inf)
        places = np.arange(len(best))
        for method, marker in (("alone", "s"), ("together", "o")):
            known: list[Estimate] = [getattr(line, method) for line in best]
            half = np.nan_to_num([one.half_width for one in known])
            axes[0].errorbar(
                places, [one.mean for one in known], half, marker=marker, capsize=3, color=COLOURS[method], label=method
            )
        axes[0].set_xticks(places, [budget(line) for line in best])
        axes[0].set_xlabel("epsilon" + (", at the best number of rounds" if several else ""))
        if several:
            shades = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, len(best)))
            for line, shade in zip(best, shades, strict=True):
                mine = sorted((one for one in lines if one.epsilon == line.epsilon), key=lambda one: one.rounds)
                half = np.nan_to_num([one.together.half_width for one in mine])
                numbers, means = [one.rounds for one in mine], [one.together.mean for one in mine]
                axes[1].errorbar(numbers, means, half, marker="o", capsize=3, color=shade, label=budget(line))
            axes[1].set_xlabel("rounds, together")
        for axis in axes:
            axis.set_ylabel(name)
            axis.grid(color="#DDDDDD", linewidth=0.6)
            axis.spines[["top", "right"]].set_visible(False)
            axis.legend(frameon=False, fontsize=8)
        image = BytesIO()
        figure.savefig(image, format=path.suffix.removeprefix("."), dpi=150, metadata={"Date": None})
    write_atomically(path, image.getvalue())
    return path


def budget(line: Line) -> str:
    """How a budget is called."""
    return f"{line.epsilon:g}" if line.epsilon else "none"


def _interval(value: Estimate, signed: bool = False) -> str:
    mean = f"{value.mean:+.3f}" if signed else f"{value.mean:.3f}"
    return mean if np.isnan(value.half_width) else f"{mean} ± {value.half_width:.3f}"
