"""The data of a run that has not ended, from the files that another process has written so far."""

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from consilience.base import toml
from consilience.report.numbers import size
from consilience.runtime import checkpoint
from consilience.runtime.driver import STARTED
from consilience.runtime.history import History
from consilience.runtime.privacy_budget import EPSILON, STOPPED
from consilience.runtime.progress_file import NOW, read_quickly
from consilience.runtime.run import Run, is_finished, load_run
from consilience.runtime.summary import AgentSummary, Summary, summary_from

LOG, PRESENCE = "audit.jsonl", "presence.json"
"""Files of a site: its audit log, and which peers are connected."""
Facts = list[list[str]]
"""Pairs of a name and a value."""


def is_run(folder: Path) -> bool:
    """Whether a run was started or finished in `folder`."""
    return is_finished(folder) or (folder / STARTED).is_file()


def has_ended(folder: Path) -> bool:
    """Whether the folder is complete: the run, its references and, at a site, its log are finished."""
    if not is_finished(folder):
        return False
    if (folder / LOG).is_file():
        return summary_from((folder / "summary.json").read_text()).sent is not None
    return all(is_finished(folder / name) for name in _references(folder))


def snapshot(folder: Path) -> Run | None:
    """The rounds of the run in `folder` that are done; None before the first."""
    if is_finished(folder):
        run = load_run(folder)
        return run if has_ended(folder) else replace(run, summary=_with_log(run.summary, folder))
    done, arrays, _ = checkpoint.read(folder / "checkpoint")
    if not done:
        return None
    summary = summary_from((folder / STARTED).read_text())
    kept = checkpoint.with_prefix(arrays, "history/")
    names = _recorded(summary.names, kept, arrays)
    history = History(names, everyone=len(names) == len(summary.names))
    history.restore(kept)
    trust, rounds = history.trust()
    metrics = history.frame()
    summary = _with_log(_with_budgets(summary, metrics), folder)
    return Run(metrics, trust, rounds, summary, by_class=history.by_class, sparse=history.sparse())


def state_of(folder: Path) -> dict[str, Any]:
    """The lines at the top of a live page."""
    if has_ended(folder):
        return {"finished": True, "text": "finished", "facts": []}
    if is_finished(folder):
        left = [name for name in _references(folder) if not is_finished(folder / name)]
        waits = f"{', '.join(left)}, to compare with" if left and not (folder / LOG).is_file() else ""
        text = "all rounds done" + (f"; now {waits}" if waits else "; still answering peers")
        return {"finished": False, "text": text, "facts": _site_facts(folder)}
    summary = summary_from((folder / STARTED).read_text())
    done = checkpoint.last_round(folder / "checkpoint")
    rest = _time_left(folder, done, summary.rounds) if done < summary.rounds else "; writing what came of them"
    text = f"round {done} of {summary.rounds} done{rest}"
    return {"finished": False, "text": text, "facts": _training(folder, done) + _site_facts(folder)}


def _time_left(folder: Path, done: int, rounds: int) -> str:
    """The expected remaining time, if rounds take as long as the last; and the time since the last, if long."""
    times = sorted(path.stat().st_mtime for path in (folder / "checkpoint").glob("round-*")) if done else []
    if not times:
        return ""
    before = times[-2] if len(times) > 1 else (folder / STARTED).stat().st_mtime
    each, quiet = max(0.0, times[-1] - before), max(0.0, time.time() - times[-1])
    text = f"; {in_words(max(0.0, each * (rounds - done) - quiet))} left"
    return text + (f"; the last round ended {in_words(quiet)} ago" if quiet > 2 * each + 5 else "")


def in_words(seconds: float) -> str:
    """A duration in words.

    >>> in_words(42.4), in_words(600), in_words(9000)
    ('about 42 s', 'about 10 min', 'about 2 h 30 min')
    """
    if seconds < 90:
        return f"about {seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"about {minutes} min" if minutes < 90 else f"about {minutes // 60} h {minutes % 60} min"


def _training(folder: Path, done: int) -> Facts:
    now = read_quickly(folder / NOW)
    if now.get("round") != done + 1 or not now.get("training"):
        return []
    names = ", ".join(map(str, now["training"]))
    who = f"agent{'s' if len(now['training']) > 1 else ''} {names}" if now["agents"] > 1 else names
    return [["trains now", f"{who}; {now['trained']} of {now['agents']} have trained in round {done + 1}"]]


def _site_facts(folder: Path) -> Facts:
    """At a site: present, awaited, late and suspicious peers, bytes sent, and the privacy budget."""
    presence = read_quickly(folder / PRESENCE)
    facts: Facts = []
    if presence:
        present, waiting = presence.get("present", []), presence.get("waiting", [])
        roster = summary_from((folder / STARTED).read_text()).agents if (folder / STARTED).is_file() else []
        away = [agent.name for agent in roster if agent.model == "unknown" and agent.name not in present]
        left = max(0, round(presence.get("until", 0) - time.time()))
        until = f" (at most {left // 60}:{left % 60:02} more)" if left < 100_000 else ""
        facts += [["present", ", ".join(present) or "nobody"], ["absent", ", ".join(away) or "nobody"]]
        facts += [["waits for", f"{', '.join(waiting)}{until}" if waiting else "nobody"]]
    if not (folder / LOG).is_file():
        return facts
    with suppress(ImportError):  # what reads signed logs is an extra, which every site has
        from consilience.federation.peers.audit import bytes_sent, late_peers, privacy_spent, suspicious_peers

        log = folder / LOG
        facts += [["late", " ".join(late_peers(log)) or "nobody"]]
        facts += [["suspicious", " ".join(suspicious_peers(log)) or "nobody"], ["sent", size(bytes_sent(log))]]
        spent = privacy_spent(log)
        facts += [["privacy budget", f"epsilon {spent[0]:.3f} of {spent[1]:g} is spent"]] if spent else []
    return facts


def _with_log(summary: Summary, folder: Path) -> Summary:
    """The summary with the entries of a site's audit log so far."""
    log = folder / LOG
    if not log.is_file():
        return summary
    try:
        from consilience.federation.peers.audit import bytes_sent, incidents, suspicious_peers
    except ImportError:
        return summary
    return replace(summary, suspicions=suspicious_peers(log), incidents=incidents(log), sent=bytes_sent(log))


def _with_budgets(summary: Summary, metrics: Any) -> Summary:
    """The summary with the privacy budgets spent so far, and when agents stopped."""
    if EPSILON not in metrics.columns:
        return summary

    def now(agent: AgentSummary) -> AgentSummary:
        own = metrics[metrics["agent"] == agent.name]
        if not agent.privacy or not len(own):
            return agent
        without = own[own[STOPPED] > 0]["round"]
        spent = {"epsilon": float(own[EPSILON].iloc[-1]), "rounds": len(own) - len(without)}
        return replace(agent, privacy=agent.privacy | spent | {"stopped": int(without.min()) if len(without) else 0})

    return replace(summary, agents=[now(agent) for agent in summary.agents])


def _references(folder: Path) -> list[str]:
    """Methods that run inside the run's folder; in a comparison all methods are runs of their own."""
    if not (folder / "config.toml").is_file() or folder.parent.name.startswith("seed-"):
        return []
    options = toml.read(folder / "config.toml").get("run", {})
    return [str(name) for name in options.get("references", [])]


def _recorded(names: list[str], kept: dict[str, Any], arrays: dict[str, Any]) -> list[str]:
    """The agents that were recorded here: all of them, or at a site its own."""
    here = list(dict.fromkeys(key.split("/")[1] for key in arrays if key.startswith("agent/")))
    count = len({int(number) for key, column in kept.items() if key.endswith(".agent") for number in column})
    return names if count == len(names) else [name for name in names if name in here][:count]
