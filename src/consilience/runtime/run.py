"""A run: the loop, recorded and saved round by round, and the folder it leaves behind."""

import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consilience.agents.protocol import Agent, Array
from consilience.errors import ConsilienceError
from consilience.runtime import checkpoint
from consilience.runtime.exchange import Exchange
from consilience.runtime.federated_rounds import Federated, federated
from consilience.runtime.history import Evaluation, History
from consilience.runtime.rounds import Method, OnTrained, Round, Start, consensus
from consilience.runtime.workers import Group

if TYPE_CHECKING:
    import pandas as pd

OnRound = Callable[[int, dict[str, float]], None]
"""Told the round's number and the means over agents of every measure."""


@dataclass(frozen=True)
class Run:
    """All that is known of a finished run. `save` and `load` are its folder's one form."""

    metrics: "pd.DataFrame"
    """One row per round and agent."""
    trust: Array
    """(rounds of collaboration, agents of the process, roster)."""
    trust_rounds: Array
    summary: dict[str, Any]
    """Versions, seed, fingerprint, time, and what is known of each agent."""
    references: dict[str, "Run"] = field(default_factory=dict)
    """The same agents under other methods, such as alone and naive."""

    @property
    def names(self) -> list[str]:
        """Agents in the order of the trust matrices."""
        return [agent["name"] for agent in self.summary["agents"]]

    def last_round(self) -> "pd.DataFrame":
        """The metrics after the last round, with whether each agent's labels are of low quality."""
        table = self.metrics[self.metrics["round"] == self.metrics["round"].max()]
        low = {agent["name"]: bool(agent.get("low_quality")) for agent in self.summary["agents"]}
        result: pd.DataFrame = table.assign(low_quality=table["agent"].map(low))
        return result

    def save(self, folder: Path) -> None:
        """Writes metrics.parquet, trust.npz and, last, summary.json: a folder with a summary is a finished run."""
        table, matrices = BytesIO(), BytesIO()
        self.metrics.to_parquet(table, index=False)
        np.savez_compressed(matrices, trust=self.trust, rounds=self.trust_rounds, agents=np.array(self.names))
        folder.mkdir(parents=True, exist_ok=True)
        checkpoint.write_atomically(folder / "metrics.parquet", table.getvalue())
        checkpoint.write_atomically(folder / "trust.npz", matrices.getvalue())
        for name, reference in self.references.items():
            reference.save(folder / name)
        summary = json.dumps(self.summary, indent=2, allow_nan=False)
        checkpoint.write_atomically(folder / "summary.json", summary.encode())


def is_finished(folder: Path) -> bool:
    """Whether `folder` holds a run that came to its end."""
    return (folder / "summary.json").is_file()


def load_run(folder: Path) -> Run:
    """Reads a finished run's folder."""
    import pandas as pd

    if not is_finished(folder):
        raise ConsilienceError(
            f"{folder} holds no finished run (there is no summary.json). "
            "Give the folder of a run, or finish it with `consilience run --resume --out FOLDER`."
        )
    try:
        summary = json.loads((folder / "summary.json").read_text())
        with np.load(folder / "trust.npz", allow_pickle=False) as matrices:
            trust, rounds = matrices["trust"], matrices["rounds"]
        table = pd.read_parquet(folder / "metrics.parquet")
    except (OSError, ValueError, KeyError) as error:
        raise ConsilienceError(f"the run in {folder} cannot be read: {error}. Run it again.") from error
    inner = {path.name: load_run(path) for path in sorted(folder.iterdir()) if path.is_dir() and is_finished(path)}
    return Run(table, trust, rounds, summary, inner)


def carry_out(
    agents: Sequence[Agent],
    shared: Array,
    exchange: Exchange,
    method: Method | Federated,
    *,
    evaluation: Evaluation,
    facts: dict[str, Any],
    folder: Path | None = None,
    threads: int = 1,
    on_round: OnRound | None = None,
    on_trained: OnTrained = lambda name: None,
    group: Group | None = None,
) -> Run:
    """Runs the method, records it, and with a `folder` saves a checkpoint after every round and resumes from it.

    `facts` go into the summary as they are. Every numerical library uses `threads` threads: small models are fastest
    with one, and the numbers do not depend on how many cores a machine has. `agents` are those of this process, in any
    order. With a `group` of workers all of them record the whole run, and the first one writes and tells of it.
    """
    began = time.perf_counter()
    group = group or Group()
    agents = in_order(agents, exchange.roster)
    facts = facts | _known_of_agents(facts, exchange.roster, group)
    names = group.names(agents)
    history = History(names, everyone=len(names) == len(exchange.roster))
    start, seconds_before = Start(), 0.0
    if folder is not None:
        with _limited(threads):
            start, seconds_before = _resume(folder, agents, shared, history, group)

    def after_round(done: Round) -> None:
        own_scores = {a.name: evaluation.scores(a, done.predictions[a.name]) for a in agents}
        done, scores = group.whole(done, own_scores)
        means = history.add(done, scores)
        if folder is not None:
            states = group.to_first(_states(agents))
            seconds = seconds_before + time.perf_counter() - began
            if group.first:
                arrays = states | _all_but_states(history, done, seconds)
                checkpoint.write(folder / "checkpoint", done.number, arrays)
        if on_round is not None and group.first:
            on_round(done.number, means)

    with _limited(threads):
        if isinstance(method, Federated):
            _refuse_others(names, exchange.roster)
            federated(agents, shared, method, after_round, start, group, on_trained)
        else:
            consensus(agents, shared, exchange, method, after_round, start, on_trained)
    trust, rounds = history.trust()
    seconds = round(seconds_before + time.perf_counter() - began, 3)
    run = Run(history.frame(), trust, rounds, facts | {"seconds": seconds, "versions": versions()})
    if folder is not None and group.first:
        run.save(folder)
    return run


def in_order(agents: Sequence[Agent], roster: tuple[str, ...]) -> list[Agent]:
    """`agents` as in the roster, so that no number depends on the order in which they are listed."""
    return sorted(agents, key=lambda agent: roster.index(agent.name))


def _refuse_others(names: tuple[str, ...], roster: tuple[str, ...]) -> None:
    missing = [name for name in roster if name not in names]
    if missing:
        raise ConsilienceError(
            f"agents {', '.join(missing)} live in another process, but this method averages all models in one. "
            "Put all agents into one process, or use consensus."
        )


@contextmanager
def _limited(threads: int) -> Iterator[None]:
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)


def versions() -> dict[str, str]:
    """Versions of everything that has a say in the numbers."""
    packages = ("consilience", "numpy", "pandas", "scikit-learn", "scipy", "torch")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def _known_of_agents(facts: dict[str, Any], roster: tuple[str, ...], group: Group) -> dict[str, Any]:
    """What all workers know of their agents, in the order of the roster."""
    if "agents" not in facts:
        return {}
    texts = {known["name"]: np.frombuffer(json.dumps(known).encode(), dtype=np.uint8) for known in facts["agents"]}
    found = group.together(texts)
    return {"agents": [json.loads(found[name].tobytes()) for name in roster if name in found]}


def _states(agents: Sequence[Agent]) -> dict[str, Array]:
    return {f"agent/{agent.name}/{key}": value for agent in agents for key, value in agent.state().items()}


def _all_but_states(history: History, done: Round, seconds: float) -> dict[str, Array]:
    arrays = {f"history/{key}": value for key, value in history.arrays().items()}
    if done.kept is not None:
        arrays["kept"] = done.kept
    arrays |= {f"server/{key}": value for key, value in done.server.items()}
    return arrays | {"seconds": np.array(seconds)}


def _resume(
    folder: Path, agents: Sequence[Agent], shared: Array, history: History, group: Group
) -> tuple[Start, float]:
    """Restores agents and history from the newest checkpoint, if there is one. The first worker reads it for all."""
    done, arrays, damaged = checkpoint.read(folder / "checkpoint") if group.first else (0, {}, [])
    arrays = group.from_first(arrays | {"round": np.array(done)})
    done = int(arrays["round"])
    if damaged:
        import warnings

        warnings.warn(
            f"passed over damaged checkpoints: {', '.join(damaged)}; going on from round {done}", stacklevel=3
        )
    if not done:
        return Start(), 0.0

    def part(prefix: str) -> dict[str, Array]:
        return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}

    history.restore(part("history/"))
    for agent in agents:
        state = part(f"agent/{agent.name}/")
        if not state:
            raise ConsilienceError(
                f"the checkpoint in {folder} knows no agent {agent.name!r}. Resume with the same agents."
            )
        agent.restore(state, shared)
    return Start(done, arrays.get("kept"), part("server/")), float(arrays["seconds"])
