"""The driver: goes through the rounds of any method, records them, saves them, and tells of them."""

import json
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

import numpy as np

from consilience.agents.input_cache import cached_rows
from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Agent, implements
from consilience.base.errors import ConsilienceError
from consilience.base.files import write_atomically
from consilience.base.malloc import give_memory_back
from consilience.methods.alone import Alone
from consilience.methods.protocol import Exchange, Memory, Method, Round, Start, StatefulExchange
from consilience.runtime import checkpoint
from consilience.runtime import privacy_budget as private
from consilience.runtime.baseline import NAME as ALONE
from consilience.runtime.baseline import Baseline
from consilience.runtime.callbacks import Ended, EventSink, Finished, Started, Trained
from consilience.runtime.group import Group, OneProcess
from consilience.runtime.history import Evaluation, History
from consilience.runtime.reference_predictions import reference_predictions
from consilience.runtime.run import Run
from consilience.runtime.run_fingerprint import Identity, check_identity, identity, packed
from consilience.runtime.summary import AgentSummary, Summary, versions
from consilience.tasks.protocol import Array

STARTED = "started.json"
"""The summary of a run that is under way, for those who watch it."""


def run_rounds(
    agents: Sequence[Agent],
    shared: Array,
    exchange: Exchange,
    method: Method,
    summary: Summary,
    evaluation: Evaluation | None = None,
    *,
    folder: Path | None = None,
    threads: int = 1,
    emit: EventSink = lambda event: None,
    group: Group | None = None,
    recorded: Sequence[str] = (),
    baseline: bool = False,
    options: Mapping[str, str] | None = None,
) -> Run:
    """Runs the method up to `summary.rounds`; with a `folder` saves every round there, and resumes from the last.

    Every numerical library uses `threads` threads: small models are fastest with one, and the numbers do not depend on
    how many cores a machine has. `agents` are those of this process, in any order. With a `group` of processes all of
    them record the whole run, whose agents are then `recorded`, and the first one writes and tells of its rounds. With
    `baseline` a copy of every agent trains alone beside it, and becomes the reference "alone" of the run; a group has
    none, because a run of the method alone can be spread over processes as well. A checkpoint of another run is
    refused: of another method, seed, data or agents, or with other `options`.
    """
    began = time.perf_counter()
    _check_names(exchange.roster)
    group, evaluation = group or OneProcess(), evaluation or Evaluation()
    team = LocalAgents(agents, exchange.roster, lambda name: emit(Trained(name, group.number)))
    summary = _with_all_agents(summary, exchange.roster, group)
    history = History(recorded or team.names, everyone=len(recorded or team) == len(exchange.roster))
    collaborates = not isinstance(method, Alone)
    beside = Baseline(team) if baseline and collaborates and evaluation.measures else None
    with _limited(threads), cached_rows([shared, *evaluation.rows]):
        start, before = Start(summary.rounds, seed=summary.seed or 0), 0.0
        if folder is not None:
            facts = identity(summary, method, team, options or {}, group)
            start, before = _resumed(folder, method, start, team, shared, history, group, exchange, beside, facts)
        private.plan(team, summary.rounds)
        planned = private.with_costs(summary, team, group)
        if folder is not None and group.first:
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / STARTED, planned.to_json().encode())
        emit(Started(summary, group.agents_by_worker or (team.names,), start.done))
        for done in method.rounds(team, shared, exchange, start):
            spoken = done.record.predictions
            last = done.number >= summary.rounds
            scores = evaluation.scores_of(team, spoken, done.number, last)
            private.measure(team, scores)
            done, scores = group.whole(done, scores)
            means = history.add(done, scores)
            if last:
                history.add_draws(_draws(evaluation, team, spoken, group, len(exchange.roster)))
            if beside is not None:
                beside.train(done.number, shared, evaluation, last)
            if folder is not None:
                seconds = before + time.perf_counter() - began
                _save(folder, method, done, team, shared, history, group, exchange, beside, seconds, facts)
            if group.first:
                emit(
                    Finished(
                        done.number,
                        means,
                        history.latest(),
                        None if done.record.peers is not None else done.record.trust,
                    )
                )
            if private.all_stopped(scores, exchange.roster):
                break
            give_memory_back()
    trust, rounds = history.trust()
    seconds = round(before + time.perf_counter() - began, 3)
    summary = private.with_costs(summary, team, group)
    summary = replace(summary, seconds=seconds, versions=versions())
    references = {} if beside is None else {ALONE: beside.run(summary)}
    run = Run(history.frame(), trust, rounds, summary, references, history.by_class, history.draws, history.sparse())
    if folder is not None and group.first:
        run.save(folder)
    if group.first:
        emit(Ended(seconds=seconds))
    return run


def _check_names(names: Sequence[str]) -> None:
    """Refuses names of agents that cannot be part of a path: checkpoints and exports have such."""
    for name in names:
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise ConsilienceError(
                f"an agent is called {name!r}, which cannot be part of a file's name. "
                "Give it a name without a slash, such as a-b for a/b."
            )


def _draws(
    evaluation: Evaluation, team: LocalAgents, spoken: dict[str, Array], group: Group, agents: int
) -> dict[str, dict[str, Array]]:
    """Scores of resamples of every agent in the first process, by column."""
    own = {
        f"{name}/{column}": values
        for name, columns in evaluation.draws_of(team, spoken, agents).items()
        for column, values in columns.items()
    }
    found: dict[str, dict[str, Array]] = {}
    for path, values in group.to_first(own).items():
        name, _, column = path.partition("/")
        found.setdefault(name, {})[column] = values
    return found


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


def _with_all_agents(summary: Summary, roster: tuple[str, ...], group: Group) -> Summary:
    """The summary with what all processes know of their agents, in the order of the roster."""
    texts = {agent.name: np.frombuffer(json.dumps(asdict(agent)).encode(), np.uint8) for agent in summary.agents}
    found = group.from_first(group.to_first(texts))
    known = [AgentSummary(**json.loads(found[name].tobytes())) for name in roster if name in found]
    return replace(summary, agents=known)


def _save(
    folder: Path,
    method: Method,
    done: Round,
    team: LocalAgents,
    shared: Array,
    history: History,
    group: Group,
    exchange: Exchange,
    beside: Baseline | None,
    seconds: float,
    facts: Identity,
) -> None:
    """A checkpoint of the agents of all processes, the method's memory and the history; the first process writes it."""
    states = {f"agent/{agent.name}/{key}": value for agent in team for key, value in agent.state().items()}
    states |= {
        f"witness/{a.name}": reference_predictions(a, method, shared, done.record.predictions[a.name]) for a in team
    }
    arrays = group.to_first(states)
    if not group.first:
        return
    arrays |= {"seconds": np.array(seconds), "run": packed(facts)}
    arrays |= {f"history/{key}": value for key, value in history.arrays().items()}
    arrays |= {f"common/{key}": value for key, value in done.memory.common.items()}
    for name, parts in done.memory.own.items():
        arrays |= {f"own/{name}/{key}": value for key, value in parts.items()}
    if implements(exchange, StatefulExchange):
        arrays |= {f"exchange/{key}": value for key, value in cast(StatefulExchange, exchange).state().items()}
    if beside is not None:
        arrays |= {f"baseline/{key}": value for key, value in beside.arrays().items()}
    checkpoint.write(folder / "checkpoint", done.number, arrays)


def _resumed(
    folder: Path,
    method: Method,
    start: Start,
    team: LocalAgents,
    shared: Array,
    history: History,
    group: Group,
    exchange: Exchange,
    beside: Baseline | None,
    facts: Identity,
) -> tuple[Start, float]:
    """Restores agents and history from the newest checkpoint, if there is one. The first process reads it for all."""
    done, arrays, damaged = checkpoint.read(folder / "checkpoint") if group.first else (0, {}, [])
    arrays = group.from_first(arrays | {"round": np.array(done)})
    done = int(arrays["round"])
    if damaged:
        warnings.warn(
            f"passed over damaged checkpoints: {', '.join(damaged)}; going on from round {done}", stacklevel=3
        )
    if not done:
        return start, 0.0
    if group.first:
        check_identity(arrays.get("run"), facts, folder)
    history.restore(checkpoint.with_prefix(arrays, "history/"))
    states = checkpoint.by_agent(arrays, "agent/")
    for agent in team:
        state = states.get(agent.name)
        if not state:
            raise ConsilienceError(
                f"the checkpoint in {folder} knows no agent {agent.name!r}. Resume with the same agents."
            )
        agent.restore(state, shared)
    if beside is not None:
        beside.restore(checkpoint.with_prefix(arrays, "baseline/"), shared)
    if implements(exchange, StatefulExchange):
        cast(StatefulExchange, exchange).restore(checkpoint.with_prefix(arrays, "exchange/"))
    memory = Memory(checkpoint.with_prefix(arrays, "common/"), checkpoint.by_agent(arrays, "own/"))
    return replace(start, done=done, memory=memory), float(arrays["seconds"])
