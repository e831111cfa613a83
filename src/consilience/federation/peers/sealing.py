"""Sealed messages: what sites send each other, signed by the sender and encrypted for its readers.

    header | one slot per reader | content, encrypted        content: length | data | signature | zeros

A new content key encrypts the content once (AES-256-GCM). A reader finds that key encrypted with a session key, which a
process makes once for each reader, and which HPKE (RFC 9180: X25519, HKDF-SHA256, AES-256-GCM) seals with run, sender
and reader. Kind, run, epoch, round and sender are in the header, which is authenticated with the content and with each
slot. So nobody between two sites can read a message, change it, or use it for another reader, round or run. The content
has one of few lengths. A frame carries a signature of its own, which others can check, too (frame.py); everything else
is signed here.
"""

import secrets
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from consilience.federation.peers.federation import MOST_MEMBERS, Federation
from consilience.federation.peers.frame import SIGNATURE, VERSION, Format, hash_of
from consilience.federation.peers.keys import SiteKeys, encryption_key, is_signed
from consilience.federation.peers.untrusted_input import LARGEST_FIELDS, InvalidInput, VersionError, strict

HEADER = struct.Struct("<4sHHHxx32sII64s")
"""magic, version, kind, number of slots, run identity, epoch, round, sender."""
SLOT = struct.Struct("<8s80s12s48s")
"""The first bytes of the hash of a reader's name; the session key, sealed for it; a nonce; the content key."""
MOST_SESSIONS = 4096
"""Session keys of others that are remembered, at most."""
SMALL = 1024
"""Bytes of the content of short messages. Longer ones have a multiple of the length of a frame."""
LARGEST_DATA = 4_000_000
"""Bytes that are sent at once besides frames, at most: questions about samples, and answers to them."""
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
_NONCE = bytes(12)
"""Of the content's encryption: each content key encrypts one content."""
_TAG = 16


class Kind(IntEnum):
    """What a message holds."""

    QUESTION = 0
    FRAME = 1
    STATUS = 2
    RECEIPTS = 3
    FIELDS = 4
    SAMPLES = 5
    PREDICTIONS = 6
    REFUSAL = 7


class Message(NamedTuple):
    """A message that was opened."""

    kind: Kind
    sender: str
    round: int
    run: bytes
    data: bytes | memoryview
    epoch: int = 0


@final
class Sealer:
    """Seals and opens the messages of one member of a federation."""

    def __init__(self, federation: Federation, me: str, keys: SiteKeys) -> None:
        self._federation, self._me, self._keys = federation, me, keys
        self._run = federation.identity()
        self._own: dict[str, tuple[bytes, AESGCM]] = {}
        """This process's session key for each reader, sealed and open."""
        self._others: dict[bytes, AESGCM] = {}
        """Session keys that others sealed for this member, by what they sealed them with."""
        self._unit = 4 + Format(federation).length + SIGNATURE
        longest = self._padded(max(LARGEST_FIELDS, LARGEST_DATA) + 4 + SIGNATURE)
        self.largest = HEADER.size + MOST_MEMBERS * SLOT.size + max(self._unit, longest) + _TAG
        """Bytes of a message, at most."""

    def seal(self, kind: Kind, data: bytes, readers: Sequence[str], number: int = 0) -> bytes:
        """A message for its readers.

        Args:
            kind: What it holds.
            data: The content.
            readers: Who may read it.
            number: The round that it is about.
        """
        sender = self._me.encode()
        epoch = self._federation.epoch
        header = HEADER.pack(b"CNSE", VERSION, kind, len(readers), self._run, epoch, number, sender)
        signature = b"" if kind == Kind.FRAME else self._keys.signing.sign(_signed(header, data))
        length = 4 + len(data) + len(signature)
        padding = bytes(self._padded(length) - length)
        content = b"".join((len(data).to_bytes(4, "little"), data, signature, padding))
        key = secrets.token_bytes(32)
        slots = [header]
        for reader in readers:
            sealed, session = self._session_for(reader)
            nonce = secrets.token_bytes(len(_NONCE))
            slots.append(SLOT.pack(_mark(reader), sealed, nonce, session.encrypt(nonce, key, header)))
        return b"".join((*slots, AESGCM(key).encrypt(_NONCE, content, header)))

    @strict
    def open(self, message: bytes, *kinds: Kind) -> Message:
        """The message, if it is of one of these kinds, for this member, and from another one."""
        if message[:4] != b"CNSE" or len(message) < 6:
            raise InvalidInput("not a sealed message")
        version = int.from_bytes(message[4:6], "little")
        if version != VERSION:
            raise VersionError("the protocol", version, VERSION)
        if not HEADER.size + SLOT.size < len(message) <= self.largest:
            raise InvalidInput(f"a message of {len(message)} bytes")
        view = memoryview(message)
        header = bytes(view[: HEADER.size])
        _, _, kind, slots, run, epoch, number, name = HEADER.unpack(header)
        sender = name.rstrip(b"\0").decode("ascii")
        if sender not in self._federation.names or sender == self._me:
            raise InvalidInput("not from a peer")
        if kind not in kinds:
            raise InvalidInput(f"a message of kind {kind}, which was not asked for")
        if run == self._run and epoch != self._federation.epoch:
            raise InvalidInput("wrong epoch")
        content = self._decrypted(view, header, slots)
        length = int.from_bytes(content[:4], "little")
        data, rest = content[4 : 4 + length], content[4 + length :]
        if kind == Kind.FRAME:
            return Message(Kind.FRAME, sender, number, run, data, epoch)
        plain = bytes(data)
        if not is_signed(self._federation.member(sender).key, bytes(rest[:SIGNATURE]), _signed(header, plain)):
            raise InvalidInput(f"not signed by {sender}")
        return Message(Kind(kind), sender, number, run, plain, epoch)

    @strict
    def _decrypted(self, view: memoryview, header: bytes, slots: int) -> memoryview:
        """The content of a message for this member."""
        start, mine = HEADER.size + slots * SLOT.size, _mark(self._me)
        for mark, sealed, nonce, wrapped in SLOT.iter_unpack(view[HEADER.size : start]):
            if mark == mine:
                try:
                    key = self._session_of(header, sealed).decrypt(nonce, wrapped, header)
                    return memoryview(AESGCM(key).decrypt(_NONCE, view[start:], header))
                except (InvalidTag, InvalidInput):
                    break
        raise InvalidInput("not sealed for this site, or damaged")

    def _session_for(self, reader: str) -> tuple[bytes, AESGCM]:
        """This process's session key for a reader, sealed and open."""
        if reader not in self._own:
            key, public = AESGCM.generate_key(256), encryption_key(self._federation.member(reader).encryption)
            purpose = _purpose(self._run, self._me, reader)
            self._own[reader] = _SUITE.encrypt(key, public, purpose), AESGCM(key)
        return self._own[reader]

    @strict
    def _session_of(self, header: bytes, sealed: bytes) -> AESGCM:
        """The session key in a slot for this member of a message with this header."""
        _, _, _, _, run, _, _, sender = HEADER.unpack(header)
        purpose = _purpose(run, sender.rstrip(b"\0").decode("ascii"), self._me)
        session = self._others.get(purpose + sealed)
        if session is None:
            session = AESGCM(_SUITE.decrypt(sealed, self._keys.encryption, purpose))
            if len(self._others) >= MOST_SESSIONS:
                self._others.clear()
            self._others[purpose + sealed] = session
        return session

    def _padded(self, length: int) -> int:
        return SMALL if length <= SMALL else -(-length // self._unit) * self._unit


def version_hint() -> bytes:
    """The answer to a message of another version: it names this site's version, and nothing else."""
    return b"CNSE" + VERSION.to_bytes(2, "little")


def _signed(header: bytes, data: bytes) -> bytes:
    """What is signed: no frame, change of the roster or line of a log begins like it."""
    return header + hash_of(data)


def _purpose(run: bytes, sender: str, reader: str) -> bytes:
    """What a session key is for."""
    return run + f"{sender} {reader}".encode()


def _mark(reader: str) -> bytes:
    return hash_of(reader.encode())[:8]
