"""The command that measures collective prediction."""

from typing import TYPE_CHECKING, Annotated

import typer

from consilience.cli.common_options import (
    Changes,
    DataDir,
    EqualCompute,
    Out,
    Overwrite,
    Resume,
    Source,
    Workers,
    chosen_settings,
    console,
    run_folder,
    run_with_progress,
    same_command,
    set_data_dir,
)

if TYPE_CHECKING:
    from consilience.experiments.ensemble import CollectiveLine
    from consilience.runtime.callbacks import Callback


def ensemble(
    source: Source = None,
    methods: Annotated[str, typer.Option(help="Methods, as for compare; fedavg is there to compare with.")] = "paper",
    seeds: Annotated[str, typer.Option(help="Numbers and ranges, such as 0-4 or 1,3,5.")] = "0-4",
    equal_compute: EqualCompute = False,
    changes: Changes = None,
    out: Out = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    workers: Workers = 0,
    data_dir: DataDir = None,
) -> None:
    """Measure collective prediction: the agents together, compared with the mean agent and the best one.

    Prints scores on the target domain over seeds, with paired 95 % intervals, and writes ensemble.md. The folder is
    that of a comparison. With FedAvg and the like all agents hold one model, whose prediction it is.

    Example:

      consilience ensemble digits-mlp --methods paper,fedavg --seeds 0-4
    """
    with console.status("Loading ..."):
        from consilience.cli.runs import split_names
        from consilience.experiments.axes import parse_seeds
        from consilience.experiments.ensemble import measure_collective
        from consilience.report.tables import collective_grid
        from consilience.settings.presets import run_name

    set_data_dir(data_dir)
    settings, chosen, numbers = chosen_settings(source, changes, None), split_names(methods), parse_seeds(seeds)
    folder = run_folder(f"ensemble-{run_name(source or '', settings.data.dataset)}", out, resume, overwrite)

    def work(callbacks: "list[Callback]") -> "tuple[str, list[CollectiveLine]]":
        return measure_collective(settings, chosen, numbers, folder, workers, callbacks, equal_compute)

    runs = len(chosen) * len(numbers)
    score, lines = run_with_progress(work, settings.run.rounds, runs, [], same_command(folder))
    table = collective_grid(lines, score, len(numbers))
    (folder / "ensemble.md").write_text(f"{table.title}\n\n{table.markdown()}")
    console.print(table)
    console.print(f"Written: {folder}/ensemble.md", soft_wrap=True, highlight=False)
