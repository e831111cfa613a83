"""Readers of what peers send."""

import random
from dataclasses import replace

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.federation.peers import keys
from consilience.federation.peers.federation import Federation, Member, fingerprint
from consilience.federation.peers.frame import HEADER, NONCE, STATUS, Format, hash_of
from consilience.federation.peers.question import Questions
from consilience.federation.peers.untrusted_input import (
    differences_from,
    frame_from,
    printable,
    question_from,
    receipts_from,
    status_from,
)
from tests.fuzz.target import Target

SIGNING = [Ed25519PrivateKey.from_private_bytes(bytes([number + 1]) * 32) for number in range(4)]
SHARED = np.arange(12, dtype=np.float32).reshape(6, 2)
F = np.full((6, 2), 0.5, np.float32)
N = bytes(range(NONCE))


def federation() -> Federation:
    roster = tuple(
        Member(name, f"localhost:{7000 + index}", f"cn-{name}", keys.public_key(key))
        for index, (name, key) in enumerate(zip("abcd", SIGNING, strict=True))
    )
    settings = {"run": {"rounds": 9}, "method": {"lam": 0.5}}
    return Federation("trial", "1", ("no", "yes"), 6, fingerprint(SHARED), 4.0, 3, settings, roster)


def from_peers() -> dict[str, Target]:
    agreed = federation()
    return _frames(Format(agreed)) | _statuses(Format(agreed)) | _collective(agreed) | _words(agreed)


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
    status = format.pack_status(SIGNING[1], 1, 5, 99.5, N)

    def plain_status(data: bytes) -> None:
        status_from(format, data, 1, N)
        assert data == status, "a damaged status was accepted"

    def sign_status(data: bytes, draw: random.Random) -> bytes:
        body = (data + bytes(STATUS.size))[: STATUS.size]
        body = body[:-NONCE] + N if draw.random() < 0.8 else body
        return body + SIGNING[1].sign(body)

    return {
        "status": Target([status], plain_status),
        "status, signed by its sender": Target(
            [status[:-64]], lambda data: status_from(format, data, 1, N), sign_status
        ),
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
    asked = [f"consilience/a/b/agent/{topic}?nonce={N.hex()}".encode() for topic in ("status", "round/5", "receipts/5")]

    def question(data: bytes) -> None:
        key, _, parameters = data.decode("utf-8", "replace").partition("?")
        question_from(key, parameters, "a", "agent", "abcd")

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
