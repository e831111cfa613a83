"""Is an audit log whole? Its own chain and signatures show a change, receipts show that its end is missing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

from consilience.base.errors import ConsilienceError
from consilience.federation.peers.audit import broken_at, read_audit
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.frame import Format, Receipt
from consilience.federation.peers.untrusted_input import (
    InvalidInput,
    frame_from,
    printable,
    read_federation,
    stored_receipts_from,
)


@dataclass(frozen=True)
class Verdict:
    """What can be said of an audit log."""

    state: str
    """whole | cut | rewritten."""
    reason: str
    lines: int
    receipts: int
    """Signed statements of this site, at its peers or its own, that were compared with the log."""


def verify_log(run: Path, peers: Sequence[Path] = ()) -> Verdict:
    """The verdict on the log of a run folder.

    Args:
        run: The site's run folder.
        peers: Other sites' run folders, or files from their folder `published`: what they received from this site,
            with its signature. They prove how far the log must go; without them only the site's own files do.
    """
    log = run / "audit.jsonl"
    if not log.is_file():
        raise ConsilienceError(f"{run} holds no audit.jsonl. Give the run folder of a site.")
    federation = read_federation(run / "federation.toml")
    events = read_audit(log)
    me = str(next((event.get("agent") for event in events if event["event"] == "start"), ""))
    if me not in federation.names:
        return Verdict("rewritten", "it does not begin with the start of a member of the federation", len(events), 0)
    receipts = list(_receipts_of(federation, me, [run, *peers]))
    whole = Verdict("whole", "every line follows from the one before it and is signed", len(events), len(receipts))
    broken = broken_at(log, federation.member(me).key)
    if broken is not None:
        return replace(
            whole, state="rewritten", reason=f"line {broken} does not follow from the line before it, or is not signed"
        )
    sent = {event["round"]: event["hash"] for event in events if event["event"] == "sent"}
    for receipt in sorted(receipts, key=attrgetter("round")):
        if receipt.round not in sent:
            return replace(whole, state="cut", reason=f"{me} signed round {receipt.round}, and no line says so")
        if sent[receipt.round] != receipt.payload_hash.hex():
            return replace(
                whole, state="rewritten", reason=f"{me} signed other predictions for round {receipt.round} than it says"
            )
    if (run / "summary.json").is_file() and not any(event["event"] == "finished" for event in events):
        return replace(whole, state="cut", reason="the run is finished, and no line says so")
    if not log.read_bytes().endswith(b"\n"):
        return replace(whole, state="cut", reason="it ends within a line")
    return whole


def _receipts_of(federation: Federation, me: str, paths: Iterable[Path]) -> Iterable[Receipt]:
    """Genuine receipts of agent `me` in frames and files of receipts."""
    format, index = Format(federation), federation.names.index(me)
    for path in paths:
        folder = path / "published"
        files = sorted(folder.iterdir()) if folder.is_dir() else [path] if path.is_file() else []
        if not files and path.name != "published" and not (path / "audit.jsonl").is_file():
            raise ConsilienceError(f"{path} is neither a run folder nor a file from its folder `published`.")
        for file in files:
            for receipt in _in_file(format, file):
                if receipt.agent == index and format.is_genuine(receipt):
                    yield receipt


def _in_file(format: Format, path: Path) -> list[Receipt]:
    data = path.read_bytes()[: format.length + 1]
    if path.name == "receipts":
        return list(stored_receipts_from(format, data)[1])
    for agent in range(len(format.names)):
        try:
            frame = frame_from(format, data, agent)
        except InvalidInput as error:
            problem = str(error)
            continue
        return [frame.receipt, *frame.others]
    raise ConsilienceError(f"{path} holds no frame of this federation ({printable(problem)}).")
