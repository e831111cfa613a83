"""Equivocation: an agent that signs two different predictions for one round. Receipts prove it."""

import json
import struct
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from consilience.base.files import write_atomically
from consilience.federation.peers.frame import RECEIPT, Format, Receipt


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
    format: Format,
    known: Iterable[Receipt],
    brought: Mapping[str, Iterable[Receipt]],
    excluded: Collection[str],
    before: Mapping[str, Iterable[Receipt]] | None = None,
) -> list[Equivocation]:
    """The first equivocation of each agent that is not excluded yet.

    `known` are receipts of what this site heard, `brought` the receipts of each peer, and `before` those that the peer
    brought the time before. Of these only genuine ones count, so that nobody can be accused of what it did not sign.
    """
    signed = {(receipt.agent, receipt.round): receipt for receipt in known}
    proofs: dict[str, Equivocation] = {}
    for reporter, receipts in brought.items():
        earlier = {receipt.agent: receipt for receipt in (before or {}).get(reporter, ())}
        for receipt in receipts:
            other = earlier.get(receipt.agent)
            if other is not None and other.contradicts(receipt) and format.is_genuine(other):
                signed.setdefault((other.agent, other.round), other)
            name, first = format.names[receipt.agent], signed.get((receipt.agent, receipt.round))
            if name in excluded or name in proofs or (first is not None and not receipt.contradicts(first)):
                continue
            if format.is_genuine(receipt):
                signed[receipt.agent, receipt.round] = receipt
                if first is not None:
                    proofs[name] = Equivocation(name, first, receipt, reporter)
    return list(proofs.values())


def write_evidence(folder: Path, run: bytes, proof: Equivocation) -> Path:
    """Writes both signed statements into a file that anybody with the agent's public key can check."""
    both = (proof.first, proof.second)
    receipts = [{"round": r.round, "sequence": r.sequence, "packed": r.pack().hex()} for r in both]
    evidence = {"agent": proof.agent, "run": run.hex(), "heard through": proof.reporter, "receipts": receipts}
    path = folder / f"{proof.agent}.json"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(evidence, indent=2).encode())
    return path


def both_stories(folder: Path, format: Format) -> dict[str, tuple[Receipt, Receipt]]:
    """By agent, the two statements in each file of evidence that can still be read."""
    stories = {}
    for name in agents_with_evidence(folder) & set(format.names):
        with suppress(OSError, ValueError, KeyError, TypeError, struct.error):
            first, second = json.loads((folder / f"{name}.json").read_bytes())["receipts"]
            index = format.names.index(name)
            pair = (Receipt(index, *RECEIPT.unpack(bytes.fromhex(said["packed"]))) for said in (first, second))
            stories[name] = next(pair), next(pair)
    return stories


def agents_with_evidence(folder: Path) -> set[str]:
    """Agents whose equivocation was proven before."""
    return {path.stem for path in folder.glob("*.json")}
