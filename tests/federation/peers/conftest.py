"""What tests of a federation's parts share: four members with their keys, and their file."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from consilience.federation.peers.federation import Federation, Member, fingerprint
from consilience.federation.peers.frame import NONCE
from consilience.federation.peers.keys import SiteKeys, public_key
from consilience.federation.peers.sealing import Kind, Message, Sealer

NAMES = "abcdefghijklmnop"
SIGNING = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in range(len(NAMES))]
SITE_KEYS = [
    SiteKeys(key, X25519PrivateKey.from_private_bytes(bytes([100 + number]) * 32)) for number, key in enumerate(SIGNING)
]
SHARED = np.arange(12, dtype=np.float32).reshape(6, 2)
KEYS = [public_key(key) for key in SIGNING]
F = np.full((6, 2), 0.5, np.float32)


def federation_of(members: int = 4, quorum: int = 3) -> Federation:
    """Members a, b, c, ..., with the keys `SITE_KEYS`."""
    roster = tuple(
        Member(NAMES[index], public_key(key.signing), public_key(key.encryption), f"localhost:{7000 + index}")
        for index, key in enumerate(SITE_KEYS[:members])
    )
    settings = {"run": {"rounds": 9}, "method": {"lam": 0.5}}
    return Federation("trial", "1", ("no", "yes"), 6, fingerprint(SHARED), 4.0, quorum, settings, roster)


def sealer(federation: Federation, name: str) -> Sealer:
    """What seals and opens for a member."""
    return Sealer(federation, name, SITE_KEYS[NAMES.index(name)])


@pytest.fixture
def federation() -> Federation:
    return federation_of()


class Query:
    """A sealed question of a member to member a of a federation."""

    def __init__(self, federation: Federation, asker: str, topic: str, number: int = 0) -> None:
        self._sealer = sealer(federation, asker)
        self.message = self._sealer.seal(Kind.QUESTION, bytes(NONCE) + topic.encode(), ["a"], number)
        self.replies: list[bytes] = []
        self.dropped = False

    def reply(self, message: bytes) -> None:
        self.replies.append(message)

    def drop(self) -> None:
        self.dropped = True

    def opened(self) -> list[Message]:
        """The answers, as who asked reads them."""
        return [self._sealer.open(message, *Kind) for message in self.replies]
