"""What travels: frames of exactly known length. Nothing in them is self-describing, compressed or pickled.

    header | receipts, one per agent of the roster | predictions | signature

A frame is signed over its header and the hashes of the other two parts. A receipt repeats what another agent signed in
an earlier round. Two receipts for one agent and round that differ prove equivocation: it signed both.
"""

import hashlib
import struct
from dataclasses import dataclass
from typing import final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.core.wire import FORMS
from consilience.errors import ConsilienceError
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.keys import is_signed
from consilience.tasks import TASKS
from consilience.tasks.protocol import Array, checked_predictions

VERSION = 1
_HEADER = struct.Struct("<4sHHIIIQ32sH")
"""magic, version, form of the numbers, samples, classes, round, sequence, run identity, agent's place in the roster."""
_RECEIPT = struct.Struct("<IQ32s32s64s")
"""round, sequence, hash of the receipts, hash of the predictions, signature."""
_STATUS = struct.Struct("<4sH32s32sIdH16s")
"""magic, version, run identity, fingerprint of the shared data, round, clock, agent's place in the roster, nonce."""
SIGNATURE = 64
NO_RECEIPT = bytes(_RECEIPT.size)
NONCE = 16


class FrameError(Exception):
    """Why a frame is not accepted."""


@dataclass(frozen=True)
class Receipt:
    """What an agent signed in a round, without the predictions."""

    agent: int
    round: int
    sequence: int
    receipts_hash: bytes
    payload_hash: bytes
    signature: bytes

    def pack(self) -> bytes:
        """The receipt as it travels; whose it is follows from its place."""
        return _RECEIPT.pack(self.round, self.sequence, self.receipts_hash, self.payload_hash, self.signature)

    def contradicts(self, other: "Receipt") -> bool:
        """Whether the two are of one agent and round, and not the same."""
        return (self.agent, self.round) == (other.agent, other.round) and self.pack() != other.pack()


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
        self.samples, self.classes = federation.shared_samples, len(federation.classes)
        self.names = federation.names
        self.keys = [member.key for member in federation.roster]
        self.receipts = _RECEIPT.size * len(self.names)
        self.wire = federation.agreed.method.wire
        self.form = 1 + FORMS.index(self.wire.form)
        self.payload = self.wire.size(self.samples, self.classes)
        self.length = _HEADER.size + self.receipts + self.payload + SIGNATURE
        """Of every frame, in bytes."""

    def pack(
        self, key: Ed25519PrivateKey, agent: int, number: int, sequence: int, receipts: dict[int, Receipt], f: Array
    ) -> bytes:
        """A signed frame with the predictions `f`, and `receipts` of what was heard before, by place in the roster."""
        packed = b"".join(receipts[i].pack() if i in receipts else NO_RECEIPT for i in range(len(self.names)))
        payload = self.wire.encode(f)
        message = self._message(agent, number, sequence, _hash(packed), _hash(payload))
        return self._header(agent, number, sequence) + packed + payload + key.sign(message)

    def unpack(self, data: bytes, agent: int, number: int | None = None) -> Frame:
        """The frame of `agent` in round `number` (None: whatever it says). Anything else is a FrameError."""
        if len(data) != self.length:
            raise FrameError(f"{len(data)} bytes instead of {self.length}")
        magic, version, form, samples, classes, found, sequence, run, sender = _HEADER.unpack_from(data)
        wanted = {
            "magic": (magic, b"CNSL"),
            "version": (version, VERSION),
            "form": (form, self.form),
            "shape": ((samples, classes), (self.samples, self.classes)),
            "run": (run, self.run),
            "agent": (sender, agent),
            "round": (found, found if number is None else number),
        }
        for what, (is_, should) in wanted.items():
            if is_ != should:
                shown = f" ({is_} instead of {should})" if what in ("version", "shape", "round", "agent") else ""
                raise FrameError(f"wrong {what}{shown}")
        view = memoryview(data)
        receipts, rest = view[_HEADER.size :][: self.receipts], view[_HEADER.size + self.receipts :]
        payload, signature = rest[: self.payload], bytes(rest[self.payload :])
        receipt = Receipt(agent, found, sequence, _hash(receipts), _hash(payload), signature)
        if not self.is_genuine(receipt):
            raise FrameError(f"not signed by {self.names[agent]}")
        try:
            f = self.wire.decode(bytes(payload), self.samples, self.classes)
            f = checked_predictions(self.names[agent], f, self.samples, self.classes, TASKS.find("classification"))
        except ConsilienceError as error:
            raise FrameError(str(error)) from None
        return Frame(receipt, self._others(receipts), f)

    def is_genuine(self, receipt: Receipt) -> bool:
        """Whether the agent named in the receipt signed it."""
        message = self._message(
            receipt.agent, receipt.round, receipt.sequence, receipt.receipts_hash, receipt.payload_hash
        )
        return is_signed(self.keys[receipt.agent], receipt.signature, message)

    def pack_status(self, key: Ed25519PrivateKey, agent: int, number: int, clock: float, nonce: bytes) -> bytes:
        """A signed status: who is there, in which run and round. The nonce is that of the request."""
        body = _STATUS.pack(b"CNSS", VERSION, self.run, self.shared, number, clock, agent, nonce)
        return body + key.sign(body)

    def unpack_status(self, data: bytes, agent: int, nonce: bytes) -> "Status":
        """The status of `agent`, in this run or another one. Anything else is a FrameError."""
        if len(data) != _STATUS.size + SIGNATURE:
            raise FrameError(f"a status of {len(data)} bytes instead of {_STATUS.size + SIGNATURE}")
        body, signature = data[: _STATUS.size], data[_STATUS.size :]
        magic, version, run, shared, number, clock, sender, answered = _STATUS.unpack(body)
        if magic != b"CNSS" or version != VERSION:
            raise FrameError("not a status of this version")
        if (sender, answered) != (agent, nonce) and run == self.run:
            raise FrameError("a status of another agent, or an old one")
        if answered != nonce or not is_signed(self.keys[agent], signature, body):
            raise FrameError(f"a status that is not signed by {self.names[agent]}")
        return Status(run == self.run, shared == self.shared, number, clock)

    def _others(self, receipts: memoryview) -> tuple[Receipt, ...]:
        parts = [receipts[at : at + _RECEIPT.size] for at in range(0, len(receipts), _RECEIPT.size)]
        return tuple(
            Receipt(place, *_RECEIPT.unpack(part)) for place, part in enumerate(parts) if bytes(part) != NO_RECEIPT
        )

    def _header(self, agent: int, number: int, sequence: int) -> bytes:
        return _HEADER.pack(b"CNSL", VERSION, self.form, self.samples, self.classes, number, sequence, self.run, agent)

    def _message(self, agent: int, number: int, sequence: int, receipts_hash: bytes, payload_hash: bytes) -> bytes:
        """What is signed."""
        return self._header(agent, number, sequence) + receipts_hash + payload_hash


@dataclass(frozen=True)
class Status:
    """What a peer says of itself."""

    same_run: bool
    same_shared: bool
    round: int
    """The round whose predictions it published last; 0 before the first."""
    clock: float


def _hash(part: bytes | memoryview) -> bytes:
    return hashlib.sha256(part).digest()
