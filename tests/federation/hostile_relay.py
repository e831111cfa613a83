"""A relay that does whatever a middleman can: `hostile_relay.py FEDERATION CA SEEN MODE NAME=ADDRESS...`.

It listens at an address of its own for each member, so that nothing passes between them unless it passes it on. What it
saw is written to a file. Modes: pass, replay, reorder, mix, withhold, presence, grow, garble, version.
"""

import random
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from threading import Lock, Timer
from typing import Any

from consilience.federation.peers.carrier import ANSWERS, ROLES
from consilience.federation.peers.relay import trial_certificate
from consilience.federation.peers.sealing import HEADER, Kind
from consilience.federation.peers.untrusted_input import read_federation
from consilience.federation.peers.zenoh_config import key_of, open_session, tls_endpoint, zenoh_module

KEPT = 30
"""Messages to a member that it remembers."""
FLOOD = 20
"""Messages of noise with each question and each answer."""
OTHER_VERSIONS = 12
"""Answers to a member that it makes look like those of another version, before it is honest."""
MOST_SEEN = 30_000_000
"""Bytes that it writes down."""


def kind_of(message: bytes) -> int:
    """The kind in the header of a sealed message."""
    return int(HEADER.unpack_from(message)[2]) if len(message) > HEADER.size else -1


class HostileRelay:
    """One session for each member, and a bridge between them."""

    def __init__(self, file: Path, ca: Path, seen: Path, mode: str, addresses: dict[str, str]) -> None:
        self.federation, self.mode, self.draw = read_federation(file), mode, random.Random(mode)
        self.lock, self.seen = Lock(), seen.open("wb")
        self.before: dict[str, deque[bytes]] = defaultdict(lambda: deque(maxlen=KEPT))
        """Answers that it gave each member."""
        self.questions: dict[str, deque[bytes]] = defaultdict(lambda: deque(maxlen=KEPT))
        self.changed = dict.fromkeys(addresses, 0)
        """Answers to each member whose version it has changed."""
        self.declared: dict[tuple[str, str, str], list[Any]] = {}
        self.sessions: dict[str, Any] = {}
        for name, address in addresses.items():
            key, certificate = trial_certificate(ca, address.rpartition(":")[0])
            settings = {
                "mode": "router",
                "listen/endpoints": [tls_endpoint(address)],
                "transport/link/tls": {"listen_private_key": str(key), "listen_certificate": str(certificate)},
            }
            self.sessions[name] = open_session(settings, 2)
        for name in self.sessions:
            self._watch(name)
            if mode == "presence":
                for role in ROLES:
                    self._show(name, role)

    def key(self, name: str, role: str) -> str:
        return key_of(self.federation.id, name, role)

    def _watch(self, name: str) -> None:
        """Shows a member to the others while it is there; a relay that claims presence shows it for ever."""
        put = zenoh_module().SampleKind.PUT
        for role in (*ROLES, ANSWERS):

            def changed(sample: Any, role: str = role) -> None:
                if sample.kind == put:
                    self._show(name, role)
                elif self.mode != "presence":
                    self._hide(name, role)

            self.sessions[name].liveliness().declare_subscriber(self.key(name, role), changed, history=True)

    def _show(self, name: str, role: str) -> None:
        for reader, session in self.sessions.items():
            if reader == name or (name, role, reader) in self.declared:
                continue

            def ask(query: Any, reader: str = reader) -> None:
                self._pass_on(name, role, reader, query)

            key = self.key(name, role)
            queryable = session.declare_queryable(key, ask)
            self.declared[name, role, reader] = [queryable, session.liveliness().declare_token(key)]

    def _hide(self, name: str, role: str) -> None:
        for reader in self.sessions:
            for declared in self.declared.pop((name, role, reader), []):
                declared.undeclare()

    def _note(self, message: bytes) -> None:
        with self.lock:
            if self.seen.tell() < MOST_SEEN:
                self.seen.write(message)
                self.seen.flush()

    def _garbled(self, message: bytes) -> bytes:
        at = self.draw.randrange(len(message))
        return message[:at] + bytes([message[at] ^ 1]) + message[at + 1 :]

    def _pass_on(self, name: str, role: str, reader: str, query: Any) -> None:
        """Asks `name` what `reader` asked; what comes back depends on the mode."""
        question = query.payload.to_bytes() if query.payload else b""
        self._note(question)
        if self.mode == "garble" and self.draw.random() < 0.3:
            question = self._garbled(question)
        if self.mode in ("replay", "mix"):
            self.questions[name].append(question)
            if self.draw.random() < 0.3:  # an old question, or one for another member
                other = name if self.mode == "replay" else self.draw.choice(list(self.questions))
                self._get(name, role, self.draw.choice(self.questions[other]), lambda data: None, lambda: None)
        if self.mode == "grow":
            for _ in range(FLOOD):
                self._get(name, role, self.draw.randbytes(200_000), lambda data: None, lambda: None)
        delay = self.draw.uniform(0, 1.5) if self.mode == "reorder" else 0.0

        def answered(data: bytes) -> None:
            self._note(data)
            self._later(delay, lambda: self._answer(query, name, reader, data))

        self._get(name, role, question, answered, lambda: self._later(delay, query.drop))

    def _answer(self, query: Any, name: str, reader: str, data: bytes) -> None:
        before, index = self.before[reader], self.federation.names.index
        false = []
        if self.mode == "replay" and before:
            false = self.draw.choices(before, k=3)
        elif self.mode == "mix":
            others = [message for who, kept in self.before.items() if who != reader for message in kept]
            false = self.draw.choices(others, k=3) if others else []
        elif self.mode == "garble":
            false = [self._garbled(data)]
        elif self.mode == "version" and self.changed[reader] < OTHER_VERSIONS:
            self.changed[reader] += 1
            data = data[:4] + bytes([data[4] + 1]) + data[5:]
        elif self.mode == "withhold" and self._kept_back(kind_of(data), index(name), index(reader)):
            return
        before.append(data)
        for message in false:
            self._reply(query, message)
        if not false or self.draw.random() < 0.6:
            self._reply(query, data)
        for _ in range(FLOOD * (self.mode == "grow")):
            self._reply(query, self.draw.randbytes(200_000))

    @staticmethod
    def _kept_back(kind: int, sender: int, reader: int) -> bool:
        """Frames of one member from two others, and all predictions of samples."""
        return kind == Kind.PREDICTIONS or (kind == Kind.FRAME and sender == 0 and reader in (1, 2))

    def _get(
        self, name: str, role: str, question: bytes, answered: Callable[[bytes], None], ended: Callable[[], None]
    ) -> None:
        module = zenoh_module()

        def reply(answer: Any) -> None:
            if answer.ok is not None:
                answered(answer.ok.payload.to_bytes())

        handler = module.handlers.Callback(reply, ended, indirect=False)
        self.sessions[name].get(self.key(name, role), handler, payload=question, timeout=60.0)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        if seconds:
            timer = Timer(seconds, self._safely, (act,))
            timer.daemon = True
            timer.start()
        else:
            self._safely(act)

    def _reply(self, query: Any, message: bytes) -> None:
        self._safely(lambda: query.reply(query.key_expr, message))

    @staticmethod
    def _safely(act: Callable[[], Any]) -> None:
        try:
            act()
        except zenoh_module().ZError:
            pass  # who asked is gone


if __name__ == "__main__":
    *files, how = sys.argv[1:5]
    pairs = dict(word.split("=", 1) for word in sys.argv[5:])
    HostileRelay(*map(Path, files), how, pairs)  # type: ignore[arg-type]
    print("ready", flush=True)
    time.sleep(10**6)
