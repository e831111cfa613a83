"""A member that answers its peers as it likes, with its real certificate and key: `rogue.py SITE MODE...`.

In round 2 it behaves as the first mode says, in round 3 as the second, and so on; the last mode is kept.
"""

import secrets
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from consilience.federation.peers import zenoh_config as link
from consilience.federation.peers.federation import FIELD, FIELDS, MOST_FIELDS, Federation
from consilience.federation.peers.frame import NONCE, Format, Receipt
from consilience.federation.peers.keys import read_signing_key
from consilience.federation.peers.question import Questions
from consilience.federation.peers.untrusted_input import frame_from
from consilience.federation.peers.zenoh_config import ANSWERS, Tls, key_of, open_session, token_of
from consilience.federation.remote_prediction_server import TOPIC
from consilience.federation.site import load_site

link._access = lambda *arguments: {"enabled": False}  # type: ignore[assignment]  # it holds itself to nothing


class Rogue:
    """Signs and answers whatever its mode says."""

    def __init__(self, site: Path, modes: list[str]) -> None:
        prepared = load_site(site)
        self.federation, self.name, self.modes = prepared.federation, prepared.site.agent, modes
        self.place = self.federation.names.index(self.name)
        self.format = Format(self.federation)
        self.key = read_signing_key(prepared.path(prepared.site.signing_key))
        self.session = open_session(
            self.federation, self.name, prepared.tls, self.federation.member(self.name).address, 10**8
        )
        self.turn = 0
        """How many federation files it has claimed to have."""
        self.kept: list[Any] = []
        """Questions that are never answered."""
        self.old: dict[int, Receipt] = {}
        """Receipts of an earlier run, which it passes on."""
        self.declared = [
            self.session.declare_queryable(key_of(self.name, "*", "**"), self.answer),
            self.session.liveliness().declare_token(token_of(self.name, "agent")),
        ]

    def frame(self, number: int, f: Any = None, sequence: int | None = None, format: Format | None = None) -> bytes:
        """A signed frame, of uniform predictions unless others are given."""
        if f is None:
            f = np.full((self.format.samples, self.format.classes), 1 / self.format.classes, np.float32)
        receipts = self.old
        return (format or self.format).make(
            self.key, self.place, number, number if sequence is None else sequence, receipts, f
        )[1]

    def answer(self, query: Any) -> None:
        """Called for every request of a peer."""
        topic = str(query.key_expr).rpartition("/")[2]
        asker = str(query.key_expr).split("/")[2]
        if "/receipts/" in str(query.key_expr):
            query.reply_err(self.status(query, 1))
        elif topic.isdecimal():
            number = int(topic)
            mode = self.modes[min(number - 2, len(self.modes) - 1)]
            for data in self.replies(mode, number, asker):
                query.reply(query.key_expr, data)
            if mode == "silent":
                self.kept.append(query)
                return
            if mode in ("ahead", "last", "garbled"):
                query.reply_err(secrets.token_bytes(50) if mode == "garbled" else self.status(query, 2**31))
        elif topic == "federation":
            query.reply(query.key_expr, self.text())
        elif topic in ("status", "finished"):
            garbled = self.modes == ["garbled"]
            query.reply(query.key_expr, secrets.token_bytes(9) if garbled else self.status(query, 1))
        query.drop()

    def status(self, query: Any, number: int) -> bytes:
        """A signed status that claims to be in round `number`."""
        nonce = bytes.fromhex(query.parameters["nonce"])
        format = self.format
        if self.modes[0].startswith("text="):
            self.turn += "new" in self.modes[0]
            format = Format(replace(self.federation, deadline=1234.0 + self.turn))
        if self.modes[0] == "last":
            number = self.federation.agreed.run.rounds
        return format.pack_status(self.key, self.place, number, time.time(), nonce)

    def text(self) -> bytes:
        """A federation file that no reader survives who trusts it."""
        kind, text = self.modes[0][5:], self.federation.to_toml()
        if kind.startswith("dots"):  # a parser of TOML takes a minute and a half for 998 kB
            many = ".".join("a" * 500)
            lines = (f"{many}.k{number} = 1" for number in range(990))
            return "\n".join([text, f"[{many}]", *lines])[: 1000 * int(kind[4:].removesuffix("new"))].encode()
        if kind == "fieldsnew":  # as many fields as are read, and all of them another's
            return FIELDS + secrets.token_bytes(MOST_FIELDS * FIELD.size)
        return self.spoilt(kind, text).encode()

    def spoilt(self, kind: str, text: str) -> str:
        """The text with a number that no reader should take, or with control characters."""
        number = {"401": "9" * 401, "5001": "9" * 5001, "hex": "0x" + "f" * 20_000}.get(kind, "")
        line = next(one for one in text.splitlines() if one.startswith("deadline"))
        if number:
            return text.replace(line, f"deadline = {number}")
        return text.replace("[settings.run]", "[settings.run]\n" + '"\\u001b]0;x\\u0007[bold red]" = 1\n')

    def replies(self, mode: str, number: int, asker: str) -> list[bytes]:
        """The replies to a request for a round."""
        shape = self.format.samples, self.format.classes
        good = self.frame(number)
        middle = len(good) // 2
        draw = np.random.default_rng(number)
        first = np.eye(shape[1], dtype=np.float32)[draw.integers(0, shape[1], shape[0])]
        other = next(name for name in self.federation.names if name != self.name)
        if mode == "equivocation":
            return [self.frame(number, first if self.federation.names.index(asker) % 2 else None)]
        if mode == "fuzz":
            return [mutated(good, np.random.default_rng([number, self.federation.names.index(asker)]))]
        if mode in ("ahead", "garbled", "last", "silent") or mode.startswith("text="):
            return []
        if mode == "replayed":
            return [self.fetched(other, number)]
        if mode == "shape":
            return [_of_shape(self, number, shape[::-1])]
        return {
            "good": [good],
            "random": [secrets.token_bytes(len(good))],
            "empty": [b""],
            "truncated": [good[:-1]],
            "long": [good + b"\0"],
            "huge": [bytes(30_000_000)],
            "nan": [self.frame(number, np.full(shape, np.nan, np.float32))],
            "unnormalised": [self.frame(number, np.full(shape, 0.9, np.float32))],
            "negative": [self.frame(number, first * 3 - 2 / shape[1])],
            "changed": [good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :]],
            "stale": [self.frame(number - 1)],
            "sequence": [self.frame(number, sequence=0)],
            "run": [_of_another_run(self, number)],
            "duplicate": [good, good, good],
        }[mode]

    def question(self, agent: str, topic: str, nonce: str = "00" * NONCE) -> str:
        """What an honest peer would ask."""
        return f"{key_of(agent, self.name, f'agent/{topic}')}?nonce={nonce}"

    def fetched(self, agent: str, number: int) -> bytes:
        """Another agent's frame."""
        for reply in self.session.get(self.question(agent, f"round/{number}"), timeout=5.0):
            if reply.ok:
                return reply.ok.payload.to_bytes()
        return b"nothing fetched"


def mutated(good: bytes, draw: np.random.Generator) -> bytes:
    """A frame that is damaged somehow: bits, bytes, length, parts exchanged, or all of it."""
    data = bytearray(good)
    kind = draw.integers(0, 6)
    if kind == 0:
        data[draw.integers(0, len(data))] ^= 1 << int(draw.integers(0, 8))
    elif kind == 1:
        at = int(draw.integers(0, len(data)))
        data[at : at + int(draw.integers(1, 200))] = draw.bytes(int(draw.integers(1, 200)))
    elif kind == 2:
        data = data[: int(draw.integers(0, len(data)))]
    elif kind == 3:
        data += draw.bytes(int(draw.integers(1, 5000)))
    elif kind == 4:
        data = bytearray(draw.bytes(len(data)))
    else:
        at, other = (int(draw.integers(0, len(data) - 64)) for _ in range(2))
        data[at : at + 64] = data[other : other + 64]
    return bytes(data) if data != good else bytes(len(good))


def _of_shape(rogue: Rogue, number: int, shape: tuple[int, int]) -> bytes:
    odd = Format(rogue.federation)
    odd.samples, odd.classes = shape
    return rogue.frame(number, np.full(shape, 1 / shape[1], np.float32), format=odd)


def _of_another_run(rogue: Rogue, number: int) -> bytes:
    odd = Format(rogue.federation)
    odd.run = bytes(32)
    return rogue.frame(number, format=odd)


def impostor(site: Path, folder: Path, agent: str, asker: str) -> None:
    """Speaks for `agent` with the certificate in `folder`, and asks everyone as `asker`; says whether any answers."""
    prepared = load_site(site)
    federation: Federation = prepared.federation
    tls = Tls(folder / "tls.key", folder / "tls.crt", prepared.tls.authority)
    session = open_session(federation, agent, tls, federation.member(agent).address, 10**7)
    format = Format(federation)
    key = read_signing_key(prepared.path(prepared.site.signing_key))

    def answer(query: Any) -> None:
        nonce = bytes.fromhex(query.parameters["nonce"])
        place = federation.names.index(agent)
        query.reply(query.key_expr, format.pack_status(key, place, 1, time.time(), nonce))

    declared = [
        session.declare_queryable(key_of(agent, "*", "**"), answer),
        session.liveliness().declare_token(token_of(agent, "agent")),
    ]
    while declared:
        for name in federation.names:
            for reply in session.get(f"{key_of(name, asker, 'agent/status')}?nonce={'00' * NONCE}", timeout=1.0):
                if reply.ok and name != agent:
                    print(f"answered by {name}", flush=True)
        print("asked", flush=True)
        time.sleep(0.1)


def flood(rogue: Rogue) -> None:
    """Asks for everything that nobody should ask for."""
    topics = [
        "round/999999999",
        "round/-1",
        "round/²",
        "round/0x10",
        "**",
        "*",
        "nothing",
        "round/" + "9" * 60,
        "alive",
    ]
    ends = ["", "?nonce=zz", "?nonce=" + "ab" * 5000, "?from=" + "x" * 5000, "?from=;nonce=;;==", "?_time=[now()]"]
    for turn in range(100):
        for name in rogue.federation.names:
            if name != rogue.name:
                key = key_of(name, rogue.name, f"agent/{topics[turn % len(topics)]}")
                rogue.session.get(key + ends[turn % len(ends)], lambda reply: None)
    print("flooded", flush=True)


def flap(rogue: Rogue, times: int) -> None:
    """Comes and goes, over and over."""
    liveliness = rogue.session.liveliness()
    for _ in range(times):
        rogue.declared.pop().undeclare()
        rogue.declared.append(liveliness.declare_token(token_of(rogue.name, "agent")))
    print("flapped", flush=True)


def leave_and_return(rogue: Rogue, seconds: float) -> None:
    """Leaves and is back at once, every so many seconds, for as long as it lives."""
    liveliness = rogue.session.liveliness()
    while True:
        time.sleep(seconds)
        rogue.declared.pop().undeclare()
        rogue.declared.append(liveliness.declare_token(token_of(rogue.name, "agent")))


def ask_badly(rogue: Rogue, shared: Any) -> None:
    """Puts questions to all who answer: some that no model can take, some that are none, and then a good one."""
    questions = Questions(rogue.federation, shared)

    def ask(peer: str, x: Any) -> bytes:
        return questions.ask(rogue.key, rogue.place, rogue.federation.names.index(peer), x, time.time())

    def answered(peer: str, data: bytes) -> bool:
        key = key_of(peer, rogue.name, TOPIC)
        return any(reply.ok for reply in rogue.session.get(key, payload=data, timeout=10.0))

    for peer in rogue.federation.names:
        if peer == rogue.name:
            continue
        good = ask(peer, shared[:1])
        for number in (3e38, -3e38, 1e20, np.nan, np.inf):
            answered(peer, ask(peer, np.full_like(shared[:2], number)))
        for data in (b"", good[:-1], good + b"x", b"CNSQ\x07\x00" + good[6:], secrets.token_bytes(500), bytes(10**6)):
            answered(peer, data)
        if answered(peer, good):
            print(f"answered by {peer}", flush=True)
    print("asked", flush=True)


def answer_questions(rogue: Rogue) -> None:
    """Shows itself as one who answers questions about samples, and says who asks."""

    def asked(query: Any) -> None:
        print(f"was asked by {str(query.key_expr).split('/')[2]}", flush=True)
        query.drop()

    rogue.declared.append(rogue.session.declare_queryable(key_of(rogue.name, "*", TOPIC), asked))
    rogue.declared.append(rogue.session.liveliness().declare_token(token_of(rogue.name, ANSWERS)))


def flap_answers(rogue: Rogue) -> None:
    """Shows itself as one who answers, over and over, and never does."""
    rogue.declared.append(rogue.session.declare_queryable(key_of(rogue.name, "*", TOPIC), lambda query: None))
    while True:
        token = rogue.session.liveliness().declare_token(token_of(rogue.name, ANSWERS))
        time.sleep(0.5)
        token.undeclare()


def stuff(rogue: Rogue, times: int) -> None:
    """Asks under ever new names of 200 kB, and for rounds that will never come."""
    for turn in range(times):
        for name in rogue.federation.names:
            if name != rogue.name:
                fat = f"{'00' * NONCE};from={turn:06d}{'x' * 200_000}"
                rogue.session.get(rogue.question(name, "finished", fat), lambda reply: None, timeout=1.0)
                if turn % 10 == 0:
                    rogue.session.get(rogue.question(name, "round/4000", fat), lambda reply: None, timeout=1.0)
                    rogue.session.get(rogue.question(name, "round/4000"), lambda reply: None, timeout=1.0)
    print("stuffed", flush=True)


def replay(rogue: Rogue, folder: Path) -> None:
    """Passes on what the others signed in an earlier run, whose frames are in a folder."""
    old = Format(replace(rogue.federation, epoch=1))
    for path in sorted(folder.glob("*/*.frame")):
        place = rogue.federation.names.index(path.parent.name)
        rogue.old[place] = frame_from(old, path.read_bytes(), place).receipt


if __name__ == "__main__":
    if sys.argv[2] == "impostor":
        impostor(Path(sys.argv[1]), Path(sys.argv[3]), sys.argv[4], sys.argv[5])
    else:
        arguments = [one for one in sys.argv[2:] if ":" not in one]
        member = Rogue(Path(sys.argv[1]), [one for one in arguments if one != "flood"])
        extra = dict(one.split(":", 1) for one in sys.argv[2:] if ":" in one)
        if "key" in extra:
            member.key = read_signing_key(Path(extra["key"]))
        if "replay" in extra:
            replay(member, Path(extra["replay"]))
        print("ready", flush=True)
        told_when = "flood" in arguments or extra.keys() & {"flap", "stuff"}
        while told_when and not (Path(sys.argv[1]).parent / "go").exists():
            time.sleep(0.05)
        if "answers" in arguments:
            answer_questions(member)
        if "ask" in arguments:
            ask_badly(member, load_site(Path(sys.argv[1])).shared)
        if "flap-answers" in arguments:
            flap_answers(member)
        if "return" in extra:
            leave_and_return(member, float(extra["return"]))
        if "flap" in extra:
            flap(member, int(extra["flap"]))
        if "stuff" in extra:
            stuff(member, int(extra["stuff"]))
        if "flood" in arguments:
            flood(member)
        time.sleep(10**6)
