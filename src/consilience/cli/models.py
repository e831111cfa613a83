"""The commands of a trained model: export, predict."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consilience.base.errors import ConsilienceError
from consilience.cli.common_options import DataDir, console, parsed_changes, set_data_dir

if TYPE_CHECKING:
    from consilience.agents.calibration import Calibration
    from consilience.runtime.ensemble import Collective
    from consilience.tasks.protocol import Array

Samples = Annotated[Path, typer.Argument(metavar="FILE", help="Samples: csv, parquet, npz, npy, a folder of images.")]
For = Annotated[
    str,
    typer.Option(
        "--for", metavar="home|target|alone|together", help="Which model: for the agent's own domain, or elsewhere."
    ),
]
Sets = Annotated[
    float, typer.Option("--sets", metavar="0.9", help="Also sets of classes that hold the truth with this probability.")
]
PredictionsFile = Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write.")]


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run, or a site's site.toml.")],
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="Where to write; must not hold anything yet.")],
    agent: Annotated[str, typer.Option("--agent", metavar="NAME", help="Whose model. A site has one only.")] = "",
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="plugins=FILE.py", help="A plugin, for a run that was made with one."),
    ] = None,
    at: For = "",
    data_dir: DataDir = None,
) -> None:
    """Write a trained model into a folder that predicts by itself, without training data, keys or peers.

    Torch models become safetensors and ONNX, scikit-learn's skops, XGBoost's and LightGBM's their own format. The
    folder has a model card with class names, measured scores, versions and fingerprints of the training data. It holds
    the model trained alone as well, where there is one: --for says which model predicts unless another is asked for.

    Examples:

      consilience export runs/digits-1 --agent 3 --to model

      consilience predict samples.npz --model model
    """
    with console.status("Exporting ..."):
        from consilience.report.home import advice
        from consilience.settings.settings import load_plugins

        set_data_dir(data_dir)
        load_plugins(parsed_changes(changes, None))
        if run.is_file() or (run / "federation.toml").is_file():
            from consilience.federation.model import export_site

            export_site(run, agent, to, at, advice)
        else:
            from consilience.experiments.run import export_run
            from consilience.runtime.run import load_run

            if not agent:
                raise ConsilienceError(f"say whose model: --agent {' | '.join(load_run(run).names)}.")
            export_run(run, agent, to, at, advice)
    console.print(f"Written: {to}. Its README.md says what the model is.", soft_wrap=True, highlight=False)


def predict(
    samples: Samples,
    model: Annotated[Path, typer.Option("--model", metavar="FOLDER", help="A folder that `consilience export` wrote.")],
    out: PredictionsFile = Path("predictions.csv"),
    at: For = "",
    sets: Sets = 0.0,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long it may take.")] = 600.0,
    memory: Annotated[
        float,
        typer.Option(min=0, help="GiB of memory it may have. Default: half the machine's, at least 8."),
    ] = 0.0,
) -> None:
    """Predict with an exported model. A site's own model predicts with `consilience site predict`.

    The folder is read in a process of its own, with limits of time and memory: it may be somebody else's. A class name
    that a spreadsheet would take for a formula gets an apostrophe before it.

    Example:

      consilience predict new-patients.csv --model model

      consilience predict new-patients.csv --model model --for home --sets 0.9
    """
    with console.status("Predicting ..."):
        from consilience.agents.calibration import calibration_from
        from consilience.export.isolated import predict_isolated
        from consilience.tasks import task_named

        f, manifest = predict_isolated(model, samples, seconds, memory, at)
        table, task = manifest.calibration, task_named(manifest.task)
        calibration = calibration_from(table, task, manifest.outputs) if table else None
        chosen = sets_for(calibration, f, at or manifest.at, sets)
        write_predictions(f, manifest.names, out, sets=chosen)
    console.print(f"Written: {out}", soft_wrap=True, highlight=False)


def sets_for(calibration: "Calibration | None", f: "Array", at: str, coverage: float) -> "Array | None":
    """Prediction sets with this coverage; none if it is 0."""
    from consilience.agents.calibrated import sets_of

    return sets_of(calibration, f, at, coverage) if coverage else None


def write_predictions(
    f: "Array",
    names: tuple[str, ...],
    out: Path,
    answers: "Collective | None" = None,
    sets: "Array | None" = None,
) -> None:
    """Writes one column of probabilities for each name, and the part of each agent in a collective prediction.

    Prediction sets are a column `set` of class names with semicolons between, intervals two columns for each value.
    """
    import pandas as pd

    table = pd.DataFrame(f, columns=[_heading(name) for name in names])
    if sets is not None and sets.ndim == 2:
        table["set"] = ["; ".join(_heading(names[c]) for c in row.nonzero()[0]) for row in sets]
    elif sets is not None:
        for column, name in enumerate(names):
            table[f"low_{name}"], table[f"high_{name}"] = sets[:, column, 0], sets[:, column, 1]
    if answers is not None:
        for column, name in enumerate(answers.names):
            table[f"part_{name}"] = answers.parts[:, column]
    table.to_csv(out, index=False)


def _heading(name: str) -> str:
    """A class name as a column's heading: one that a spreadsheet would take for a formula gets an apostrophe.

    >>> _heading("=1+1"), _heading("-1"), _heading("cat")
    ("'=1+1", '-1', 'cat')
    """
    if not name.startswith(("=", "+", "-", "@", "\t", "\r")):
        return name
    try:
        float(name)
    except ValueError:
        return f"'{name}"
    return name
