"""The Python interface: bring your own agents."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from rich.console import Console

from consilience.agents.backbones.feature_cache import watched
from consilience.agents.calibrated import CalibratedAgent
from consilience.agents.classes import agree_on_classes, evaluate
from consilience.agents.protocol import AcceptsMoreClasses, Agent, implements, missing
from consilience.base.errors import ConsilienceError
from consilience.base.options import flat, hint, stable_text, to_table
from consilience.base.rows import Rows, as_rows, count, fingerprint
from consilience.core.consensus import influence
from consilience.export.card import facts_of
from consilience.export.folder import export_agent
from consilience.methods import check_rounds, method_named
from consilience.methods.consensus import HEADS_NOTE, Consensus
from consilience.methods.protocol import Method
from consilience.report.home import advice
from consilience.report.progress import Progress
from consilience.runtime.callbacks import Callback, Callbacks, Computed, RunInfo
from consilience.runtime.crossed_shared import crossed_number, with_crossed
from consilience.runtime.driver import run_rounds
from consilience.runtime.ensemble import Collective, collective, weights_of
from consilience.runtime.exchange import InMemory
from consilience.runtime.history import Evaluation
from consilience.runtime.progress_file import ProgressFile
from consilience.runtime.run import Run, claim_folder
from consilience.runtime.summary import Summary, summarised
from consilience.tasks.protocol import Array

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Result:
    """The result of a collaboration: agents, metrics and trust."""

    agents: list[Agent]
    """The improved agents, in the order of `trust`. Their `predict` takes `at="home"`, "target", "alone" or "together"
    (`agents/calibrated.py`)."""
    run: Run
    shared: Rows = field(default=None, repr=False)
    """The shared data."""

    @property
    def history(self) -> "pd.DataFrame":
        """One row per round and agent: scores where labels were given, losses, disagreement, bytes sent."""
        return self.run.metrics

    @property
    def trust(self) -> Array:
        """Trust matrices (rounds of collaboration, agents, agents); of many agents in sparse exchange `run.sparse`."""
        return self.run.trust

    @property
    def influence(self) -> dict[str, float]:
        """The weight of each agent's first exchanged prediction in the last pseudo-labels; sums to one."""
        if self.run.sparse is not None:
            return dict(zip(self.run.names, self.run.sparse.influence().tolist(), strict=True))
        if not len(self.trust):
            return dict.fromkeys(self.run.names, 1 / len(self.agents))
        return dict(zip(self.run.names, influence(self.trust).tolist(), strict=True))

    @property
    def gains(self) -> "pd.DataFrame":
        """One row per agent, score and place: alone, together, gain, and its 95 % interval from low to high.

        Alone is a copy of the agent that trained alone for as many rounds. The interval is a paired bootstrap over the
        test samples, widened if there are fewer than 40. NaN without a baseline.
        """
        from consilience.report.gains import gain_table

        return gain_table(self.run)

    def save(self, folder: str | Path) -> Path:
        """Writes metrics.parquet, trust.npz and summary.json.

        Args:
            folder: Where to write; it must not hold a run yet.
        """
        path = claim_folder(Path(folder), resume=False)
        self.run.save(path)
        return path

    def predict(self, x: Rows, as_agent: str = "") -> Collective:
        """The collective prediction of all agents on new samples, with each one's part and own prediction.

        Agents are weighted by the consensus that the last trust leads to (`core/ensemble.py`), or by the trust of the
        agent `as_agent`; with trust per class, by the class that each sample seems to have.

        Args:
            x: the samples, rows of any kind.
            as_agent: name of the agent whose trust to use.
        """
        by_agent = {agent.name: agent.predict(x) for agent in self.agents}
        return collective(weights_of(self.run, as_agent), by_agent, self.agents[0].task)

    def export(self, folder: str | Path, agent: str = "", at: str = "together") -> Path:
        """Writes models that `consilience.load_model` and `consilience predict` read without any of the data.

        Args:
            folder: where to write.
            agent: name of the agent to export; by default all, each into a folder of its own in `folder`.
            at: what predictions are for unless another model is asked for: home | target | alone | together.
        """
        chosen = [member for member in self.agents if agent in ("", member.name)]
        if not chosen:
            raise ConsilienceError(f"there is no agent {agent!r}. There are {', '.join(self.run.names)}.")
        for member in chosen:
            target = Path(folder) if agent else Path(folder) / member.name
            inner, calibration, alone = member, None, None
            if isinstance(member, CalibratedAgent):
                inner, calibration, alone = member.agent, member.calibration, member.alone
            facts = facts_of(self.run, member.name, advise=advice)
            export_agent(inner, target, self.shared, facts, calibration=calibration, alone=alone, at=at)
        return Path(folder)

    def __repr__(self) -> str:
        from consilience.report.notebook import run_line

        return f"Result({run_line(self.run)})"

    def _repr_html_(self) -> str:
        """In a notebook: what each agent gained, and the last trust matrix as a picture."""
        from consilience.report.notebook import run_html

        return run_html(self.run)

    def report(self, path: str | Path = "report.html") -> Path:
        """Writes the report, one page that opens offline.

        Args:
            path: The file to write.
        """
        from consilience.report.page import write_page

        return write_page(self.run, Path(path))


def collaborate(
    agents: Sequence[Agent],
    shared: Rows,
    *,
    method: str | Method = "consensus",
    rounds: int = 20,
    shared_labels: Any = None,
    target: tuple[Rows, Any] | None = None,
    own: dict[str, tuple[Rows, Any]] | None = None,
    class_names: Sequence[str] = (),
    out: str | Path | None = None,
    resume: bool = False,
    baseline: bool = True,
    progress: bool = True,
    threads: int = 1,
    callbacks: Sequence[Callback] = (),
    crossed: str | int = "auto",
) -> Result:
    """Trains agents together on unlabelled shared data. Labels given here are used for measuring only.

    Args:
        agents: two or more agents.
        shared: unlabelled samples of the target domain, rows of any kind.
        method: an object such as `cs.Consensus(lam=0.5, trust=cs.Entropy())`, or a name: consensus, paper, static,
            every-K, naive, alone, fedavg, fedprox(mu=0.1), ... The name consensus stands for
            `cs.Consensus.for_heads()` where every agent learns one layer on a `cs.Backbone`.
        rounds: number of rounds, including the warm-up.
        shared_labels: labels of the shared data.
        target: a test sample (x, y) of the target domain.
        own: by name of the agent, its own test data (x, y).
        class_names: the names of the classes, in the order of the outputs.
        out: a folder where every round is saved.
        resume: whether to continue from the last round in `out`.
        baseline: whether a copy of every agent trains alone for as many rounds, if there are labels. Gains are measured
            against it.
        progress: whether to show progress on the standard error.
        threads: threads of numerical libraries. Raise it for large torch models on the CPU.
        callbacks: loggers such as `cs.loggers.TensorBoard("logs")`, or your own `cs.Callback`.
        crossed: rows that are crossed from the shared ones, on which agents agree as well; nothing is measured on them.
            Auto makes them where every agent has a `cs.Backbone` as its transform; 0 makes none.
    """
    agents, shared = _listed(agents), _shared_rows(shared)
    heads = method == "consensus" and all(getattr(agent, "solves_exactly", False) for agent in agents)
    method = (Consensus.for_heads() if heads else method_named(method)) if isinstance(method, str) else method
    if isinstance(rounds, bool) or not isinstance(rounds, Integral) or rounds < 1:
        raise ConsilienceError(f"rounds is {rounds!r}; it must be a whole number, at least 1.")
    rounds = int(rounds)
    names, outputs = _agree(agents, shared, class_names)
    if shared_labels is not None and len(shared_labels) != count(shared):
        raise ConsilienceError(f"{len(shared_labels)} shared labels for {count(shared)} shared samples.")
    classes = list(names) or [str(c) for c in range(outputs)]
    if own is not None and not isinstance(own, Mapping):
        raise ConsilienceError("own must say whose data they are: own={'name of an agent': (x, y)}.")
    labels_of = partial(evaluate, agents[0].task, names)
    evaluation = Evaluation(
        None if shared_labels is None else labels_of(shared, shared_labels, "the shared data")[1],
        None if target is None else labels_of(*_pair(target, "target"), "the target data"),
        {
            name: labels_of(*_pair(pair, f"own[{name!r}]"), f"the own data of {name!r}")
            for name, pair in (own or {}).items()
        },
    )
    notes, warnings = _table_notes(agents, shared)
    backbones = [_backbone_of(agent) for agent in agents]
    number = crossed_number(crossed, shared, backbones) if method.uses_shared else 0
    summary = Summary(
        method=method.label,
        title=method.title,
        task=agents[0].task.name,
        rounds=rounds,
        warmup=method.warmup,
        shared_samples=count(shared),
        agents=summarised(agents),
        classes=classes if agents[0].task.named_outputs else [],
        data=fingerprint(shared),
        crossed=number,
        notes=[HEADS_NOTE, *notes] if heads else notes,
        warnings=warnings,
    )
    check_rounds(method, rounds)
    learned = with_crossed(shared, number, 0, backbones)
    _check_labels(evaluation, agents, outputs)
    folder = claim_folder(Path(out), resume and Path(out).is_dir()) if out is not None else None
    more = {"crossed": number} if number else {}
    options = flat({"method": {"name": method.label} | to_table(method), "run": {"rounds": rounds} | more})
    with ExitStack() as around:
        lines = Progress(Console(stderr=True, markup=False), rounds, 1)
        shown = [around.enter_context(lines)] if progress else []
        everyone = around.enter_context(Callbacks([ProgressFile(), *shown, *callbacks]))
        emit = partial(everyone.handle, RunInfo(method.label, folder, options))
        around.enter_context(watched(lambda *news: emit(Computed(*news))))
        run = run_rounds(
            agents,
            learned,
            InMemory(tuple(a.name for a in agents), method.wire, {a.name: a.samples for a in agents}),
            method,
            summary,
            evaluation,
            folder=folder,
            threads=threads,
            emit=emit,
            baseline=baseline,
            hold_out=True,
            options={key: stable_text(value) for key, value in options.items() if key != "run.rounds"},
        )
    copies = {copy.name: copy for copy in run.copies}
    kept = run.calibrations
    trained = [CalibratedAgent(agent, kept.get(agent.name), copies.get(agent.name)) for agent in agents]
    return Result([*trained], run, shared)


def _backbone_of(agent: Agent) -> str:
    """What tells the agent's backbone from others; empty for an agent that has none."""
    from consilience.agents.backbones.backbone import Backbone

    transform = getattr(agent, "transform", None)
    return transform.fingerprint if isinstance(transform, Backbone) else ""


def _table_notes(agents: list[Agent], shared: Rows) -> tuple[list[str], list[str]]:
    """Notes and warnings on shared data with named columns and on agents' rows with the same columns."""
    if getattr(shared, "ndim", 0) != 2 or not hasattr(shared, "columns"):
        return [], []
    from consilience.data.table_notes import notes_on_rows

    names = list(shared.columns)
    held = [agent for agent in agents if list(getattr(getattr(agent, "rows", None), "columns", [])) == names]
    tables = {agent.name: agent.rows for agent in held}  # type: ignore[attr-defined]
    labels = {agent.name: np.asarray(agent.labels) for agent in held}  # type: ignore[attr-defined]
    return notes_on_rows(shared, tables, labels, agents[0].task.name)


def _listed(agents: Any) -> list[Agent]:
    """The agents, if they are several."""
    if isinstance(agents, Mapping) or not isinstance(agents, Iterable):
        raise ConsilienceError(f"agents is a {type(agents).__name__}; it must be a list of agents: [first, second].")
    return list(agents)


def _shared_rows(shared: Any) -> Rows:
    """The shared data as rows; not a pair (x, y), in which there would be labels."""
    if isinstance(shared, tuple) and len(shared) == 2 and all(hasattr(rows, "shape") for rows in shared):
        raise ConsilienceError(
            "shared is a pair. Give the rows alone, without labels; labels to measure on are shared_labels=y."
        )
    return as_rows(shared)


def _pair(pair: Any, what: str) -> tuple[Rows, Any]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ConsilienceError(f"{what} is not a pair. Give rows and their labels: {what}=(x, y).")
    x, y = pair
    x = np.asarray(x) if isinstance(x, list) and x and isinstance(x[0], Real) else x
    if getattr(x, "ndim", 0) == 1 and np.asarray(x).dtype.kind in "biuf" and getattr(y, "ndim", 0) > 1:
        raise ConsilienceError(f"{what} is a pair in the wrong order. Give the rows first: {what}=(x, y).")
    return x, y


def _check_labels(evaluation: Evaluation, agents: list[Agent], outputs: int) -> None:
    """Refuses labels of unknown classes, and test data of unknown agents."""
    names = [agent.name for agent in agents]
    for name in evaluation.own:
        if name not in names:
            raise ConsilienceError(f"own has data of {name!r}. {hint(name, names)}The agents are {', '.join(names)}.")
    if not agents[0].task.has_classes:
        return
    labels = {"the shared data": evaluation.shared_y} | {f"own of {n!r}": y for n, (_, y) in evaluation.own.items()}
    labels["the target data"] = None if evaluation.target is None else evaluation.target[1]
    for where, y in labels.items():
        if y is not None and len(y) and (y.max() >= outputs or y.min() < 0):
            raise ConsilienceError(
                f"{where} have labels from {y.min()} to {y.max()}, but the agents know the classes 0 to {outputs - 1}."
            )


def _agree(agents: list[Agent], shared: Rows, class_names: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """Checks that agents can collaborate and names those without a name; returns class names, if any, and outputs."""
    if len(agents) < 2:
        raise ConsilienceError(f"consensus needs at least two agents, got {len(agents)}.")
    if count(shared) == 0:
        raise ConsilienceError("the shared data are empty. Give unlabelled samples of the target domain.")
    for number, agent in enumerate(agents):
        lacking = missing(agent, Agent)
        if lacking:
            raise ConsilienceError(
                f"agent {number} ({type(agent).__name__}) does not implement Agent; missing: {', '.join(lacking)}."
            )
        agent.name = agent.name or str(number)
    names = [agent.name for agent in agents]
    repeated = Counter(names)
    for name in names:
        if repeated[name] > 1 or "/" in name:
            raise ConsilienceError(f"agent names must be unique and hold no slash; {name!r} does not fit.")
    tasks = dict.fromkeys(agent.task.name for agent in agents)
    if len(tasks) > 1:
        raise ConsilienceError(f"some agents do {' and some '.join(tasks)}. All must do the same.")
    classes = agree_on_classes(agents, class_names)
    outputs = max(agent.outputs for agent in agents)
    for agent in agents:
        if implements(agent, AcceptsMoreClasses):
            cast(AcceptsMoreClasses, agent).accept_classes(outputs)
        if agent.outputs != outputs:
            raise ConsilienceError(
                f"agent {agent.name!r} predicts {agent.outputs} outputs, another agent {outputs}. "
                f"All agents must predict the same {agent.task.outputs_are}."
            )
    return classes, outputs
