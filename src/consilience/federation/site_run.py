"""A site's run: it waits for peers, goes through the rounds, and answers until the others have finished, too."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path

from consilience.agents.protocol import Agent
from consilience.base.errors import ConsilienceError
from consilience.base.options import flat, to_table
from consilience.export.facts import facts_of
from consilience.export.folder import export_agent
from consilience.federation.peers.audit import bytes_sent, incidents, suspicious_peers
from consilience.federation.peers.inbox import Say
from consilience.federation.run_lock import lock_run_folder
from consilience.federation.site import LoadedSite
from consilience.federation.site_agent import build_site_agent
from consilience.federation.site_ledger import Spending, keep_ledger
from consilience.federation.site_notes import site_notes
from consilience.runtime import checkpoint
from consilience.runtime.callbacks import Callback, Callbacks, RunInfo
from consilience.runtime.driver import run_rounds
from consilience.runtime.privacy_budget import plan
from consilience.runtime.progress_file import ProgressFile
from consilience.runtime.run import Run
from consilience.runtime.summary import Summary, known_elsewhere, summarised
from consilience.settings.presets import write_config


def run_site(prepared: LoadedSite, say: Say, callbacks: Sequence[Callback] = (), serve: bool = False) -> Run:
    """Takes part in the federation: waits for peers, runs the rounds, and writes the run folder.

    To `serve` is to answer, after the last round, until every peer has finished, however long that takes.
    """
    out, federation = prepared.out, prepared.federation
    lock_run_folder(out, federation, prepared.path(prepared.site.signing_key))
    audit = prepared.audit(out)
    agent, evaluation = build_site_agent(prepared)
    settings, summary = prepared.settings, _summary(prepared, agent)
    for line in summary.opening:
        say(line)
    write_config(settings, out)
    audit.add("start", agent=agent.name, federation=federation.identity().hex(), epoch=federation.epoch)
    ledger = keep_ledger(prepared, agent, audit, say)
    mesh = prepared.mesh(out, audit, say)
    told = Callbacks([ProgressFile(), *callbacks, Spending(agent, audit, say)])
    about = RunInfo(agent.name, out, flat(to_table(settings)))
    try:
        done = checkpoint.last_round(out / "checkpoint")
        if not done:
            plan([agent], settings.run.rounds)  # a budget that is spent already is said before anyone is met
        if done < settings.run.rounds:
            mesh.meet()
        run = run_rounds(
            [agent],
            prepared.features(prepared.shared),
            mesh,
            settings.method,
            summary,
            evaluation,
            folder=out,
            threads=settings.run.threads,
            emit=partial(told.handle, about),
            baseline=prepared.site.baseline,
        )
        keep_model(prepared, agent, run, say)
        mesh.finish(inf if serve else None)
        run = _with_log(run, out)
    except ConsilienceError as error:
        audit.add("stopped", reason=str(error))
        raise
    except OSError as error:
        with suppress(OSError):
            audit.add("stopped", reason=str(error))
        raise ConsilienceError(
            f"{out} cannot be written to: {error.strerror}. Fix this; the same command goes on from the last round."
        ) from error
    finally:
        mesh.close()
        audit.close()
        if ledger is not None:
            ledger.close()
        told.close()
    return run


def _with_log(run: Run, out: Path) -> Run:
    """The run with what the audit log has of peers and of bytes sent, before and after interruptions."""
    log = out / "audit.jsonl"
    known = replace(run.summary, suspicions=suspicious_peers(log), incidents=incidents(log), sent=bytes_sent(log))
    run = replace(run, summary=known)
    run.save(out)
    return run


def keep_model(prepared: LoadedSite, agent: Agent, run: Run, say: Say) -> None:
    """Writes the trained model into the run folder, where `predict` finds it: the data may change afterwards."""
    facts = facts_of(run, agent.name, tuple(prepared.columns))
    try:
        export_agent(
            agent, prepared.model, prepared.shared, facts, prepared.prepare_steps(), onnx=False, overwrite=True
        )
    except Exception as error:  # whatever a model of the site's own does; the run is finished and good
        say(f"the model is not stored by itself, and `predict` will have to fit it again: {error}")


def serve_site(prepared: LoadedSite, say: Say) -> None:
    """Answers for a finished run until every peer has finished, too: one that comes late finds what it needs."""
    audit = prepared.audit(prepared.out)
    try:
        audit.add("start", agent=prepared.site.agent, serves=True)
        mesh = prepared.mesh(prepared.out, audit, say)
        try:
            mesh.finish(inf)
        finally:
            mesh.close()
    finally:
        audit.close()


def _summary(prepared: LoadedSite, agent: Agent) -> Summary:
    federation, settings = prepared.federation, prepared.settings
    notes, warnings = site_notes(prepared)
    return Summary(
        method=settings.method.label,
        title=settings.method.title,
        task=agent.task.name,
        rounds=settings.run.rounds,
        warmup=settings.method.warmup,
        shared_samples=federation.shared_samples,
        agents=known_elsewhere(summarised([agent]), federation.names, len(federation.classes)),
        classes=[] if agent.task.noisy else list(federation.classes),
        dataset=federation.name,
        seed=settings.run.seed,
        data=federation.shared,
        federation=federation.identity().hex(),
        notes=notes,
        warnings=warnings,
    )
