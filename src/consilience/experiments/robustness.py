"""Robustness to attackers: accuracy of honest agents against the number of attackers, per attack and trust rule."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consilience.base import toml
from consilience.base.errors import ConsilienceError
from consilience.core.attacks import Attack, Targeted, attack_name, attack_named, none
from consilience.experiments.compare import Estimate, estimate
from consilience.methods.consensus import Consensus
from consilience.runtime.callbacks import Callback
from consilience.runtime.run import Run
from consilience.settings.presets import write_config
from consilience.settings.settings import Settings, changed
from consilience.settings.wiring import ATTACKED_CLASS
from consilience.workers.job import Job
from consilience.workers.jobs import run_jobs

if TYPE_CHECKING:
    import pandas as pd

NOBODY = "nobody"
"""The name of the attack where there are no attackers."""
CLEAR = 0.01
"""Smallest difference that counts as clear with a single seed, which has no interval."""


@dataclass(frozen=True)
class RobustnessLine:
    """One rule under one attack by a number of attackers. Differences are paired by seed, on the same agents."""

    rule: str
    attack: str
    attackers: int
    score: Estimate
    """Mean over the honest agents with good labels."""
    worst: float
    """Score of the worst seed."""
    gain: Estimate
    """Gain over the same agents alone."""
    lost: Estimate
    """Share of the gain without attackers that is lost: 0 nothing, 1 all."""
    attacked_class: Estimate | None
    """Accuracy on the class that a targeted attack changes."""


@dataclass(frozen=True)
class Robustness:
    """Results of the runs."""

    table: "pd.DataFrame"
    """One row per rule, attack, number of attackers and seed: score, alone, attacked_class."""
    score: str
    """The column of the metrics that was measured."""
    agents: int
    higher_is_better: bool = True

    @property
    def rules(self) -> list[str]:
        """In the order of the request."""
        return list(dict.fromkeys(self.table["rule"]))

    @property
    def attacks(self) -> list[str]:
        """In the order of the request."""
        return [name for name in dict.fromkeys(self.table["attack"]) if name != NOBODY]

    @property
    def counts(self) -> list[int]:
        """Numbers of attackers, without zero."""
        return sorted({int(count) for count in self.table["attackers"]} - {0})

    @property
    def seeds(self) -> list[int]:
        """In the order of the request."""
        return list(dict.fromkeys(self.table["seed"]))


def plan(
    settings: Settings, attacks: Sequence[str], rules: Sequence[str], counts: Sequence[int], seeds: Sequence[int]
) -> list[tuple[Job, dict[str, Any]]]:
    """The runs, with folders relative to the whole folder, and the rule, attack, attackers and seed of each.

    The last agents with good labels are the attackers. Runs without attackers, and of everyone alone, are common to
    all attacks; they measure the class that a targeted attack is about, too.
    """
    chosen = {name: attack_named(name) for name in attacks}
    _check(settings, chosen, rules, counts, seeds)
    settings = replace(settings, run=replace(settings.run, references=()))
    about: Attack = next((how for how in chosen.values() if isinstance(how, Targeted)), Targeted())
    planned: list[tuple[Job, dict[str, Any]]] = []

    def add(method: Settings, rule: str, attack: str, how: Attack, count: int, seed: int) -> None:
        data = replace(method.data, attack=how, attackers=_last(settings, count))
        name = f"{attack}-{count}" if count else attack + attack_name(about).removeprefix("targeted")
        folder = Path(f"seed-{seed}") / (rule or "alone") / name
        what = f"{rule or 'alone'}, {attack} {count}"
        job = Job(replace(method, data=data).with_seed(seed), folder, what, label=f"{what}, seed {seed}")
        planned.append((job, {"rule": rule, "attack": attack, "attackers": count, "seed": seed}))

    ruled = {rule: _with_rule(settings, rule) for rule in rules}
    for seed in seeds:
        add(settings.with_method("alone"), "", NOBODY, about, 0, seed)
        for rule, method in ruled.items():
            add(method, rule, NOBODY, about, 0, seed)
            for attack, how in chosen.items():
                for count in sorted(set(counts) - {0}):
                    add(method, rule, attack, how, count, seed)
    return planned


def robustness(
    settings: Settings,
    attacks: Sequence[str],
    rules: Sequence[str],
    counts: Sequence[int],
    seeds: Sequence[int],
    folder: Path,
    workers: int = 0,
    callbacks: Sequence[Callback] = (),
) -> Robustness:
    """Runs every rule under every attack with every number of attackers and every seed into `folder`.

    What is finished there is not run again; a folder that was made with other settings is refused.
    Scores are those of the last round on the target domain, means over the honest agents with good labels.
    """
    import pandas as pd

    planned = plan(settings, attacks, rules, counts, seeds)
    write_config(settings, folder)
    runs = run_jobs([replace(job, folder=folder / job.folder) for job, _ in planned], workers, callbacks)
    first = runs[0].summary.scores[0]
    score = f"{first.name}_target"
    alone = {facts["seed"]: run for (_, facts), run in zip(planned, runs, strict=True) if not facts["rule"]}
    rows = []
    for (_, facts), run in zip(planned, runs, strict=True):
        if facts["rule"]:
            good = [agent.name for agent in run.summary.agents if agent.good]
            row = {"score": _mean(run, score, good), "alone": _mean(alone[facts["seed"]], score, good)}
            row |= {"attacked_class": _mean(run, f"{ATTACKED_CLASS}_target", good)}
            rows.append(facts | row | {"seconds": run.summary.seconds})
    return Robustness(pd.DataFrame(rows), score, settings.agents.count, first.higher_is_better)


def summarise(results: Robustness) -> list[RobustnessLine]:
    """One line per rule, attack and number of attackers, in that order; those without attackers first."""
    lines, sign = [], 1 if results.higher_is_better else -1
    for _, rows in results.table.groupby(["rule", "attack", "attackers"], sort=False):
        rule, attack = str(rows["rule"].iloc[0]), str(rows["attack"].iloc[0])
        same = results.table[(results.table["rule"] == rule) & (results.table["attackers"] == 0)]
        before = same.set_index("seed").loc[rows["seed"]]
        gain = sign * (rows["score"] - rows["alone"]).to_numpy()
        without = sign * (before["score"] - before["alone"]).to_numpy()
        lost = (without.mean() - gain) / without.mean() if without.mean() > 0 else np.full(len(gain), np.nan)
        known = attack.startswith(("targeted", NOBODY)) and bool(rows["attacked_class"].notna().all())
        lines.append(
            RobustnessLine(
                rule,
                attack,
                int(rows["attackers"].iloc[0]),
                estimate(rows["score"].to_numpy()),
                float(sign * (sign * rows["score"]).min()),
                estimate(gain),
                estimate(lost),
                estimate(rows["attacked_class"].to_numpy()) if known else None,
            )
        )
    return lines


def verdicts(results: Robustness) -> list[str]:
    """A sentence for every rule: the attacks under which it fails, and the number of attackers needed."""
    lines = summarise(results)
    most = max(results.counts, default=0)
    sentences = []
    for rule in results.rules:
        fails = _from(lines, rule, results.attacks, lambda line: _clearly_below(line.gain, 0.0))
        weak = _from(lines, rule, results.attacks, lambda line: _clearly_below(_negative(line.lost), -0.5))
        weak = {attack: count for attack, count in weak.items() if attack not in fails}
        text = f"{rule}: "
        if fails:
            text += f"fails, clearly below what the honest reach alone, {_listed(fails, results.agents)}"
        else:
            text += f"never clearly below what the honest reach alone, up to {most} of {results.agents} attackers"
        if weak:
            text += f"; clearly more than half of what collaboration brings is lost {_listed(weak, results.agents)}"
        sentences.append(f"{text}.")
    if len(results.rules) > 1 and results.attacks:
        sentences += [_cost(rule, results) for rule in results.rules[1:]]
    return sentences


def _check(
    settings: Settings, attacks: dict[str, Attack], rules: Sequence[str], counts: Sequence[int], seeds: Sequence[int]
) -> None:
    if not attacks or not rules or not counts or not seeds:
        raise ConsilienceError("name at least one attack, one rule, one number of attackers and one seed.")
    if any(attack is none for attack in attacks.values()):
        raise ConsilienceError("'none' is not an attack. Leave it out: runs without attackers are always included.")
    if not isinstance(settings.method, Consensus):
        raise ConsilienceError(
            f"{settings.method.title} has no trust rule whose robustness could be measured. Use method=consensus."
        )
    good = settings.agents.count - len(set(settings.data.low_quality))
    if max(counts) >= good:
        raise ConsilienceError(
            f"{max(counts)} attackers leave nobody honest with good labels: there are {good} such agents. "
            f"Use at most {good - 1}."
        )


def _last(settings: Settings, count: int) -> tuple[int, ...]:
    """The numbers of the last `count` agents with good labels."""
    good = [number for number in range(settings.agents.count) if number not in settings.data.low_quality]
    return tuple(good[len(good) - count :])


def _with_rule(settings: Settings, rule: str) -> Settings:
    name, options = toml.call(rule, "the rule")
    return changed(settings, {"method.trust": {"name": name} | options}, f"the rule {rule}")


def _mean(run: Run, column: str, names: list[str]) -> float:
    table = run.last_round().set_index("agent")
    return float(table.loc[names, column].mean()) if column in table else float("nan")


def _from(lines: list[RobustnessLine], rule: str, attacks: list[str], holds: Any) -> dict[str, int]:
    """By attack: the least number of attackers at which `holds` is true for this rule."""
    least = {}
    for attack in attacks:
        counts = [line.attackers for line in lines if (line.rule, line.attack) == (rule, attack) and holds(line)]
        if counts:
            least[attack] = min(counts)
    return least


def _clearly_below(value: Estimate, limit: float) -> bool:
    """Whether the whole interval is below `limit`; a single seed must be below it by `CLEAR`."""
    half = CLEAR if np.isnan(value.half_width) else value.half_width
    return value.mean + half < limit


def _negative(value: Estimate) -> Estimate:
    return Estimate(-value.mean, value.half_width)


def _listed(by_attack: dict[str, int], agents: int) -> str:
    """Attacks by the number of attackers that they need."""
    by_count: dict[int, list[str]] = {}
    for attack, count in by_attack.items():
        by_count.setdefault(count, []).append(attack)
    parts = [f"from {count} of {agents} on under {', '.join(names)}" for count, names in sorted(by_count.items())]
    return "; ".join(parts)


def _cost(rule: str, results: Robustness) -> str:
    table = results.table[results.table["attackers"] == 0].pivot(index="seed", columns="rule", values="score")
    difference = estimate((table[rule] - table[results.rules[0]]).to_numpy())
    return f"{rule} against {results.rules[0]} when all are honest: {difference.text(signed=True)}."
