"""A site's run: it waits for peers, runs the rounds, and answers until its peers have finished, too."""

from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from math import inf

from consilience.agents.protocol import Agent
from consilience.base.errors import ConsilienceError
from consilience.base.options import flat, to_table
from consilience.export.card import Advise, facts_of, no_advice
from consilience.export.folder import export_agent
from consilience.export.manifest import FILE
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
from consilience.runtime.privacy_budget import mechanism_of, plan
from consilience.runtime.progress_file import ProgressFile
from consilience.runtime.run import SUMMARY, Run, is_finished
from consilience.runtime.summary import Summary, known_elsewhere, summarised
from consilience.settings.presets import write_config


def run_site(
    loaded: LoadedSite,
    say: Say,
    callbacks: Sequence[Callback] = (),
    serve: bool = False,
    advise: Advise = no_advice,
) -> Run:
    """Takes part in the federation: waits for peers, runs the rounds, and writes the run folder.

    Args:
        loaded: The site.
        say: Is given sentences for the operator.
        callbacks: Are told of every round.
        serve: Whether to answer after the last round until every peer has finished, however long that takes.
        advise: Says which model to use where, for the model card.
    """
    out, federation = loaded.out, loaded.federation
    lock_run_folder(out, federation, loaded.path(loaded.site.signing_key))
    audit = loaded.audit(out, monitored=True)
    agent, evaluation = build_site_agent(loaded)
    settings, summary = loaded.settings, _summary(loaded, agent)
    for line in summary.opening:
        say(line)
    write_config(settings, out)
    audit.add("start", agent=agent.name, federation=federation.identity().hex(), epoch=federation.epoch)
    ledger = keep_ledger(loaded, agent, audit, say)
    exchange = loaded.exchange(out, audit, say, release=loaded.site.outgoing.release(agent))
    told = Callbacks([ProgressFile(), *callbacks, Spending(agent, audit, say)])
    about = RunInfo(agent.name, out, flat(to_table(settings)))
    try:
        done = checkpoint.last_round(out / "checkpoint")
        if not done:
            plan([agent], settings.run.rounds)  # reports a spent budget before the site connects to anyone
        if done < settings.run.rounds:
            exchange.wait_for_peers()
        run = run_rounds(
            [agent],
            loaded.learned_rows(),
            exchange,
            settings.method,
            summary,
            evaluation,
            folder=out,
            threads=settings.run.threads,
            emit=partial(told.handle, about),
            baseline=loaded.site.baseline,
            hold_out=True,
        )
        keep_model(loaded, agent, run, say, advise)
        exchange.finish(inf if serve else None)
        log = out / "audit.jsonl"  # what it has of peers and of bytes sent, before and after interruptions
        known = replace(run.summary, suspicions=suspicious_peers(log), incidents=incidents(log), sent=bytes_sent(log))
        run = replace(run, summary=known)
        checkpoint.replace_checked(out, SUMMARY, known.to_json().encode())
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
        exchange.close()
        audit.close()
        if ledger is not None:
            ledger.close()
        told.close()
    return run


def site_has_finished(loaded: LoadedSite) -> bool:
    """Whether the run of this site is finished, and its model stored. Else the same command goes on."""
    out = loaded.out
    return is_finished(out) and (out / "federation.toml").is_file() and (loaded.model / FILE).is_file()


def keep_model(loaded: LoadedSite, agent: Agent, run: Run, say: Say, advise: Advise = no_advice) -> None:
    """Writes the trained model into the run folder for `predict`: the data may change later."""
    facts, steps = facts_of(run, agent.name, tuple(loaded.columns), advise=advise), loaded.prepare_steps()
    calibration, alone = run.calibrations.get(agent.name), _copy_alone(agent, run)
    try:
        export_agent(
            agent,
            loaded.model,
            loaded.shared,
            facts,
            steps,
            onnx=False,
            overwrite=True,
            calibration=calibration,
            alone=alone,
        )
    except Exception as error:  # a model of the site's own may fail in any way; the run is finished and good
        say(f"the model cannot be stored, and `predict` will fit it again: {error}")


def _copy_alone(agent: Agent, run: Run) -> Agent | None:
    """The copy that trained alone. Of a private agent it stays in the checkpoint."""
    return run.copies[0] if run.copies and mechanism_of(agent) is None else None


def serve_site(loaded: LoadedSite, say: Say) -> None:
    """Answers for a finished run until every peer, however late, has finished, too."""
    with closing(loaded.audit(loaded.out, monitored=True)) as audit:
        audit.add("start", agent=loaded.site.agent, serves=True)
        with closing(loaded.exchange(loaded.out, audit, say)) as exchange:
            exchange.finish(inf)


def _summary(loaded: LoadedSite, agent: Agent) -> Summary:
    federation, settings = loaded.federation, loaded.settings
    notes, warnings = site_notes(loaded)
    return Summary(
        method=settings.method.label,
        title=settings.method.title,
        task=agent.task.name,
        rounds=settings.run.rounds,
        warmup=settings.method.warmup,
        shared_samples=federation.shared_samples,
        agents=known_elsewhere(summarised([agent]), federation.names, len(federation.classes)),
        classes=list(federation.classes) if agent.task.named_outputs else [],
        dataset=federation.name,
        seed=settings.run.seed,
        data=federation.shared,
        crossed=federation.crossed,
        federation=federation.identity().hex(),
        notes=notes,
        warnings=warnings,
    )
