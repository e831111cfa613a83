"""The driver: runs any method's rounds, records and saves them, and reports them as events."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from consilience.agents.input_cache import cached_rows
from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Agent
from consilience.base.errors import ConsilienceError
from consilience.base.files import write_atomically
from consilience.base.malloc import give_memory_back
from consilience.base.rows import count, take
from consilience.methods.alone import Alone
from consilience.methods.protocol import Exchange, Method, Start
from consilience.runtime import baseline as reference
from consilience.runtime import privacy_budget as private
from consilience.runtime.baseline import Baseline
from consilience.runtime.callbacks import Ended, EventSink, Finished, Started, Trained
from consilience.runtime.checkpoint import by_agent, flat
from consilience.runtime.crossed_shared import on_shared_rows
from consilience.runtime.group import Group, OneProcess, tables_to_first
from consilience.runtime.held_out import held_out
from consilience.runtime.history import Evaluation, History
from consilience.runtime.run import Run
from consilience.runtime.run_state import RunState, identity
from consilience.runtime.summary import AgentSummary, Summary, versions
from consilience.tasks.protocol import Array

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

STARTED = "started.json"
"""The summary of a run that is under way, for the live page."""


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
    baseline: bool = False,
    hold_out: bool = False,
    options: Mapping[str, str] | None = None,
) -> Run:
    """Runs the method up to `summary.rounds`. Only the first `summary.shared_samples` shared rows are measured.

    With a `folder` every round is saved there, and the run resumes from the last one; a checkpoint of another method,
    seed, data, agents or `options` is refused. Every numerical library uses `threads` threads: small models are fastest
    with one, and the numbers do not depend on how many cores a machine has. `emit` is called with every event. With
    `baseline` a copy of every agent trains alone and becomes the reference "alone" of the run. With `hold_out` the run
    keeps what its models are calibrated and combined by (`runtime/held_out.py`). In a `group` of
    processes, which has no baseline, the first one records, saves and reports the rounds of all; the others return
    the metrics of their own agents.
    """
    began = time.perf_counter()
    _check_names(exchange.roster)
    group, evaluation = group or OneProcess(), evaluation or Evaluation()
    local = LocalAgents(agents, exchange.roster, lambda name: emit(Trained(name, group.number)))
    summary = _with_all_agents(summary, exchange.roster, group)
    is_crossed = count(shared) > summary.shared_samples
    measured = take(shared, slice(0, summary.shared_samples)) if is_crossed else shared
    names = exchange.roster if group.agents_by_worker and group.first else local.names
    everyone = len(names) == len(exchange.roster)
    history, alone, state = History(names, everyone), None, None
    if baseline and evaluation.measures and not isinstance(method, Alone):
        alone = Baseline(local, shared, summary.shared_samples, evaluation, summary.rounds, everyone)
    with _limited(threads), cached_rows([shared, *evaluation.rows]):
        start, before = Start(summary.rounds, seed=summary.seed or 0), 0.0
        if folder is not None:
            facts = identity(summary, method, local, options or {}, group)
            state = RunState(folder, facts, method, local, shared, measured, exchange, group, history, alone)
            start, before = state.resume(start)
        private.plan(local, summary.rounds)
        planned = private.with_costs(summary, local, group)
        if folder is not None and group.first:
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / STARTED, planned.to_json().encode())
        emit(Started(summary, group.agents_by_worker or (local.names,), start.done))
        for done in method.rounds(local, shared, exchange, start):
            if is_crossed:
                done = replace(done, record=on_shared_rows(done.record, summary.shared_samples))
            published, last = done.record.predictions, done.number >= summary.rounds
            scores = evaluation.scores_of(local, published, done.number, last)
            private.measure(local, scores)
            done, scores = group.complete(done, scores)
            stopped = private.all_stopped(scores, exchange.roster, group)
            means = history.add(done, scores)
            if last:
                history.add_draws(_draws(evaluation, local, published, group, len(exchange.roster)))
                if hold_out:
                    pooled = bool(getattr(method, "duals", 0))
                    held = flat(held_out(local, evaluation, len(exchange.roster), pooled))
                    history.held = by_agent(group.to_first(held))
            if alone is not None:
                alone.train(done.number, last)
            if state is not None:
                state.save(done, before + time.perf_counter() - began)
            if group.first:
                trust = done.record.trust if done.record.peers is None else None
                emit(Finished(done.number, means, history.latest(), trust))
            if stopped:
                break
            give_memory_back()
    trust_matrices, rounds = history.trust()
    seconds = round(before + time.perf_counter() - began, 3)
    summary = private.with_costs(summary, local, group)
    summary = replace(summary, seconds=seconds, versions=versions())
    references = {} if alone is None else {reference.NAME: alone.run(summary)}
    known = (history.by_class, history.draws, history.sparse(), history.held)
    copies = () if alone is None else tuple(alone.agents)
    run = Run(history.frame(), trust_matrices, rounds, summary, references, *known, copies)
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
    evaluation: Evaluation, local: LocalAgents, published: dict[str, Array], group: Group, agents: int
) -> dict[str, dict[str, Array]]:
    """Scores of resamples of every agent in the first process, by column."""
    return by_agent(group.to_first(flat(evaluation.draws_of(local, published, agents))))


@contextmanager
def _limited(threads: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with _libraries(len(sys.modules)).limit(limits=threads):
            yield
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=1)
def _libraries(modules: int) -> "ThreadpoolController":
    """The libraries with threads. The search takes 5 ms, and is made again when more modules are loaded."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _with_all_agents(summary: Summary, roster: tuple[str, ...], group: Group) -> Summary:
    """In the first process the summary with the agents of all, in the order of the roster."""
    tables = tables_to_first(group, {agent.name: asdict(agent) for agent in summary.agents})
    return replace(summary, agents=[AgentSummary(**tables[name]) for name in roster if name in tables])
