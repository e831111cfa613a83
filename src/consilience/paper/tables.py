"""The paper's tables and figures in numbers: finished runs in, a DataFrame and checked statements out."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from consilience.core.consensus import (
    contraction_bound,
    is_stochastic,
    lower_importance,
    products,
    row_difference,
    self_confidence,
    trust_received,
)
from consilience.experiments.compare import estimate
from consilience.paper.scales import CONSENSUS, METHODS, PRINTED
from consilience.runtime.run import Run
from consilience.settings.settings import Settings
from consilience.tasks.protocol import Array
from consilience.workers.job import Job

if TYPE_CHECKING:
    import pandas as pd

Runs = Sequence[tuple[Job, Run]]


def score_of(dataset: str) -> str:
    """What the paper measures on X*: balanced accuracy for Fed-ISIC2019, accuracy otherwise."""
    return "balanced_accuracy_shared" if dataset == "fed-isic2019" else "accuracy_shared"


def mean_score(run: Run, dataset: str) -> float:
    """Mean over the agents with good labels after the last round."""
    table = run.last_round()
    return float(table[~table["low_quality"]][score_of(dataset)].mean())


def table1(runs: Runs) -> "pd.DataFrame":
    """One row per data setting and method: ours (mean and 95 % half-width over seeds), beside the printed number."""
    import pandas as pd

    scores: dict[tuple[str, str, str], list[float]] = {}
    for one, run in runs:
        dataset, variant = one.settings.data.dataset, "low-quality" if one.settings.data.low_quality else "regular"
        scores.setdefault((dataset, variant, one.method), []).append(mean_score(run, dataset))
    rows = []
    for (dataset, variant, method), values in scores.items():
        found = estimate(values)
        printed = PRINTED[dataset, variant][METHODS.index(method)]
        rows.append((dataset, variant, method, found.mean, found.half_width, len(values), printed))
    columns = ["dataset", "labels", "method", "ours", "half_width", "seeds", "paper"]
    return pd.DataFrame(rows, columns=columns)


def check_table1(table: "pd.DataFrame") -> list[str]:
    """The paper's three statements on Table 1, checked on ours."""
    said = []
    for (dataset, labels), part in table.groupby(["dataset", "labels"], sort=False):
        ours = part.set_index("method")["ours"]
        if not set(METHODS) <= set(ours.index):
            continue
        best = max(ours["static"], ours["dynamic"])
        server = ours[["fedavg", "fedprox", "scaffold", "feddyn"]].max()
        where = f"{dataset}, {labels} labels"
        said.append(
            f"{where}: consensus beats training alone: {_yes(best > ours['alone'])} ({best - ours['alone']:+.3f})."
        )
        said.append(f"{where}: consensus beats every server method: {_yes(best > server)} ({best - server:+.3f}).")
        if labels == "low-quality":
            gap = ours["dynamic"] - ours["naive"]
            said.append(f"{where}: dynamic trust beats naive trust: {_yes(gap > 0)} ({gap:+.3f}).")
        else:
            gap = ours["dynamic"] - ours["naive"]
            said.append(
                f"{where}: dynamic trust stays within 0.02 of naive trust: {_yes(abs(gap) < 0.02)} ({gap:+.3f})."
            )
    return said


def bars(runs: Runs) -> "pd.DataFrame":
    """Fig. 5: mean over the agents with the strong and with the weak model."""
    import pandas as pd

    scores: dict[tuple[str, str, str], list[float]] = {}
    for one, run in runs:
        last = run.last_round().set_index("agent")[score_of(one.settings.data.dataset)]
        for group, weak in (("strong", False), ("weak", True)):
            members = [a.name for a in run.summary.agents if (a.model == "linear") == weak]
            scores.setdefault((one.settings.data.dataset, one.method, group), []).append(float(last[members].mean()))
    rows = []
    for key, values in scores.items():
        found = estimate(values)
        rows.append((*key, found.mean, found.half_width))
    return pd.DataFrame(rows, columns=["dataset", "method", "group", "mean", "half_width"])


def check_bars(table: "pd.DataFrame") -> list[str]:
    said = []
    for dataset, part in table.groupby("dataset", sort=False):
        mean = part.pivot_table(index="group", columns="method", values="mean")
        for other in ("alone", "naive"):
            gap = mean["dynamic"] - mean[other]
            said.append(
                f"{dataset}: dynamic trust beats {other} for strong agents: {_yes(gap['strong'] > 0)} "
                f"({gap['strong']:+.3f}), for weak agents: {_yes(gap['weak'] > 0)} ({gap['weak']:+.3f})."
            )
    return said


def score_against(value_of: Callable[[Settings], float]) -> Callable[[Runs], "pd.DataFrame"]:
    """Score against a setting, such as epochs or lam."""

    def tabulate(runs: Runs) -> "pd.DataFrame":
        import pandas as pd

        scores: dict[tuple[float, str], list[float]] = {}
        for one, run in runs:
            key = float(value_of(one.settings)), one.method
            scores.setdefault(key, []).append(mean_score(run, one.settings.data.dataset))
        found = [(*key, estimate(values)) for key, values in sorted(scores.items())]
        rows = [(x, method, e.mean, e.half_width) for x, method, e in found]
        return pd.DataFrame(rows, columns=["x", "method", "mean", "half_width"])

    return tabulate


def score_over_rounds(runs: Runs) -> "pd.DataFrame":
    """Fig. 6, right: score against rounds."""
    import pandas as pd

    parts = []
    for one, run in runs:
        score = score_of(one.settings.data.dataset)
        mean = run.metrics.groupby("round")[score].mean()
        parts.append(pd.DataFrame({"x": mean.index, "method": one.method, "mean": mean.to_numpy()}))
    table = pd.concat(parts).groupby(["x", "method"])["mean"]
    half = table.apply(lambda values: estimate(values.to_numpy()).half_width)
    return pd.DataFrame({"mean": table.mean(), "half_width": half}).reset_index()


def communication(runs: Runs) -> "pd.DataFrame":
    """Bytes that all agents send and receive in a round, measured, beside the formula of section 5.2."""
    import pandas as pd

    rows = []
    for one, run in runs:
        sent = run.metrics.groupby("round")["bytes_sent"].sum()
        measured = int(sent[sent > 0].iloc[-1]) if (sent > 0).any() else 0
        agents, shared = len(run.names), run.summary.shared_samples
        classes, parameters = len(run.summary.classes), run.summary.agents[0].parameters or 0
        if one.method in CONSENSUS:
            formula, value = "4 N (N-1) n* C", 4 * agents * (agents - 1) * shared * classes
        else:
            twice = 2 if one.method == "scaffold" else 1
            formula, value = f"{4 * 2 * twice} N |params|", 4 * 2 * twice * agents * parameters
        if one.method == "alone":
            formula, value = "0", 0
        rows.append((one.settings.data.dataset, one.method, measured, formula, value))
    return pd.DataFrame(rows, columns=["dataset", "method", "bytes_per_round", "formula", "formula_bytes"])


def trust_sums(runs: Runs) -> "pd.DataFrame":
    """Fig. 4: trust that each agent receives from its peers in a middle round of collaboration."""
    import pandas as pd

    rows = []
    for one, run in runs:
        received = trust_received(trust_matrix(run))
        marked = marked_agents(run)
        for number, name in enumerate(run.names):
            group = "marked" if number in marked else "other"
            rows.append((one.settings.data.dataset, one.folder.parts[-3], name, group, float(received[number])))
    return pd.DataFrame(rows, columns=["dataset", "experiment", "agent", "group", "trust_received"])


def check_trust_sums(table: "pd.DataFrame") -> list[str]:
    said = []
    for experiment, part in table.groupby("experiment", sort=False):
        most = part[part["group"] == "marked"]["trust_received"].max()
        least = part[part["group"] == "other"]["trust_received"].min()
        said.append(f"{experiment}: every marked agent receives less trust than every other: {_yes(most < least)}.")
    return said


def theory(runs: Runs) -> "pd.DataFrame":
    """The claims and propositions on the recorded trust matrices, in numbers."""
    import pandas as pd

    rows = []
    for one, run in runs:
        trace = self_confidence(run.trust)
        low = marked_agents(run)
        bound = contraction_bound(run.trust)[-1]
        rows.append(
            {
                "experiment": one.folder.parts[-3],
                "method": one.method,
                "rounds": len(run.trust),
                "stochastic": sum(is_stochastic(w) for w in run.trust),
                "trace_falls": int((np.diff(trace) <= 1e-9).sum()),
                "trace_first": float(trace[0]),
                "trace_last": float(trace[-1]),
                "delta": row_difference(products(run.trust)[-1]),
                "bound": float(bound),
                "proposition": int(lower_importance(run.trust, low).holds.sum()) if low else -1,
            }
        )
    return pd.DataFrame(rows)


def check_theory(table: "pd.DataFrame") -> list[str]:
    said = []
    for row in table.to_dict("records"):
        where, rounds = f"{row['experiment']}, {row['method']}", row["rounds"]
        said.append(f"{where}: W is row-stochastic and positive in {row['stochastic']} of {rounds} rounds.")
        fell = f"self-confidence fell in {row['trace_falls']} of {rounds - 1} rounds"
        said.append(f"{where}: {fell}, from {row['trace_first']:.2f} to {row['trace_last']:.2f}.")
        holds = _yes(row["delta"] <= row["bound"] * (1 + 1e-9))
        said.append(f"{where}: the bound of the lemma {holds} ({row['delta']:.1e} against {row['bound']:.1e}).")
        if row["proposition"] >= 0:
            kept = f"{row['proposition']} of {rounds} rounds"
            said.append(f"{where}: the conditions of the proposition on low-quality agents hold in {kept}.")
    return said


def _yes(holds: object) -> str:
    return "holds" if holds else "does not hold"


def trust_matrix(run: Run) -> Array:
    """The matrix of an early middle round of collaboration, as in Fig. 4."""
    return np.asarray(run.trust[len(run.trust) // 4])


def marked_agents(run: Run) -> list[int]:
    """Agents with wrong labels or a weak model, by number."""
    weak = len({agent.model for agent in run.summary.agents}) > 1
    agents = enumerate(run.summary.agents)
    return [n for n, agent in agents if agent.low_quality or (weak and agent.model == "linear")]
