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

from consilience.federation.peers.carrier import ANSWERS, Query
from consilience.federation.peers.federation import FIELD, FIELDS, MOST_FIELDS
from consilience.federation.peers.frame import NONCE, Format, Receipt
from consilience.federation.peers.keys import SiteKeys, read_encryption_key, read_signing_key
from consilience.federation.peers.network import Network, open_carriers
from consilience.federation.peers.question import Questions
from consilience.federation.peers.sealing import Kind, Sealer
from consilience.federation.peers.untrusted_input import InvalidInput, frame_from
from consilience.federation.peers.zenoh_config import Tls, key_of
from consilience.federation.site import load_site


class Rogue:
    """Signs and answers whatever its mode says."""

    def __init__(self, site: Path, modes: list[str], key: Path | None = None) -> None:
        prepared = load_site(site)
        self.federation, self.name, self.modes = prepared.federation, prepared.site.agent, modes
        self.place = self.federation.names.index(self.name)
        self.format = Format(self.federation)
        self.keys = prepared.keys if key is None else SiteKeys(read_signing_key(key), prepared.keys.encryption)
        self.key = self.keys.signing
        self.sealer = Sealer(self.federation, self.name, self.keys)
        self.turn = 0
        """How many federation files it has claimed to have."""
        self.kept: list[Any] = []
        """Questions that are never answered."""
        self.old: dict[int, Receipt] = {}
        """Receipts of an earlier run, which it passes on."""
        self.carriers = self.open_carriers(prepared.network)
        self.declared: list[Any] = []

    def open_carriers(self, network: Network) -> list[Any]:
        """How it reaches its peers."""
        return open_carriers(
            network, self.federation, self.name, "agent", self.answer, {}, lambda *_: None, self.sealer
        )

    @property
    def session(self) -> Any:
        """Its session with the peers or the relay, as soon as there is one."""
        while self.carriers[0]._session is None:
            time.sleep(0.05)
        return self.carriers[0]._session

    def key_of(self, agent: str, role: str = "agent") -> str:
        """The key under which an agent answers."""
        return key_of(self.federation.id, agent, role)

    def frame(self, number: int, f: Any = None, sequence: int | None = None, format: Format | None = None) -> bytes:
        """A signed frame, of uniform predictions unless others are given."""
        if f is None:
            f = np.full((self.format.samples, self.format.classes), 1 / self.format.classes, np.float32)
        receipts = self.old
        return (format or self.format).make(
            self.key, self.place, number, number if sequence is None else sequence, receipts, f
        )[1]

    def answer(self, query: Query) -> None:
        """Called for every request of a peer."""
        try:
            message = self.sealer.open(query.message, Kind.QUESTION)
        except InvalidInput:
            query.drop()
            return
        asker, number, nonce = message.sender, message.round, message.data[:NONCE]
        topic = bytes(message.data[NONCE:]).decode()

        def reply(kind: Kind, data: bytes, number: int = number) -> None:
            query.reply(self.seal(kind, data, asker, number))

        if topic == "receipts":
            reply(Kind.STATUS, *self.status(nonce, 1))
        elif topic == "round":
            mode = self.modes[max(0, min(number - 2, len(self.modes) - 1))]
            for data in self.replies(mode, number, asker):
                reply(Kind.FRAME, data)
            if mode == "silent":
                self.kept.append(query)
                return
            if mode == "garbled":
                query.reply(secrets.token_bytes(50))
            elif mode in ("ahead", "last"):
                reply(Kind.STATUS, *self.status(nonce, 2**31))
        elif topic == "federation":
            reply(Kind.FIELDS, self.text())
        elif topic in ("status", "finished"):
            if self.modes == ["garbled"]:
                query.reply(secrets.token_bytes(9))
            else:
                reply(Kind.STATUS, *self.status(nonce, 1))
        query.drop()

    def seal(self, kind: Kind, data: bytes, reader: str, number: int) -> bytes:
        """A message as it likes, under the federation file that it claims to have."""
        claimed = self.federation
        if self.modes[0].startswith("text=") and kind == Kind.STATUS:
            self.turn += "new" in self.modes[0]
            claimed = replace(self.federation, deadline=1234.0 + self.turn)
        return Sealer(claimed, self.name, self.keys).seal(kind, data, [reader], number)

    def status(self, nonce: bytes, number: int) -> tuple[bytes, int]:
        """A status that claims to be in round `number`, and that number."""
        if self.modes[0] == "last":
            number = self.federation.agreed.run.rounds
        return self.format.pack_status(time.time(), nonce), number

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

    def question(self, agent: str, topic: str, number: int = 0) -> bytes:
        """What an honest peer would ask."""
        return self.sealer.seal(Kind.QUESTION, bytes(NONCE) + topic.encode(), [agent], number)

    def fetched(self, agent: str, number: int) -> bytes:
        """Another agent's frame."""
        question = self.question(agent, "round", number)
        for reply in self.session.get(self.key_of(agent), payload=question, timeout=5.0):
            if reply.ok:
                return bytes(self.sealer.open(reply.ok.payload.to_bytes(), *Kind).data)
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


def impostor(site: Path, certificate: Path, own: Path, agent: str) -> None:
    """Speaks for `agent`, and asks everyone as it, with the certificate and the private keys in two folders.

    It says whether any answers.
    """
    prepared = load_site(site)
    federation = prepared.federation
    tls = Tls(certificate / "tls.key", certificate / "tls.crt", prepared.tls.authority)
    keys = SiteKeys(read_signing_key(own / "signing.key"), read_encryption_key(own / "encryption.key"))
    sealer, format = Sealer(federation, agent, keys), Format(federation)

    def answer(query: Query) -> None:
        try:
            message = sealer.open(query.message, Kind.QUESTION)
            query.reply(
                sealer.seal(Kind.STATUS, format.pack_status(time.time(), message.data[:NONCE]), [message.sender], 1)
            )
        except InvalidInput:
            query.reply(secrets.token_bytes(500))
        query.drop()

    network = Network("direct", tls, federation.member(agent).address)
    [carrier] = open_carriers(network, federation, agent, "agent", answer, {}, lambda *_: None, sealer)

    def answered(name: str, data: bytes | None) -> bool:
        if data:
            sealer.open(data, Kind.STATUS)
            print(f"answered by {name}", flush=True)
        return True

    while True:
        for name in federation.names:
            if name != agent:
                question = sealer.seal(Kind.QUESTION, bytes(NONCE) + b"status", [name])
                carrier.fetch(name, "agent", "status", 0, question, 1.0, lambda data, name=name: answered(name, data))
        print("asked", flush=True)
        time.sleep(0.5)


def flood(rogue: Rogue) -> None:
    """Asks for everything that nobody should ask for."""
    topics = ["nothing", "round/-1", "round/²", "**", "*", "", "alive", "x" * 200_000]
    for turn in range(100):
        for name in rogue.federation.names:
            if name != rogue.name:
                message = rogue.question(name, topics[turn % len(topics)], turn)
                for data in (message, message[:-1], message[:100], b"", secrets.token_bytes(500)):
                    rogue.session.get(rogue.key_of(name), lambda reply: None, payload=data)
    print("flooded", flush=True)


def flap(rogue: Rogue, times: int) -> None:
    """Comes and goes, over and over."""
    for _ in range(times):
        come_back(rogue)
    print("flapped", flush=True)


def come_back(rogue: Rogue) -> None:
    """Leaves and is back at once."""
    declared = rogue.session and rogue.carriers[0]._declared
    declared.pop().undeclare()
    declared.append(rogue.session.liveliness().declare_token(rogue.key_of(rogue.name)))


def leave_and_return(rogue: Rogue, seconds: float) -> None:
    """Leaves and is back at once, every so many seconds, for as long as it lives."""
    while True:
        time.sleep(seconds)
        come_back(rogue)


def ask_badly(rogue: Rogue, shared: Any) -> None:
    """Puts questions to all who answer: some that no model can take, some that are none, and then a good one."""
    questions = Questions(rogue.federation, shared)

    def ask(peer: str, x: Any) -> bytes:
        return questions.ask(rogue.key, rogue.place, rogue.federation.names.index(peer), x, time.time())

    def answered(peer: str, data: bytes) -> bool:
        sealed = rogue.sealer.seal(Kind.SAMPLES, data, [peer])
        replies = rogue.session.get(rogue.key_of(peer, ANSWERS), payload=sealed, timeout=10.0)
        opened = [rogue.sealer.open(reply.ok.payload.to_bytes(), *Kind) for reply in replies if reply.ok]
        return any(message.kind == Kind.PREDICTIONS for message in opened)

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
        print(f"was asked by {rogue.sealer.open(query.payload.to_bytes(), Kind.SAMPLES).sender}", flush=True)
        query.drop()

    key = rogue.key_of(rogue.name, ANSWERS)
    rogue.declared.append(rogue.session.declare_queryable(key, asked))
    rogue.declared.append(rogue.session.liveliness().declare_token(key))


def pose(rogue: Rogue, name: str) -> None:
    """Answers in the name of another member, with noise."""

    def asked(query: Any) -> None:
        for _ in range(3):
            query.reply(query.key_expr, secrets.token_bytes(2000))
        query.drop()

    rogue.declared.append(rogue.session.declare_queryable(rogue.key_of(name), asked, complete=True))
    rogue.declared.append(rogue.session.liveliness().declare_token(rogue.key_of(name)))
    print("poses", flush=True)


def flap_answers(rogue: Rogue) -> None:
    """Shows itself as one who answers, over and over, and never does."""
    key = rogue.key_of(rogue.name, ANSWERS)
    rogue.declared.append(rogue.session.declare_queryable(key, lambda query: None))
    while True:
        token = rogue.session.liveliness().declare_token(key)
        time.sleep(0.5)
        token.undeclare()


def stuff(rogue: Rogue, times: int) -> None:
    """Asks with questions of 200 kB, sealed and not, and for rounds that will never come."""
    for turn in range(times):
        for name in rogue.federation.names:
            if name != rogue.name:
                fat = [rogue.question(name, f"finished{turn:06d}{'x' * 200_000}"), secrets.token_bytes(200_000)]
                later = [rogue.question(name, "round", 4000)] * (turn % 10 == 0)
                for data in fat + later:
                    rogue.session.get(rogue.key_of(name), lambda reply: None, payload=data, timeout=1.0)
    print("stuffed", flush=True)


def replay(rogue: Rogue, folder: Path) -> None:
    """Passes on what the others signed in an earlier run, whose frames are in a folder."""
    old = Format(replace(rogue.federation, epoch=1))
    for path in sorted(folder.glob("*/*.frame")):
        place = rogue.federation.names.index(path.parent.name)
        rogue.old[place] = frame_from(old, path.read_bytes(), place).receipt


if __name__ == "__main__":
    if sys.argv[2] == "impostor":
        impostor(Path(sys.argv[1]), Path(sys.argv[3]), Path(sys.argv[4]), sys.argv[5])
    else:
        arguments = [one for one in sys.argv[2:] if ":" not in one]
        extra = dict(one.split(":", 1) for one in sys.argv[2:] if ":" in one)
        other_key = Path(extra["key"]) if "key" in extra else None
        member = Rogue(Path(sys.argv[1]), [one for one in arguments if one != "flood"], other_key)
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
        if "poses" in extra:
            pose(member, extra["poses"])
        if "return" in extra:
            leave_and_return(member, float(extra["return"]))
        if "flap" in extra:
            flap(member, int(extra["flap"]))
        if "stuff" in extra:
            stuff(member, int(extra["stuff"]))
        if "flood" in arguments:
            flood(member)
        time.sleep(10**6)
