"""A question to a peer (what does your model say of these samples?) and its answer: signed, of exactly known length.

    question: header | samples | signature        answer: header | predictions | signature

A question names who asks whom, in which run, when; an answer holds the hash of its question. So neither can be used for
another peer, another run or another question. The form of a sample follows from the shared data, which all have.
"""

import hashlib
import secrets
import struct
from dataclasses import dataclass
from math import prod
from typing import final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.errors import ConsilienceError
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.keys import is_signed
from consilience.federation.peers.outside import OutsideError, VersionError, strict
from consilience.tasks import TASKS
from consilience.tasks.protocol import Array, checked_predictions

VERSION = 1
_QUESTION = struct.Struct("<4sHHH32s16sdI")
"""magic, version, who asks, who is asked (places in the roster), run identity, nonce, clock, samples."""
_ANSWER = struct.Struct("<4sHHH32s32sIII")
"""magic, version, who answers, who asked, run identity, hash of the question, round of the model, samples, classes."""
SIGNATURE = 64
LARGEST = 1_000_000
"""Bytes of the samples in a question, at most."""
SLACK = 1e6
"""Numbers in a sample may be so many times larger than the largest of the shared data."""
CLOCK = 300.0
"""Seconds that a question's clock may be off."""
REFUSALS = {
    b"not you": "it does not answer this site",
    b"enough": "it has answered as many samples today as it will",
    b"clock": "the clocks differ by more than five minutes",
    b"again": "it has seen this question before",
    b"version": "it has another version of consilience: install the same at both sites",
    b"busy": "it has too many questions to answer",
    b"wrong": "it cannot read the question, or not predict its samples",
}
"""What a site says when it does not answer, and what that means."""


class QuestionError(OutsideError):
    """Why a question or an answer is not accepted. Its text is one of a few and holds nothing that a peer wrote."""


@dataclass(frozen=True)
class Question:
    """A question that was accepted."""

    asker: str
    samples: Array
    clock: float
    digest: bytes


@final
class Questions:
    """The questions and answers of one federation, for samples of the shape and type of its shared data."""

    def __init__(self, federation: Federation, shared: Array) -> None:
        self.task = federation.task
        if not isinstance(shared, np.ndarray) or shared.dtype.kind not in "fiub":
            raise ConsilienceError(
                "a collective prediction is for samples of numbers; these sites share something else."
            )
        self.run, self.names = federation.identity(), federation.names
        self.classes = len(federation.classes)
        self.keys = [member.key for member in federation.roster]
        self.shape, self.dtype = shared.shape[1:], shared.dtype.newbyteorder("<")
        self.sample_bytes = prod(self.shape) * self.dtype.itemsize
        self.at_once = LARGEST // max(1, self.sample_bytes)
        """Samples in one question, at most."""
        self.largest_number = (
            SLACK * float(np.nanmax(np.abs(shared), initial=1.0)) if shared.dtype.kind == "f" else np.inf
        )
        if not self.at_once:
            raise ConsilienceError(f"a sample has {self.sample_bytes} bytes; a question holds at most {LARGEST}.")

    def in_range(self, samples: Array) -> bool:
        """Whether a model can be expected to take the samples: 3e38 is a number, and overflows in most of them."""
        return self.largest_number == np.inf or bool((np.abs(samples) <= self.largest_number).all())

    def ask(self, key: Ed25519PrivateKey, me: int, peer: int, samples: Array, clock: float) -> bytes:
        """A signed question of agent `me` to agent `peer`."""
        head = _QUESTION.pack(b"CNSQ", VERSION, me, peer, self.run, secrets.token_bytes(16), clock, len(samples))
        body = np.ascontiguousarray(samples, dtype=self.dtype).tobytes()
        return head + body + key.sign(head + _hash(body))

    @strict
    def read(self, data: bytes, me: int) -> Question:
        """The question to agent `me` in some bytes. Anything else is a QuestionError."""
        smallest = _QUESTION.size + SIGNATURE
        if not smallest < len(data) <= smallest + LARGEST:
            raise QuestionError("wrong length")
        magic, version, asker, asked, run, _, clock, samples = _QUESTION.unpack_from(data)
        if magic != b"CNSQ":
            raise QuestionError("not a question")
        if version != VERSION:
            raise VersionError("questions", version, VERSION)
        if run != self.run:
            raise QuestionError("of another federation")
        if asked != me or not 0 <= asker < len(self.names) or asker == me:
            raise QuestionError("not from a member to this site")
        body, signature = data[_QUESTION.size : -SIGNATURE], data[-SIGNATURE:]
        if not 0 < samples <= self.at_once or len(body) != samples * self.sample_bytes:
            raise QuestionError("wrong length")
        if not is_signed(self.keys[asker], signature, data[: _QUESTION.size] + _hash(body)):
            raise QuestionError("not signed by who it names")
        x = np.frombuffer(body, dtype=self.dtype).reshape(samples, *self.shape)
        if not np.isfinite(clock) or (x.dtype.kind == "f" and not np.isfinite(x).all()):
            raise QuestionError("values that are not finite")
        return Question(self.names[asker], x.astype(self.dtype.newbyteorder("=")), clock, _hash(data))

    def answer(self, key: Ed25519PrivateKey, me: int, question: Question, f: Array, number: int) -> bytes:
        """A signed answer of agent `me`, whose model is that of round `number`."""
        asker = self.names.index(question.asker)
        head = _ANSWER.pack(b"CNSA", VERSION, me, asker, self.run, question.digest, number, len(f), f.shape[1])
        body = np.ascontiguousarray(f, dtype="<f4").tobytes()
        return head + body + key.sign(head + _hash(body))

    @strict
    def read_answer(self, data: bytes, peer: int, me: int, question: bytes) -> Array:
        """The predictions in the answer of agent `peer` to a `question` of agent `me`, else a QuestionError."""
        samples = (len(question) - _QUESTION.size - SIGNATURE) // self.sample_bytes
        if len(data) != _ANSWER.size + samples * self.classes * 4 + SIGNATURE:
            raise QuestionError("wrong length")
        magic, version, sender, asker, run, digest, _, rows, classes = _ANSWER.unpack_from(data)
        if magic != b"CNSA":
            raise QuestionError("not an answer")
        if version != VERSION:
            raise VersionError("questions", version, VERSION)
        if (sender, asker, run, digest) != (peer, me, self.run, _hash(question)):
            raise QuestionError("an answer to something else")
        body, signature = data[_ANSWER.size : -SIGNATURE], data[-SIGNATURE:]
        if not is_signed(self.keys[peer], signature, data[: _ANSWER.size] + _hash(body)):
            raise QuestionError("not signed by the peer")
        if (rows, classes) != (samples, self.classes):
            raise QuestionError("wrong shape")
        f = np.frombuffer(body, dtype="<f4").reshape(samples, self.classes).astype(np.float32)
        try:
            return checked_predictions(self.names[peer], f, samples, self.classes, TASKS.find(self.task))
        except ConsilienceError:
            raise QuestionError("not probabilities") from None


def _hash(part: bytes) -> bytes:
    return hashlib.sha256(part).digest()
