"""A change of the roster, signed by a quorum: a member is revoked, gets new keys or another address, or joins."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.base import toml
from consilience.base.errors import ConsilienceError
from consilience.base.options import Options, option, to_table
from consilience.federation.peers.federation import Federation, Member, default_quorum
from consilience.federation.peers.keys import is_signed, public_key, signature_bytes


@dataclass(frozen=True)
class Change(Options):
    """A change of the roster, and its signatures."""

    federation: str = option(meaning="identity of the federation file that is changed")
    remove: tuple[str, ...] = option(meaning="members that are revoked")
    members: tuple[Member, ...] = option(meaning="members with new keys or addresses, or new ones")
    signatures: dict[str, Any] = option(meaning="of members, by name")

    def message(self) -> bytes:
        """The signed bytes: no frame, status or line of a log begins like them."""
        content = [self.federation, list(self.remove), [asdict(member) for member in self.members]]
        return b"CNSR" + json.dumps(content, sort_keys=True).encode()

    def with_signature(self, federation: Federation, agent: str, key: Ed25519PrivateKey) -> "Change":
        """The change with one more signature."""
        if federation.member(agent).key != public_key(key) or federation.identity().hex() != self.federation:
            raise ConsilienceError("the key is not that of this agent, or the change is for another federation file.")
        return replace(self, signatures=self.signatures | {agent: key.sign(self.message()).hex()})

    def signers(self, federation: Federation) -> list[str]:
        """Members with a genuine signature."""
        message = self.message()
        given = {name: signature_bytes(self.signatures[name]) for name in federation.names if name in self.signatures}
        return [name for name, signature in given.items() if is_signed(federation.member(name).key, signature, message)]

    def check(self, federation: Federation) -> None:
        """Refuses a change for another file, or without the signatures of a quorum."""
        if self.federation != federation.identity().hex():
            raise ConsilienceError("the change is for another federation file, or another epoch of it.")
        signers = self.signers(federation)
        if len(signers) < federation.quorum:
            raise ConsilienceError(
                f"{len(signers)} members have signed the change ({', '.join(signers) or 'nobody'}); "
                f"{federation.quorum} are needed. They sign with `consilience federation sign`."
            )

    def describe(self) -> str:
        """The change in words."""
        removed = [f"revokes {name}" for name in self.remove]
        return ", ".join(removed + [f"gives {member.agent} new keys or another address" for member in self.members])

    def to_toml(self) -> str:
        """The file's text."""
        return toml.dump(to_table(self))


def apply_changes(changes: Iterable[Change], federation: Federation) -> Federation:
    """The federation in its next epoch, after all changes that quorums signed for it. Their order does not matter.

    A member that one change revokes gets no new key by another.
    """
    ordered = sorted(changes, key=Change.message)
    for change in ordered:
        change.check(federation)
    new = {
        member.agent: member
        for change in ordered
        for member in change.members
        if not any(member.agent in other.remove for other in ordered if other is not change)
    }
    revoked = {name for change in ordered for name in change.remove}
    remaining = [new.pop(member.agent, member) for member in federation.roster if member.agent not in revoked]
    roster = (*remaining, *new.values())
    quorum, number = default_quorum(len(roster)), federation.version + 1
    return replace(federation, roster=roster, quorum=quorum, epoch=federation.epoch + 1, version=number, signatures={})
