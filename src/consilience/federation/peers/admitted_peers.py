"""Admitted peers: all members except those that equivocated, were revoked, or have another federation file."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import final

from consilience.base.errors import ConsilienceError
from consilience.federation.peers.audit import AuditLog
from consilience.federation.peers.equivocation import (
    Equivocation,
    agents_with_evidence,
    both_stories,
    equivocations,
    write_evidence,
)
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.frame import Format, Receipt
from consilience.federation.peers.inbox import Inbox, Say
from consilience.federation.peers.outbox import Outbox
from consilience.federation.peers.signed_changes import SignedChanges

GRACE = 5.0
"""Seconds for which a site that ends still shows its federation file, at most."""


@final
class AdmittedPeers:
    """The peers of one site that it listens to."""

    def __init__(
        self,
        federation: Federation,
        me: str,
        folder: Path,
        changes: SignedChanges,
        inbox: Inbox,
        outbox: Outbox,
        audit: AuditLog,
        say: Say,
    ) -> None:
        self._federation, self._me, self._folder, self._changes = federation, me, folder, changes
        self._inbox, self._outbox, self._audit, self._say = inbox, outbox, audit, say
        self._format = Format(federation)
        self.peers = [name for name in federation.names if name != me]
        self._proven = agents_with_evidence(folder / "evidence") - {me}
        """Peers that equivocated."""
        self._stories = both_stories(folder / "evidence", self._format)
        self._brought: dict[str, tuple[Receipt, ...]] = {}
        """The receipts that each peer brought last."""
        self.excluded = set(self._proven)
        """Peers that equivocated, with proof, and those that a quorum has revoked."""
        self._problem = ""
        """The reported problem with a change of the roster."""
        self.apply_roster_change()

    @property
    def members(self) -> set[str]:
        """Peers that may be heard."""
        return set(self.peers) - self.excluded - self._inbox.refused.keys()

    def exclude(self, proof: Equivocation) -> None:
        """Excludes an agent that equivocated, and keeps both signed statements as evidence."""
        agent, path = proof.agent, write_evidence(self._folder / "evidence", self._format.run, proof)
        self._audit.add("excluded", round=proof.round, agent=agent, evidence=str(path))
        if agent == self._me:
            raise ConsilienceError(
                f"someone else signs with this site's key (evidence: {path}). Tell the others, and make a new key."
            )
        self._proven.add(agent)
        self._stories[agent] = proof.first, proof.second
        self.excluded.add(agent)
        self._say(f"{agent} signed two different predictions for round {proof.round}: excluded; evidence in {path}")

    def exclude_equivocators(self, known: Iterable[Receipt], brought: dict[str, tuple[Receipt, ...]]) -> bool:
        """Excludes every agent that signed two different predictions for one round; returns whether there is one.

        `known` are receipts of what this site heard, `brought` those that each peer has. A revoked member can be proven
        to have done so, too.
        """
        proofs = equivocations(self._format, known, brought, self._proven, self._brought)
        self._brought |= brought
        for proof in proofs:
            self.exclude(proof)
        return bool(proofs)

    def stories(self, number: int) -> dict[int, Receipt]:
        """Of each peer that equivocated, by index, one of the two statements that prove it, by turns.

        They are passed on for ever: who missed the round in which others saw the proof sees it later.
        """
        names = self._federation.names
        turn = (number + names.index(self._me)) % 2
        return {names.index(name): pair[turn] for name, pair in self._stories.items()}

    def apply_roster_change(self) -> None:
        """Excludes members that a quorum has revoked; they are not answered any more."""
        self._changes.look()
        if self._changes.problem != self._problem:
            self._problem = self._changes.problem
            if self._problem:
                self._audit.add("refused", agent="", reason=f"change of the roster: {self._problem}")
                self._say(self._problem)
        self._changes.check_own_site(self._me)
        signers = self._changes.revoked
        revoked = signers.keys() & set(self.peers) - self.excluded
        if revoked:
            self.excluded |= revoked
            for peer in sorted(revoked):
                self._audit.add("revoked", agent=peer, by=signers[peer])
                self._say(f"{peer} was revoked by a quorum: it is not heard any more")
            self._outbox.block(revoked)

    def check_quorum_is_possible(self) -> None:
        """An error if too many are excluded, or have another federation file, for a round ever to be closed."""
        quorum = self._federation.quorum
        left = len(self.peers) - len(self.excluded)
        if left < quorum - 1:
            raise ConsilienceError(
                f"{', '.join(sorted(self.excluded))} signed two different predictions for one round, or was revoked; "
                f"without that, {left + 1} agents are left and {quorum} are needed. Agree on a new federation file."
            )
        if len(self.members) < quorum - 1:
            reasons = "; ".join(f"{peer}: {why}" for peer, why in sorted(self._inbox.refused.items()))
            self._show_federation_file()
            raise ConsilienceError(
                f"this site cannot work with its peers: {reasons}. All sites need the same federation file."
            )

    def _show_federation_file(self) -> None:
        """Answers for a few seconds more, so that peers can read this site's file and log what differs."""
        end = time.monotonic() + min(GRACE, self._federation.deadline)
        while time.monotonic() < end and not self._outbox.shown.issuperset(self.peers):
            self._inbox.next_event(0.2)
