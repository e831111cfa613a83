"""A collective prediction at a site: its own model, and the peers who answer, mixed by its trust."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, final

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows, count
from consilience.federation.peers import keys
from consilience.federation.peers.audit import AuditLog
from consilience.federation.peers.equivocation import agents_with_evidence
from consilience.federation.peers.question import REFUSALS, Questions
from consilience.federation.peers.samples import LARGEST
from consilience.federation.peers.untrusted_input import InvalidInput
from consilience.federation.peers.zenoh_config import ANSWERS, key_of, open_session, token_of, zenoh_module
from consilience.federation.remote_prediction_server import TOPIC, site_model
from consilience.federation.site import LoadedSite
from consilience.methods.ensemble import Collective, collective
from consilience.runtime.ensemble_weights import weights_of
from consilience.runtime.run import load_run
from consilience.tasks import TASKS
from consilience.tasks.protocol import Array

Say = Callable[[str], None]
LOG = "asked.jsonl"
PATIENCE = 10.0
"""Seconds that peers have to appear, and after that to answer each question."""


def ask_peers(loaded: LoadedSite, path: Path, say: Say, patience: float = PATIENCE) -> Collective:
    """What this site and the peers who answer say together of the samples in a file.

    The samples are sent to these peers. Below a quorum of the federation nothing is predicted.
    """
    model, federation, me = site_model(loaded), loaded.federation, loaded.site.agent
    x = loaded.samples(path)
    weights = weights_of(load_run(loaded.out), me)
    loaded.changes.check_own_site(me)
    if loaded.changes.problem:
        say(loaded.changes.problem)
    blocked = agents_with_evidence(loaded.out / "evidence") | loaded.changes.revoked.keys()
    peers = [name for name in federation.names if name != me and name not in blocked]
    log = AuditLog(loaded.out / LOG, keys.read_signing_key(loaded.path(loaded.site.signing_key)))
    try:
        round_ = _Asking(loaded, peers, x, log, say)
        heard = round_.collect(patience)
    finally:
        log.close()
    if len(heard) + 1 < federation.quorum:
        raise ConsilienceError(
            f"{len(heard) + 1} agents of the {federation.quorum} needed were heard "
            f"({round_.why_not()}). Peers answer while they run `consilience answer`."
        )
    return collective(weights, {me: model.predict(loaded.as_read(x))} | heard, TASKS.find(federation.task))


@dataclass
class _Peer:
    """How far the questions to one peer have come."""

    answers: dict[int, Array] = field(default_factory=dict)
    """By number of the question."""
    problem: str = ""


@final
class _Asking:
    """Asks every peer that shows itself, one question after another, and waits for the answers."""

    def __init__(self, loaded: LoadedSite, peers: list[str], x: Rows, log: AuditLog, say: Say) -> None:
        self._federation, self._me = loaded.federation, loaded.site.agent
        self._signing = keys.read_signing_key(loaded.path(loaded.site.signing_key))
        self._tls, self._log, self._say = loaded.tls, log, say
        self._changes = loaded.changes
        self._questions = Questions(loaded.federation, loaded.agreed)
        form = self._questions.format
        self._parts = list(form.parts(x))
        if not self._parts:
            raise ConsilienceError("there are no samples to predict.")
        if not form.in_range(x):
            raise ConsilienceError(
                f"a number in the samples is above {form.largest_number:g}, far outside of the range of the "
                "shared data: peers refuse it. Are the samples in the same units?"
            )
        self._peers = {name: _Peer() for name in peers}
        self._seen: set[str] = set()
        """Peers that have shown themselves."""
        self._queue: SimpleQueue[tuple[str, str, int, bytes, bytes]] = SimpleQueue()
        """What came: kind, peer, number of the question, the question, bytes."""

    def collect(self, patience: float) -> dict[str, Array]:
        """Predictions of every peer that answered all questions."""
        self._zenoh = open_session(self._federation, self._me, self._tls, "", 2 * LARGEST, self._changes.revoked)
        try:
            liveliness = self._zenoh.liveliness()
            declared = [
                liveliness.declare_subscriber(token_of(peer, ANSWERS), self._watch(peer), history=True)
                for peer in self._peers
            ]
            end = time.monotonic() + patience
            while declared and not self._done() and time.monotonic() < end:
                try:
                    event = self._queue.get(timeout=0.1)
                except Empty:
                    continue
                if self._take(*event, patience):
                    end = time.monotonic() + patience
        finally:
            with suppress(zenoh_module().ZError):
                self._zenoh.close()  # type: ignore[no-untyped-call]
        self._log.sync()
        return {
            name: np.concatenate([peer.answers[number] for number in range(len(self._parts))])
            for name, peer in self._peers.items()
            if len(peer.answers) == len(self._parts) and not peer.problem
        }

    def why_not(self) -> str:
        """Of those who were not heard, why."""
        reasons = [
            f"{name}: {peer.problem or 'not there'}"
            for name, peer in self._peers.items()
            if peer.problem or len(peer.answers) < len(self._parts)
        ]
        return "; ".join(reasons) or "no peer is left"

    def _done(self) -> bool:
        return all(peer.problem or len(peer.answers) == len(self._parts) for peer in self._peers.values())

    def _take(self, kind: str, name: str, number: int, question: bytes, data: bytes, patience: float) -> bool:
        """What an event means; whether it brings the collection forward."""
        peer = self._peers[name]
        if kind == "here":
            self._ask(name, 0, patience)
            return True
        if number in peer.answers or peer.problem:
            return False
        if kind == "answer":
            me, place = self._federation.names.index(self._me), self._federation.names.index(name)
            try:
                peer.answers[number] = self._questions.read_answer(data, place, me, question)
            except InvalidInput as reason:
                self._reject(name, peer, f"sent something that is not accepted ({reason})")
                return True
            self._log.add("heard", agent=name, samples=len(peer.answers[number]), hash=sha256(data).hexdigest())
            if number + 1 < len(self._parts):
                self._ask(name, number + 1, patience)
            return True
        if kind == "refused" and data in REFUSALS:
            self._reject(name, peer, REFUSALS[data])
        elif kind == "ended":
            self._reject(name, peer, "did not answer")
        return bool(peer.problem)

    def _reject(self, name: str, peer: _Peer, problem: str) -> None:
        peer.problem = problem
        self._log.add("unheard", agent=name, reason=problem)
        self._say(f"without {name}: {problem}")

    def _ask(self, name: str, number: int, patience: float) -> None:
        """Sends one question; what comes back goes into the queue."""
        self._changes.look()
        if name in self._changes.revoked:
            return self._reject(name, self._peers[name], "was revoked by a quorum")
        zenoh = zenoh_module()
        me, place = self._federation.names.index(self._me), self._federation.names.index(name)
        question = self._questions.ask(self._signing, me, place, self._parts[number], time.time())
        self._log.add(
            "asked",
            agent=name,
            samples=count(self._parts[number]),
            bytes=len(question),
            hash=sha256(question).hexdigest(),
        )

        def on_answer(answer: Any) -> None:
            kind = "answer" if answer.ok is not None else "refused"
            self._queue.put((kind, name, number, question, answer.result.payload.to_bytes()[: 2 * LARGEST]))

        self._zenoh.get(
            key_of(name, self._me, TOPIC),
            zenoh.handlers.Callback(on_answer, lambda: self._queue.put(("ended", name, number, question, b""))),
            payload=question,
            timeout=patience,
            consolidation=zenoh.ConsolidationMode.NONE,
            congestion_control=zenoh.CongestionControl.BLOCK,
        )

    def _watch(self, peer: str) -> Callable[[Any], None]:
        """Notes that a peer is there, once: one that comes and goes delays nobody."""
        put = zenoh_module().SampleKind.PUT

        def changed(sample: Any) -> None:
            if sample.kind == put and peer not in self._seen:
                self._seen.add(peer)
                self._queue.put(("here", peer, 0, b"", b""))

        return changed
