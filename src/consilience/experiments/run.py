"""One experiment: a method and its references on the same split, in one run folder."""

import tomllib
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from consilience.errors import ConsilienceError
from consilience.experiments.build import build_agents, build_scenario, describe
from consilience.experiments.settings import Settings, changed
from consilience.runtime.checkpoint import write_atomically
from consilience.runtime.exchange import InMemory
from consilience.runtime.history import Evaluation
from consilience.runtime.run import Run, carry_out, is_finished, load_run

if TYPE_CHECKING:
    from collections.abc import Iterator

OnProgress = Callable[[str, int, dict[str, float]], None]
"""Told the method, the round's number, and the means over agents of every measure."""


def run_experiment(settings: Settings, folder: Path, on_progress: OnProgress | None = None) -> Run:
    """Runs the references, then the method, into `folder`. What is already finished there is not run again."""
    _write_config(settings, folder)
    references = {name: run_method(settings, name, folder / name, on_progress) for name in settings.references}
    run = run_method(settings, settings.method, folder, on_progress)
    return replace(run, references=references)


def run_method(settings: Settings, method: str, folder: Path, on_progress: OnProgress | None = None) -> Run:
    """Runs one method into `folder`, going on from the last checkpoint there."""
    if is_finished(folder):
        return load_run(folder)
    _write_config(replace(settings, method=method), folder)
    with _threads(settings.threads):
        scenario = build_scenario(settings)
        agents = build_agents(settings, scenario)
        own = {name: (share.test_x, share.test_y) for name, share in scenario.shares.items()}
        return carry_out(
            agents,
            scenario.shared,
            InMemory(tuple(scenario.shares)),
            settings.algorithm(method),
            evaluation=Evaluation(scenario.shared_y, (scenario.target_x, scenario.target_y), own),
            facts=describe(settings, scenario, agents, method),
            folder=folder,
            on_round=(lambda number, means: on_progress(method, number, means)) if on_progress else None,
        )


def settings_of(folder: Path) -> Settings:
    """The settings a run folder was made with."""
    path = folder / "config.toml"
    if not path.is_file():
        raise ConsilienceError(f"{folder} holds no run (no config.toml). Give the folder of a run.")
    try:
        return changed(Settings(), tomllib.loads(path.read_text()), str(path))
    except tomllib.TOMLDecodeError as error:
        raise ConsilienceError(f"{path} is damaged: {error}. Restore it, or start a new run.") from error


def _write_config(settings: Settings, folder: Path) -> None:
    """Writes config.toml, or checks that the one that is there says the same."""
    path = folder / "config.toml"
    if path.is_file():
        before, now = asdict(settings_of(folder)), asdict(settings)
        differing = [f"{key} was {before[key]!r}, now {now[key]!r}" for key in now if now[key] != before[key]]
        if differing:
            raise ConsilienceError(
                f"{folder} was made with other settings: {'; '.join(differing)}. "
                "Resume it with the same settings, or choose another --out."
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, settings.to_toml().encode())


@contextmanager
def _threads(number: int) -> "Iterator[None]":
    """Every numerical library uses `number` threads, so that numbers do not depend on the machine's cores."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        with threadpool_limits(number):
            yield
    finally:
        torch.set_num_threads(before)
