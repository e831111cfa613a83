"""A private agent at a site: its ledger, which outlives runs, and what is said and logged of the budget."""

from typing import TYPE_CHECKING, Any, final

import numpy as np

from consilience.agents.protocol import Agent
from consilience.data.files import read_labelled
from consilience.errors import ConsilienceError
from consilience.federation.peers.audit import AuditLog
from consilience.federation.peers.inbox import Say
from consilience.privacy.ledger import LedgerFile, ledger_folder, row_hashes
from consilience.runtime.callbacks import About, Callback, Finished
from consilience.runtime.private import mechanism_of

if TYPE_CHECKING:
    from consilience.federation.site import Prepared


def keep_ledger(prepared: "Prepared", agent: Agent, audit: AuditLog, say: Say) -> LedgerFile | None:
    """Opens the ledger of the site's private rows, if its agent is private; from now on rounds are entered into it."""
    mechanism = mechanism_of(agent)
    if mechanism is None:
        if prepared.site.privacy.on:
            raise ConsilienceError(
                f"site.toml promises epsilon {prepared.site.privacy.epsilon:g}, but the agent that "
                f"{prepared.site.python} makes is not private. Make a TorchAgent with privacy=Privacy(epsilon=...)."
            )
        return None
    site = prepared.site
    folder = prepared.path(site.ledger) if site.ledger else ledger_folder()
    if folder.resolve().is_relative_to(prepared.out.resolve()):
        raise ConsilienceError(f"the ledger {folder} is in the run folder, and would go with it. Keep it elsewhere.")
    mechanism.agent = agent.name
    file = LedgerFile(folder, _rows(prepared, agent))
    mechanism.keep(file)
    spent = mechanism.record()
    audit.add("ledger", path=str(file.path), data=file.fingerprint, spent=spent, budget=mechanism.privacy.epsilon)
    if file.entries:
        say(f"privacy: epsilon {spent:.3f} of {mechanism.privacy.epsilon:g} is spent on these private rows already")
    return file


def _rows(prepared: "Prepared", agent: Any) -> list[str]:
    """Hashes of the private rows as they are in the file, before anything is done to them."""
    site = prepared.site
    if site.data:
        found = read_labelled(
            prepared.path(site.data),
            site.label,
            prepared.federation.classes,
            prepared.columns,
            task=prepared.federation.task,
            table=hasattr(prepared.shared, "iloc"),
            side=site.side,
        )
        return row_hashes(*found)
    return row_hashes(np.asarray(agent.x), np.asarray(agent.y))


@final
class Spending(Callback):
    """Logs after every round what is spent, and says once that the budget is."""

    def __init__(self, agent: Agent, audit: AuditLog, say: Say) -> None:
        self._agent, self._audit, self._say = agent, audit, say
        self._said = False

    def round(self, run: About, news: Finished) -> None:
        """A round has ended."""
        mechanism = mechanism_of(self._agent)
        if mechanism is None:
            return
        spent, trained = mechanism.record(), not mechanism.stopped
        self._audit.add("privacy", round=news.number, epsilon=spent, trained=trained)
        if mechanism.stopped and not self._said:
            self._said = True
            self._say(
                f"the privacy budget is spent (epsilon {spent:.3f} of {mechanism.privacy.epsilon:g}): no "
                "more training on private rows; peers get the last predictions from now on"
            )
