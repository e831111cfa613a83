"""The privacy ledger of a site's private agent, which outlives runs, and reports of its budget."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from consilience.agents.protocol import Agent
from consilience.base.errors import ConsilienceError
from consilience.base.files import write_atomically
from consilience.data.files import read_labelled, read_table, split_names
from consilience.federation.peers import keys
from consilience.federation.peers.audit import AuditLog
from consilience.federation.peers.inbox import Say
from consilience.privacy.ledger import LedgerFile, ledger_folder
from consilience.privacy.ledger_files import LedgerOwner
from consilience.runtime.callbacks import Callback, Finished, RunInfo
from consilience.runtime.privacy_budget import mechanism_of

if TYPE_CHECKING:
    from consilience.federation.site import LoadedSite

BEGUN = "begun-ledgers.json"
"""Beside the signing key: the privacy ledgers that this site has begun, by name."""


def keep_ledger(loaded: "LoadedSite", agent: Agent, audit: AuditLog, say: Say) -> LedgerFile | None:
    """Opens the ledger of the site's private rows, if its agent is private; each round is entered into it."""
    mechanism = mechanism_of(agent)
    if mechanism is None:
        if loaded.site.privacy.on:
            raise ConsilienceError(
                f"site.toml promises epsilon {loaded.site.privacy.epsilon:g}, but the agent that "
                f"{loaded.site.python} makes is not private. Make a TorchAgent with privacy=Privacy(epsilon=...)."
            )
        return None
    site = loaded.site
    folder = loaded.path(site.ledger) if site.ledger else ledger_folder()
    if folder.resolve().is_relative_to(loaded.out.resolve()):
        raise ConsilienceError(f"the ledger {folder} is in the run folder, and would go with it. Keep it elsewhere.")
    mechanism.agent = agent.name
    begun = _check_begun(loaded, folder)
    file = LedgerFile(folder, _raw_rows(loaded, agent), _owner(loaded))
    if file.name not in begun:
        write_atomically(_begun_path(loaded), json.dumps([*begun, file.name], indent=1).encode())
    mechanism.keep(file)
    spent = mechanism.record()
    audit.add("ledger", path=str(file.path), spent=spent, budget=mechanism.privacy.epsilon, similar=file.similar)
    if file.similar:
        say(
            f"privacy: these rows seem to be those of the ledger {', '.join(file.similar)}, written otherwise; what "
            "was spent there counts. If they are other rows, name it in `other_ledgers` in site.toml"
        )
    if file.entries:
        say(f"privacy: epsilon {spent:.3f} of {mechanism.privacy.epsilon:g} is spent on these private rows already")
    return file


def _owner(loaded: "LoadedSite") -> LedgerOwner:
    """This site, which signs its entries."""
    signing = loaded.keys.signing
    return LedgerOwner(keys.public_key(signing), signing.sign, keys.is_signed, loaded.site.other_ledgers)


def _begun_path(loaded: "LoadedSite") -> Path:
    return loaded.path(loaded.site.signing_key).parent / BEGUN


def _check_begun(loaded: "LoadedSite", folder: Path) -> list[str]:
    """Names of the ledgers that this site has begun; an error if one of them is not in the folder any more."""
    path = _begun_path(loaded)
    try:
        begun = json.loads(path.read_bytes()) if path.is_file() else []
    except (ValueError, RecursionError):
        begun = None
    if not isinstance(begun, list) or not all(isinstance(name, str) for name in begun):
        raise ConsilienceError(f"{path}, which lists the privacy ledgers of this site, is damaged. Restore it.")
    for name in begun:
        if name not in loaded.site.other_ledgers and not (folder / f"{name}.jsonl").is_file():
            raise ConsilienceError(
                f"this site has begun the privacy ledger {name}, and it is not in {folder}. Restore that folder, or "
                "set `ledger` in site.toml (or CONSILIENCE_LEDGER) to where it is now. If it is of other rows than "
                f"those of today, say so in site.toml: other_ledgers = {json.dumps([name])}"
            )
    return begun


def _raw_rows(loaded: "LoadedSite", agent: Any) -> Any:
    """The private rows without labels as they are in the file, before any preprocessing."""
    site = loaded.site
    if not site.data:
        return agent.x
    path = loaded.path(site.data)
    if path.suffix.lower() in (".csv", ".parquet"):
        return read_table(path).drop(columns=split_names(site.label), errors="ignore")
    return read_labelled(path, site.label, (), side=site.side)[0]


@final
class Spending(Callback):
    """Logs the spent budget after every round, and says once when all of it is spent."""

    def __init__(self, agent: Agent, audit: AuditLog, say: Say) -> None:
        self._agent, self._audit, self._say = agent, audit, say
        self._announced = False

    def round(self, run: RunInfo, news: Finished) -> None:
        """A round has ended."""
        mechanism = mechanism_of(self._agent)
        if mechanism is None:
            return
        spent, trained = mechanism.record(), not mechanism.stopped
        self._audit.add("privacy", round=news.number, epsilon=spent, trained=trained)
        if mechanism.stopped and not self._announced:
            self._announced = True
            self._say(
                f"the privacy budget is spent (epsilon {spent:.3f} of {mechanism.privacy.epsilon:g}): no "
                "more training on private rows; peers get the last predictions from now on"
            )
