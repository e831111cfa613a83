"""Prints the table of research/methods.md from runs in FOLDER/seed-S/METHOD, as `consilience compare` has them.

python research/methods.py digits=runs/digits,runs/digits-low hospitals=runs/hospitals,runs/hospitals-low ...

For each dataset the folder of the regular setting and that of the one with wrong labels; several folders of one setting
have a + between them. A setting that has no folder is left empty.
"""

import json
import sys
from pathlib import Path

import pandas as pd

from consilience import load_run
from consilience.report.numbers import many, size

ORDER = ["consensus", "paper", "naive", "alone", "FedMD", "DS-FL", "FedCT", "Cronus", "KT-pFL", "FD"]
ORDER += ["FedAvg", "FedDF", "FedProx", "SCAFFOLD", "FedDyn"]


def lines(folders: list[Path]) -> pd.DataFrame:
    """One row per method: target accuracy of the agents with good labels, the worst of them, and costs."""
    rows = []
    for path in (path for folder in folders for path in sorted(folder.glob("seed-*/*/summary.json"))):
        run = load_run(path.parent)
        bad = {agent["name"] for agent in json.loads(path.read_text())["agents"] if agent["low_quality"]}
        last = run.last_round()
        good = last[~last["agent"].isin(bad)]["accuracy_target"]
        agents = run.metrics["agent"].nunique()
        row = {"method": _name(run.summary.title), "seed": run.summary.seed, "mean": good.mean(), "worst": good.min()}
        row["sent"] = run.metrics["bytes_sent"].sum() / agents
        if "samples_trained" in run.metrics:
            row["trained"] = run.metrics["samples_trained"].sum() / agents
        rows.append(row)
    table = pd.DataFrame(rows, columns=["method", "seed", "mean", "worst", "sent", "trained"])
    return table.groupby("method").agg(
        mean=("mean", "mean"), worst=("worst", "mean"), sent=("sent", "mean"), trained=("trained", "mean")
    )


def _name(title: str) -> str:
    return "paper" if title == "consensus (paper)" else title


def main(arguments: list[str]) -> None:
    found: dict[str, list[pd.DataFrame]] = {}
    for argument in arguments:
        dataset, _, settings = argument.partition("=")
        found[dataset] = [lines([Path(part) for part in one.split("+") if part]) for one in settings.split(",")]
    heads = [cell for name in found for cell in (f"{name}, regular", f"{name}, wrong labels", f"{name}: sent; trained")]
    print("| method |", " | ".join(heads), "|")
    print("| --- |" + " ---: |" * len(heads))
    for method in ORDER:
        cells = []
        for tables in found.values():
            known = [table.loc[method] if method in table.index else None for table in tables]
            cells += ["" if one is None else f"{one['mean']:.3f} / {one['worst']:.3f}" for one in known]
            costs = [one for one in known if one is not None]
            cells.append(f"{size(costs[0]['sent'])}; {many(max(one['trained'] for one in costs))}" if costs else "")
        print(f"| {method} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main(sys.argv[1:])
