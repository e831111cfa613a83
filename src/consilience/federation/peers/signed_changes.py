"""Changes of the roster that a quorum signed, kept on disk: a member that was revoked stays revoked.

Each site keeps them beside its signing key, with the federation file that they change. So every command can check the
signatures, in this run and in later ones.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import final

from consilience.base.errors import ConsilienceError
from consilience.base.files import write_atomically
from consilience.federation.peers.change import Change
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.untrusted_input import read_change, read_federation

PROPOSED = "change.toml"
"""The file beside site.toml into which an operator puts a change."""
KEPT = "changes"
"""The folder beside the signing key in which the site keeps what a quorum signed."""


@dataclass(frozen=True)
class SignedChange:
    """A change that a quorum signed, and the federation file that it is for."""

    federation: Federation
    change: Change

    def revoked_keys(self) -> set[str]:
        """The keys of revoked members."""
        return {member.key for member in self.federation.roster if member.agent in self.change.remove}

    def withdrawn_keys(self) -> set[str]:
        """Keys of revoked members and replaced keys: no later federation file may hold them."""
        new = {member.agent: member.key for member in self.change.members}
        replaced = {member.key for member in self.federation.roster if new.get(member.agent, member.key) != member.key}
        return self.revoked_keys() | replaced


@final
class SignedChanges:
    """The signed changes that one site knows of, and what they mean for a federation file.

    Args:
        federation: The file that the site works with now.
        keys: The folder of the signing key; None keeps nothing.
        proposed: Files that may hold a change. It is applied when a quorum has signed it.
    """

    def __init__(self, federation: Federation, keys: Path | None, proposed: Sequence[Path] = ()) -> None:
        self._federation, self._proposed = federation, list(dict.fromkeys(proposed))
        self._folder = keys / KEPT if keys is not None else None
        self._seen: dict[Path, int] = {}
        """The modification time of each proposed file when it was read."""
        self._next_look = 0.0
        self.problem = ""
        """Why the last proposed change is not applied, or not kept; empty if it is."""
        self.revoked: dict[str, list[str]] = {}
        """Members that a quorum revoked, and the signers."""
        self._known: list[SignedChange] = []
        for signed in [] if self._folder is None else _read_kept(self._folder, federation.id):
            self._add(signed)
        self.look()

    @property
    def unapplied(self) -> list[Change]:
        """Changes that a quorum signed for just this federation file."""
        identity = self._federation.identity().hex()
        return [signed.change for signed in self._known if signed.change.federation == identity]

    def look(self, at_once: bool = False) -> None:
        """Reads proposed changes that are new: at once, or at most once a second."""
        now = time.monotonic()
        if now < self._next_look and not at_once:
            return
        self._next_look = now + 1.0
        for path in self._proposed:
            try:
                modified = path.stat().st_mtime_ns
            except OSError:
                continue
            if modified == self._seen.get(path):
                continue
            self._seen[path], self.problem = modified, ""
            try:
                self.keep(read_change(path))
            except ConsilienceError as error:
                self.problem = f"{path} is not applied: {error}"

    def keep(self, change: Change) -> None:
        """Applies a change from now on; an error if no quorum signed it for this federation file."""
        if any(signed.change.message() == change.message() for signed in self._known):
            return
        self.check_new_keys(change)
        change.check(self._federation)
        self._add(SignedChange(self._federation, change))
        if self._folder is None:
            return
        folder = self._folder / f"epoch-{self._federation.epoch}-{sha256(change.message()).hexdigest()[:16]}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / "federation.toml", self._federation.to_toml().encode())
            write_atomically(folder / "change.toml", change.to_toml().encode())
        except OSError as error:
            self.problem = (
                f"the signed change is applied, but cannot be kept for later runs: {folder}: {error.strerror}"
            )

    def _add(self, signed: SignedChange) -> None:
        self._known.append(signed)
        keys, signers = signed.revoked_keys(), signed.change.signers(signed.federation)
        self.revoked |= {member.agent: signers for member in self._federation.roster if member.key in keys}

    def check_new_keys(self, change: Change) -> None:
        """Refuses a change that brings back a key which it or an earlier change withdrew."""
        changes = [*self._known, SignedChange(self._federation, change)]
        withdrawn = {key for signed in changes for key in signed.withdrawn_keys()}
        names = [member.agent for member in change.members if member.key in withdrawn]
        if names:
            raise ConsilienceError(f"the key of {', '.join(names)} was withdrawn. To come back, make a new key.")

    def check_own_site(self, agent: str) -> None:
        """Refuses to act as a member that was revoked."""
        if agent in self.revoked:
            raise ConsilienceError("this site was revoked by a quorum of the members. Ask them why.")

    def check_roster(self) -> None:
        """Refuses a federation file that lacks a change which a quorum signed in an earlier epoch."""
        for signed in self._known:
            before, keys = signed.federation, signed.withdrawn_keys()
            names = [member.agent for member in self._federation.roster if member.key in keys]
            if names and before.epoch < self._federation.epoch:
                raise ConsilienceError(
                    f"the federation file of epoch {self._federation.epoch} has the key of {', '.join(names)} that a "
                    f"quorum withdrew in epoch {before.epoch}. Take the federation file of epoch {before.epoch} (a "
                    f"copy is in {self._folder}) and write the change into it: consilience federation apply."
                )


def _read_kept(folder: Path, federation: str) -> list[SignedChange]:
    """The changes kept in a folder for the federation with this `id`. Their signatures are checked again."""
    kept = []
    for path in sorted(folder.glob(f"*/{PROPOSED}")):
        try:
            before, change = read_federation(path.parent / "federation.toml"), read_change(path)
            change.check(before)
        except ConsilienceError as error:
            raise ConsilienceError(
                f"{path.parent}, in which this site keeps a change that a quorum signed, is damaged: {error} Restore "
                "it."
            ) from error
        if before.id == federation:
            kept.append(SignedChange(before, change))
    return kept
