"""Equivocation: an agent that signs two different predictions for one round. Receipts prove it."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from consilience.base.files import write_atomically
from consilience.federation.peers.frame import Format, Receipt


@dataclass(frozen=True)
class Equivocation:
    """Two different predictions that an agent signed for one round."""

    agent: str
    first: Receipt
    second: Receipt
    reporter: str
    """Who brought the second one."""

    @property
    def round(self) -> int:
        """The round for which both were signed."""
        return self.first.round


def equivocations(
    format: Format, known: Iterable[Receipt], brought: Mapping[str, Iterable[Receipt]], excluded: Collection[str]
) -> list[Equivocation]:
    """The first one of each agent that is not excluded yet, as receipts show.

    `known` are receipts of what this site heard, `brought` those that each peer has of what it heard. Of these only
    genuine ones count, so that nobody can accuse another of what it did not sign.
    """
    signed = {(receipt.agent, receipt.round): receipt for receipt in known}
    found: dict[str, Equivocation] = {}
    for reporter, receipts in brought.items():
        for receipt in receipts:
            name, first = format.names[receipt.agent], signed.get((receipt.agent, receipt.round))
            if name in excluded or name in found or (first is not None and not receipt.contradicts(first)):
                continue
            if format.is_genuine(receipt):
                signed[receipt.agent, receipt.round] = receipt
                if first is not None:
                    found[name] = Equivocation(name, first, receipt, reporter)
    return list(found.values())


def write_evidence(folder: Path, run: bytes, found: Equivocation) -> Path:
    """Keeps both signed statements in a file that anybody who holds the agent's public key can check."""
    both = (found.first, found.second)
    receipts = [{"round": r.round, "sequence": r.sequence, "packed": r.pack().hex()} for r in both]
    evidence = {"agent": found.agent, "run": run.hex(), "heard through": found.reporter, "receipts": receipts}
    path = folder / f"{found.agent}.json"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(evidence, indent=2).encode())
    return path


def agents_with_evidence(folder: Path) -> set[str]:
    """Agents of whom equivocation was proven before."""
    return {path.stem for path in folder.glob("*.json")}
