"""The commands of a trained model: export, predict."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consilience.base.errors import ConsilienceError
from consilience.cli.common_options import DataDir, console, parsed_changes, set_data_dir
from consilience.cli.sites import SiteFile

if TYPE_CHECKING:
    from consilience.runtime.ensemble import Collective
    from consilience.tasks.protocol import Array

Samples = Annotated[Path, typer.Argument(metavar="FILE", help="Samples: csv, parquet, npz, npy, a folder of images.")]


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run, or a site's site.toml.")],
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="Where to write; must not hold anything yet.")],
    agent: Annotated[str, typer.Option("--agent", metavar="NAME", help="Whose model. A site has one only.")] = "",
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="plugins=FILE.py", help="A plugin, for a run that was made with one."),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Write a trained model into a folder that predicts by itself, without training data, keys or peers.

    Torch models become safetensors and ONNX, scikit-learn's skops, XGBoost's and LightGBM's their own format. The
    folder has a model card with class names, measured scores, versions and fingerprints of the training data.

    Examples:

      consilience export runs/digits-1 --agent 3 --to model

      consilience predict samples.npz --model model
    """
    with console.status("Exporting ..."):
        from consilience.settings.settings import load_plugins

        set_data_dir(data_dir)
        load_plugins(parsed_changes(changes, None))
        if run.is_file() or (run / "federation.toml").is_file():
            from consilience.federation.model import export_site

            export_site(run, agent, to)
        else:
            from consilience.experiments.load_agents import export_run
            from consilience.runtime.run import load_run

            if not agent:
                raise ConsilienceError(f"say whose model: --agent {' | '.join(load_run(run).names)}.")
            export_run(run, agent, to)
    console.print(f"Written: {to}. Its README.md says what the model is.", soft_wrap=True, highlight=False)


def predict(
    samples: Samples,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="FOLDER", help="A folder that `consilience export` wrote.")
    ] = None,
    site: SiteFile = Path("site.toml"),
    collective: Annotated[
        bool, typer.Option("--collective", help="Ask the peers who answer as well. They see these samples.")
    ] = False,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write.")] = Path("predictions.csv"),
    seconds: Annotated[float, typer.Option(min=0.1, help="With --model: how long it may take.")] = 600.0,
    memory: Annotated[
        float,
        typer.Option(min=0, help="With --model: GiB of memory it may have. Default: half the machine's, at least 8."),
    ] = 0.0,
) -> None:
    """Predict with an exported model, or with the model that this site's part in a federation has improved.

    A folder given with --model is read in a process of its own, with limits of time and memory: it may be somebody
    else's. A class name that a spreadsheet would take for a formula gets an apostrophe before it.

    With --collective the site sends the samples to its peers, who answer if they run `consilience answer`, and mixes
    all predictions by its trust. The columns part_NAME say how far each one counts.

    Examples:

      consilience predict new-patients.csv --model model

      consilience predict new-patients.csv --site site.toml --collective
    """
    with console.status("Predicting ..."):
        if model is not None:
            from consilience.export.isolated import predict_isolated

            if collective:
                raise ConsilienceError("a collective prediction needs a site and its peers: use --site, not --model.")
            f, manifest = predict_isolated(model, samples, seconds, memory)
            _write(f, manifest.names, out)
        elif collective:
            from consilience.federation.remote_prediction_client import ask_peers
            from consilience.federation.site import load_site

            prepared = load_site(site)
            answers = ask_peers(prepared, samples, lambda text: console.print(text, soft_wrap=True, highlight=False))
            _write(answers.predictions, prepared.federation.classes, out, answers)
        else:
            from consilience.federation.model import predict_site

            f, names = predict_site(site, samples)
            _write(f, names, out)
    console.print(f"Written: {out}", soft_wrap=True, highlight=False)


def _write(f: "Array", names: tuple[str, ...], out: Path, answers: "Collective | None" = None) -> None:
    import pandas as pd

    table = pd.DataFrame(f, columns=[_heading(name) for name in names])
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


def answer(
    site: SiteFile = Path("site.toml"),
) -> None:
    """Answer peers who ask for this site's predictions (`consilience predict --collective`).

    It runs until Ctrl-C, after `consilience agent` has finished. `answer_to` and `answer_rows` in site.toml say whom
    and how much. answered.jsonl in the run folder is the log of what left the site.
    """
    with console.status("Loading ..."):
        from consilience.federation.remote_prediction_server import answer_peers
        from consilience.federation.site import load_site

        prepared = load_site(site)
    name = prepared.site.agent
    try:
        answer_peers(
            prepared, lambda text: console.print(f"{name}: {text}", soft_wrap=True, highlight=False, markup=False)
        )
    except KeyboardInterrupt:
        console.print(f"{name}: stopped answering", highlight=False)
