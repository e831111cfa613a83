"""Readers of what peers send."""

import random
from dataclasses import replace

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.federation.peers.federation import Federation
from consilience.federation.peers.frame import HEADER, NONCE, Format, hash_of
from consilience.federation.peers.question import Questions
from consilience.federation.peers.sealing import Kind
from consilience.federation.peers.untrusted_input import (
    differences_from,
    frame_from,
    printable,
    question_from,
    receipts_from,
    status_from,
)
from tests.federation.peers.conftest import SHARED, SIGNING, F, federation_of, sealer
from tests.fuzz.target import Target

N = bytes(range(NONCE))


def from_peers() -> dict[str, Target]:
    agreed = federation_of()
    format = Format(agreed)
    return _frames(format) | _statuses(format) | _sealed(agreed) | _collective(agreed) | _words(agreed)


def _frames(format: Format) -> dict[str, Target]:
    receipt = frame_from(format, format.make(SIGNING[2], 2, 4, 7, {}, F)[1], 2, 4).receipt
    frames = [format.make(SIGNING[1], 1, 5, 8, {2: receipt}, F)[1], format.make(SIGNING[1], 1, 5, 9, {}, F)[1]]

    def frame(data: bytes) -> None:
        frame_from(format, data, 1, 5)
        assert data in frames, "a damaged frame was accepted"

    def signed_frame(data: bytes) -> None:
        found = frame_from(format, data, 1, 5)
        assert np.isfinite(found.predictions).all() and found.predictions.shape == (6, 2)
        for one in found.others:
            assert one == receipt or not format.is_genuine(one), "a receipt that nobody signed is taken for genuine"

    def sign_frame(data: bytes, draw: random.Random) -> bytes:
        """A hostile member's frame: whatever content, of the right length and with its signature."""
        body = (data + bytes(format.length))[: format.length - 64]
        if draw.random() < 0.8:
            body = frames[0][: HEADER.size] + body[HEADER.size :]
        parts = body[HEADER.size :]
        message = body[: HEADER.size] + hash_of(parts[: format.receipts]) + hash_of(parts[format.receipts :])
        return body + SIGNING[1].sign(message)

    return {
        "frame": Target(frames, frame),
        "frame, signed by its sender": Target([one[:-64] for one in frames], signed_frame, sign_frame),
        "receipts": Target([format.pack_receipts({2: receipt})], lambda data: receipts_from(format, data)),
    }


def _statuses(format: Format) -> dict[str, Target]:
    def read(data: bytes) -> None:
        status_from(format, data, format.run, 5, N)

    return {"status of a member": Target([format.pack_status(99.5, N)], read)}


def _sealed(agreed: Federation) -> dict[str, Target]:
    """Messages as a middleman may change them, and those of a hostile member, which seals and signs what it likes."""
    reader, writer = sealer(agreed, "a"), sealer(agreed, "b")
    question = writer.seal(Kind.QUESTION, N + b"round", ["a"], 5)
    frame = Format(agreed).make(SIGNING[1], 1, 5, 8, {}, F)[1]
    messages = [question, writer.seal(Kind.FRAME, frame, ["a", "c", "d"], 5)]

    def content(data: bytes) -> tuple[Kind, str, int, bytes]:
        message = reader.open(data, *Kind)
        return message.kind, message.sender, message.round, bytes(message.data)

    known = [content(message) for message in messages]

    def changed(data: bytes) -> None:
        assert content(data) in known, "a changed message was accepted"  # the keys for other readers are not this one's

    def of_member(data: bytes) -> None:
        message = reader.open(data, *Kind)
        if message.kind == Kind.QUESTION:
            question_from(message.sender, message.round, bytes(message.data))
        elif message.kind == Kind.FRAME:
            frame_from(Format(agreed), message.data, 1, 5)

    def seal(data: bytes, draw: random.Random) -> bytes:
        return writer.seal(
            draw.choice(list(Kind)), data, draw.choice([["a"], ["c", "a"], ["c"], []]), draw.randrange(9)
        )

    return {
        "sealed message": Target(messages, changed),
        "sealed message of a hostile member": Target([N + b"round", frame, b""], of_member, seal),
    }


def _collective(agreed: Federation) -> dict[str, Target]:
    """Questions about samples, and answers to them."""
    questions = Questions(agreed, SHARED)
    asked = questions.ask(SIGNING[1], 1, 0, SHARED[:2], 99.5)
    answered = questions.answer(SIGNING[0], 0, questions.read(asked, 0), F[:2], 9)

    def question(data: bytes) -> None:
        questions.read(data, 0)
        assert data == asked, "a damaged question was accepted"

    def answer(data: bytes) -> None:
        questions.read_answer(data, 0, 1, asked)
        assert data == answered, "a damaged answer was accepted"

    def signed_by(key: Ed25519PrivateKey, good: bytes, start: int) -> Target:
        read = (lambda data: questions.read(data, 0)) if key is SIGNING[1] else None

        def sign(data: bytes, draw: random.Random) -> bytes:
            body = (data + bytes(len(good)))[: len(good) - 64]
            if draw.random() < 0.8:
                body = good[:start] + body[start:]
            return body + key.sign(body[:start] + hash_of(body[start:]))

        return Target([good[:-64]], read or (lambda data: questions.read_answer(data, 0, 1, asked)), sign)

    return {
        "question about samples": Target([asked], question),
        "question about samples, signed by its asker": signed_by(SIGNING[1], asked, len(asked) - 64 - 16),
        "answer about samples": Target([answered], answer),
        "answer about samples, signed by its sender": signed_by(SIGNING[0], answered, len(answered) - 64 - 16),
    }


def _words(agreed: Federation) -> dict[str, Target]:
    asked = [N + topic.encode() for topic in ("status", "round", "receipts")]

    def question(data: bytes) -> None:
        question_from("b", 5, data)

    def plain(data: bytes) -> None:
        text = printable(data.decode("latin-1"))
        assert text.isprintable() and len(text) < 4000

    return {
        "question": Target(asked, question),
        "text to show": Target([b"5: \x1b[31m", b"x" * 500], plain),
        "federation of a peer": Target(
            [agreed.packed_fields, replace(agreed, deadline=5.0).packed_fields],
            lambda data: differences_from(agreed, data),
        ),
    }
