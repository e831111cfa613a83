"""What tests of a federation's parts share: four members with their keys, and their file."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.federation.peers import keys
from consilience.federation.peers.federation import Federation, Member, fingerprint

SIGNING = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in range(4)]
SHARED = np.arange(12, dtype=np.float32).reshape(6, 2)
KEYS = [keys.public_key(key) for key in SIGNING]
F = np.full((6, 2), 0.5, np.float32)


@pytest.fixture
def federation() -> Federation:
    roster = tuple(
        Member(name, f"localhost:{7000 + index}", f"cn-{name}", keys.public_key(key))
        for index, (name, key) in enumerate(zip("abcd", SIGNING, strict=True))
    )
    settings = {"run": {"rounds": 9}, "method": {"lam": 0.5}}
    return Federation("trial", "1", ("no", "yes"), 6, fingerprint(SHARED), 4.0, 3, settings, roster)


class Query:
    """A question as Zenoh hands it over."""

    def __init__(self, asker: str, topic: str) -> None:
        self.key_expr, self.parameters = f"consilience/a/{asker}/agent/{topic}", f"nonce={'00' * 16}"
        self.replies: list[bytes] = []
        self.dropped = False

    def reply(self, key: str, data: bytes) -> None:
        self.replies.append(data)

    def drop(self) -> None:
        self.dropped = True
