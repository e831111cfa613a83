"""What privacy costs: accuracy against epsilon, alone and together, for several numbers of rounds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from consilience.errors import ConsilienceError
from consilience.experiments.compare import Estimate, estimate
from consilience.runtime.callbacks import Callback
from consilience.settings.presets import write_config
from consilience.settings.settings import Settings, changed
from consilience.workers.job import Job
from consilience.workers.jobs import run_jobs

if TYPE_CHECKING:
    import pandas as pd

ALONE = "alone"


@dataclass(frozen=True)
class Line:
    """One budget and one number of rounds. Differences are paired: seed by seed on the same split and first models."""

    epsilon: float
    """The budget; 0 for agents that promise nothing."""
    rounds: int
    alone: Estimate
    together: Estimate
    """Mean over the agents with good labels."""
    gain: Estimate
    spent: float
    """The most that an agent spent in a run, of record; NaN for agents that promise nothing."""


@dataclass(frozen=True)
class Trade:
    """What the runs gave."""

    table: "pd.DataFrame"
    """One row per epsilon, number of rounds, seed and method: score, spent."""
    score: str
    """The column of the metrics that was measured."""
    higher_is_better: bool
    title: str
    """How the method is called in text."""


def plan(
    settings: Settings, epsilons: Sequence[float], rounds: Sequence[int], seeds: Sequence[int], folder: Path
) -> list[Job]:
    """All runs, the method of the settings beside agents alone, into folders named by budget, rounds and seed."""
    if not epsilons or not rounds or not seeds:
        raise ConsilienceError("name at least one epsilon, one number of rounds and one seed.")
    settings = replace(settings, run=replace(settings.run, references=()))
    label, jobs = settings.method.label, []
    if label == ALONE:
        raise ConsilienceError("the method is alone; name another one, to compare with it.")
    for epsilon in epsilons:
        for number in rounds:
            for seed in seeds:
                changes = {"agents.privacy.epsilon": float(epsilon), "run.rounds": number, "run.seed": seed}
                one = changed(settings, changes)
                home = folder / f"epsilon-{epsilon:g}" / f"rounds-{number}" / f"seed-{seed}"
                what = f"epsilon {epsilon:g}, {number} rounds, seed {seed}"
                jobs.append(Job(one, home / label, label, label=f"{label}, {what}"))
                jobs.append(Job(one.with_method(ALONE), home / ALONE, ALONE, label=f"{ALONE}, {what}"))
    return jobs


def trade(
    settings: Settings,
    epsilons: Sequence[float],
    rounds: Sequence[int],
    seeds: Sequence[int],
    folder: Path,
    workers: int = 0,
    callbacks: Sequence[Callback] = (),
) -> Trade:
    """Runs everything into `folder`; what is finished there is not run again."""
    import pandas as pd

    jobs = plan(settings, epsilons, rounds, seeds, folder)
    write_config(settings, folder)
    rows = []
    runs = run_jobs(jobs, workers, callbacks)
    score = runs[0].summary.scores[0]
    column = f"{score.name}_target"
    for job, run in zip(jobs, runs, strict=True):
        last = run.last_round()
        good = last[~(last["low_quality"] | last["attacker"])]
        spent = [agent.privacy.get("epsilon") for agent in run.summary.agents if agent.privacy]
        rows.append(
            {
                "epsilon": job.settings.agents.privacy.epsilon,
                "rounds": job.settings.run.rounds,
                "seed": job.settings.run.seed,
                "method": ALONE if job.settings.method.label == ALONE else "together",
                "score": float(good[column].mean()),
                "spent": max((float("inf") if one is None else one for one in spent), default=float("nan")),
            }
        )
    return Trade(pd.DataFrame(rows), column, score.higher_is_better, settings.method.title)


def summarise(found: Trade) -> list[Line]:
    """One line per budget and number of rounds, in the order of the runs."""
    lines = []
    sign = 1 if found.higher_is_better else -1
    table = found.table
    for epsilon, rounds in dict.fromkeys(zip(table["epsilon"].tolist(), table["rounds"].tolist(), strict=True)):
        part = table[(table["epsilon"] == epsilon) & (table["rounds"] == rounds)]
        by_seed = part.pivot(index="seed", columns="method", values="score")
        alone, together = by_seed[ALONE].to_numpy(), by_seed["together"].to_numpy()
        estimates = estimate(alone), estimate(together), estimate(sign * (together - alone))
        lines.append(Line(epsilon, rounds, *estimates, float(part["spent"].max())))
    return lines


def best_rounds(found: Trade) -> dict[float, Line]:
    """By epsilon: the line with the number of rounds at which the agents together are best."""
    sign = 1 if found.higher_is_better else -1
    best: dict[float, Line] = {}
    for line in summarise(found):
        known = best.get(line.epsilon)
        if known is None or sign * line.together.mean > sign * known.together.mean:
            best[line.epsilon] = line
    return best
