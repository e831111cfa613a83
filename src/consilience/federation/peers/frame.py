"""The wire format between sites: frames of known length. Nothing in them is self-describing, compressed or pickled.

They are made here and read in `untrusted_input.py`.

    header | receipts, one per agent of the roster | predictions | signature

A frame is signed over its header and the hashes of the other two parts. A receipt repeats what another agent signed in
an earlier round. Two receipts for one agent and round that differ prove equivocation: it signed both.
"""

import hashlib
import struct
from dataclasses import dataclass
from typing import NamedTuple, final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.core.wire import FORMS
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.keys import is_signed
from consilience.tasks.protocol import Array

VERSION = 4
HEADER = struct.Struct("<4sHHIIIQ32sH")
"""magic, version, form of the numbers, samples, classes, round, sequence, run identity, agent's index in the roster."""
RECEIPT = struct.Struct("<IQ32s32s64s")
"""round, sequence, hash of the receipts, hash of the predictions, signature."""
STATUS = struct.Struct("<32sd16s")
"""fingerprint of the shared data, clock, nonce."""
SIGNATURE = 64
NO_RECEIPT = bytes(RECEIPT.size)
NONCE = 16


class Receipt(NamedTuple):
    """What an agent signed in a round, except for the predictions themselves."""

    agent: int
    round: int
    sequence: int
    receipts_hash: bytes
    payload_hash: bytes
    signature: bytes

    def pack(self) -> bytes:
        """The receipt as bytes; its agent follows from its position."""
        return RECEIPT.pack(self.round, self.sequence, self.receipts_hash, self.payload_hash, self.signature)

    def contradicts(self, other: "Receipt") -> bool:
        """Whether the two are for the same agent and round, and differ."""
        return (self.agent, self.round) == (other.agent, other.round) and self != other


@dataclass(frozen=True)
class Frame:
    """A frame that was accepted."""

    receipt: Receipt
    others: tuple[Receipt, ...]
    """Receipts of what its sender heard in its last exchange."""
    predictions: Array
    """(samples, classes)."""


@final
class Format:
    """The frames of one federation."""

    def __init__(self, federation: Federation) -> None:
        self.run = federation.identity()
        self.shared = bytes.fromhex(federation.shared)
        self.samples, self.classes = federation.samples, len(federation.classes)
        self.names, self.task = federation.names, federation.task
        self.keys = [member.key for member in federation.roster]
        self.rounds = federation.agreed.run.rounds
        self.receipts = RECEIPT.size * len(self.names)
        self.wire = federation.agreed.method.wire
        self.form = 1 + FORMS.index(self.wire.form)
        self.payload = self.wire.size(self.samples, self.classes)
        self.length = HEADER.size + self.receipts + self.payload + SIGNATURE
        """Of every frame, in bytes."""

    def make(
        self, key: Ed25519PrivateKey, agent: int, number: int, sequence: int, receipts: dict[int, Receipt], f: Array
    ) -> tuple[Frame, bytes]:
        """A signed frame with the predictions `f` and the `receipts` of the last exchange, by index; and its bytes.

        The frame holds the predictions as its readers will have them.
        """
        packed, payload = self.pack_receipts(receipts), self.wire.encode(f)
        header, hashes = self._header(agent, number, sequence), (hash_of(packed), hash_of(payload))
        receipt = Receipt(agent, number, sequence, *hashes, key.sign(header + b"".join(hashes)))
        data = b"".join((header, packed, payload, receipt.signature))
        return Frame(receipt, tuple(receipts[i] for i in sorted(receipts)), self.wire.rounded(f)), data

    def is_genuine(self, receipt: Receipt) -> bool:
        """Whether the agent named in the receipt signed it."""
        header = self._header(receipt.agent, receipt.round, receipt.sequence)
        message = header + receipt.receipts_hash + receipt.payload_hash
        return is_signed(self.keys[receipt.agent], receipt.signature, message)

    def pack_status(self, clock: float, nonce: bytes) -> bytes:
        """A status. The nonce is that of the request; run and round are in the message that it is sent in."""
        return STATUS.pack(self.shared, clock, nonce)

    def pack_receipts(self, receipts: dict[int, Receipt]) -> bytes:
        """Receipts by index in the roster; zeros where there is none."""
        return b"".join(receipts[i].pack() if i in receipts else NO_RECEIPT for i in range(len(self.names)))

    def _header(self, agent: int, number: int, sequence: int) -> bytes:
        return HEADER.pack(b"CNSL", VERSION, self.form, self.samples, self.classes, number, sequence, self.run, agent)


@dataclass(frozen=True)
class Status:
    """What a peer says about itself."""

    run: bytes
    """The identity of its federation file."""
    same_run: bool
    same_shared: bool
    round: int
    """The round whose predictions it published last; 0 before the first."""
    clock: float


def hash_of(data: bytes | memoryview) -> bytes:
    """SHA-256."""
    return hashlib.sha256(data).digest()
