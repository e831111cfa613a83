"""A question to a peer (what does your model say of these samples?) and its answer: signed, of exactly known length.

    question: header | samples | signature        answer: header | predictions | signature

A question names who asks whom, in which run, when; an answer holds the hash of its question. So neither can be used for
another peer, another run or another question. The form of a sample follows from the shared data (`samples.py`).
"""

import secrets
import struct
from dataclasses import dataclass
from typing import final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows, count
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.frame import hash_of
from consilience.federation.peers.keys import is_signed
from consilience.federation.peers.samples import LARGEST, QuestionError, sample_format
from consilience.federation.peers.untrusted_input import VersionError, strict
from consilience.tasks import TASKS
from consilience.tasks.protocol import Array, checked_predictions

VERSION = 1
_QUESTION = struct.Struct("<4sHHH32s16sdI")
"""magic, version, who asks, who is asked (indices in the roster), run identity, nonce, clock, samples."""
_ANSWER = struct.Struct("<4sHHH32s32sIII")
"""magic, version, who answers, who asked, run identity, hash of the question, round of the model, samples, classes."""
SIGNATURE = 64
CLOCK = 300.0
"""Seconds that a question's clock may be off."""
REFUSALS = {
    b"not you": "it does not answer this site",
    b"enough": "it has answered as many samples today as it will",
    b"clock": "the clocks differ by more than five minutes",
    b"again": "it has seen this question before",
    b"version": "it has another version of consilience: the site with the older one must upgrade",
    b"busy": "it has too many questions to answer",
    b"wrong": "it cannot read the question, or cannot predict its samples",
}
"""Refusals, and what they mean."""


def refusal(word: bytes, question: bytes) -> bytes:
    """The refusal of a question, with its hash: an old one refuses nothing else."""
    return hash_of(question) + word


@strict
def refusal_from(data: bytes, question: bytes) -> str:
    """Why a peer does not answer a question, else a QuestionError."""
    if data[:32] != hash_of(question):
        raise QuestionError("an answer to something else")
    return REFUSALS.get(data[32:], "it does not answer")


@dataclass(frozen=True)
class Question:
    """A question that was accepted."""

    asker: str
    samples: Rows
    clock: float
    digest: bytes


@final
class Questions:
    """The questions and answers of one federation, for samples of the form of its shared data."""

    def __init__(self, federation: Federation, shared: Rows) -> None:
        self.task, self.format = federation.task, sample_format(shared)
        self.run, self.names = federation.identity(), federation.names
        self.classes = len(federation.classes)
        self.keys = [member.key for member in federation.roster]

    def ask(self, key: Ed25519PrivateKey, me: int, peer: int, samples: Rows, clock: float) -> bytes:
        """A signed question of agent `me` to agent `peer`."""
        head = _QUESTION.pack(b"CNSQ", VERSION, me, peer, self.run, secrets.token_bytes(16), clock, count(samples))
        body = self.format.encode(samples)
        return head + body + key.sign(head + hash_of(body))

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
        if not is_signed(self.keys[asker], signature, data[: _QUESTION.size] + hash_of(body)):
            raise QuestionError("not signed by who it names")
        if not np.isfinite(clock):
            raise QuestionError("values that are not finite")
        return Question(self.names[asker], self.format.decode(body, samples), clock, hash_of(data))

    def answer(self, key: Ed25519PrivateKey, me: int, question: Question, f: Array, number: int) -> bytes:
        """A signed answer of agent `me`, whose model is that of round `number`."""
        asker = self.names.index(question.asker)
        head = _ANSWER.pack(b"CNSA", VERSION, me, asker, self.run, question.digest, number, len(f), f.shape[1])
        body = np.ascontiguousarray(f, dtype="<f4").tobytes()
        return head + body + key.sign(head + hash_of(body))

    @strict
    def read_answer(self, data: bytes, peer: int, me: int, question: bytes) -> Array:
        """The predictions in the answer of agent `peer` to a `question` of agent `me`, else a QuestionError."""
        samples = int(_QUESTION.unpack_from(question)[-1])
        if len(data) != _ANSWER.size + samples * self.classes * 4 + SIGNATURE:
            raise QuestionError("wrong length")
        magic, version, sender, asker, run, digest, _, rows, classes = _ANSWER.unpack_from(data)
        if magic != b"CNSA":
            raise QuestionError("not an answer")
        if version != VERSION:
            raise VersionError("questions", version, VERSION)
        if (sender, asker, run, digest) != (peer, me, self.run, hash_of(question)):
            raise QuestionError("an answer to something else")
        body, signature = data[_ANSWER.size : -SIGNATURE], data[-SIGNATURE:]
        if not is_signed(self.keys[peer], signature, data[: _ANSWER.size] + hash_of(body)):
            raise QuestionError("not signed by the peer")
        if (rows, classes) != (samples, self.classes):
            raise QuestionError("wrong shape")
        f = np.frombuffer(body, dtype="<f4").reshape(samples, self.classes).astype(np.float32)
        try:
            return checked_predictions(self.names[peer], f, samples, self.classes, TASKS.find(self.task))
        except ConsilienceError:
            raise QuestionError("not probabilities") from None
