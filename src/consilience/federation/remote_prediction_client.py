"""Collective prediction, the client: asks peers for their predictions and mixes them by this site's trust."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from queue import Empty, Queue
from threading import Lock
from typing import final

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows, count
from consilience.federation.peers.audit import AuditLog
from consilience.federation.peers.carrier import ANSWERS, Carrier
from consilience.federation.peers.equivocation import agents_with_evidence
from consilience.federation.peers.inbox import Say
from consilience.federation.peers.network import open_carriers
from consilience.federation.peers.question import Questions, refusal_from
from consilience.federation.peers.sealing import Kind, Sealer
from consilience.federation.peers.session import UNREADABLE
from consilience.federation.peers.untrusted_input import InvalidInput
from consilience.federation.remote_prediction_server import site_model
from consilience.federation.site import LoadedSite
from consilience.runtime.ensemble import Collective, collective, weights_of
from consilience.runtime.run import load_run
from consilience.tasks import TASKS
from consilience.tasks.protocol import Array

LOG = "asked.jsonl"
PATIENCE = 10.0
"""Seconds that peers have to appear, and after that to answer each question."""


def ask_peers(loaded: LoadedSite, path: Path, say: Say, patience: float = PATIENCE) -> Collective:
    """Predictions of this site and of the peers who answer, for the samples in a file, mixed by this site's trust.

    The samples are sent to these peers. Below a quorum of the federation nothing is predicted.

    Args:
        loaded: The site.
        path: The file with the samples.
        say: Is told which peers do not answer, and why.
        patience: Seconds that peers have to appear, and after that to answer each question.
    """
    model, federation, me = site_model(loaded), loaded.federation, loaded.site.agent
    x = loaded.samples(path)
    weights = weights_of(load_run(loaded.out), me)
    loaded.changes.check_own_site(me)
    if loaded.changes.problem:
        say(loaded.changes.problem)
    blocked = agents_with_evidence(loaded.out / "evidence") | loaded.changes.revoked.keys()
    peers = [name for name in federation.names if name != me and name not in blocked]
    with closing(AuditLog(loaded.out / LOG, loaded.keys.signing)) as log:
        questioner = _Questioner(loaded, x, log, say, patience)
        heard = questioner.collect(peers)
    if len(heard) + 1 < federation.quorum:
        reasons = "; ".join(f"{peer}: {reason}" for peer, reason in sorted(questioner.unheard.items()))
        raise ConsilienceError(
            f"{len(heard) + 1} agents of the {federation.quorum} needed were heard "
            f"({reasons or 'no peer is left'}). Peers answer while they run `consilience site answer`."
        )
    return collective(weights, {me: model.predict(loaded.as_read(x))} | heard, TASKS.find(federation.task))


class _NotHeard(ConsilienceError):
    """Why a peer is not heard."""


@final
class _Questioner:
    """Asks every peer for predictions of the same samples. Each peer has a thread, and its questions are sequential."""

    def __init__(self, loaded: LoadedSite, x: Rows, log: AuditLog, say: Say, patience: float) -> None:
        self._loaded, self._log, self._say, self._patience = loaded, log, say, patience
        self._federation, self._me = loaded.federation, loaded.site.agent
        self._signing = loaded.keys.signing
        self._sealer = Sealer(loaded.federation, loaded.site.agent, loaded.keys)
        self._questions = Questions(loaded.federation, loaded.agreed)
        form = self._questions.format
        self._batches = list(form.batches(x))
        if not self._batches:
            raise ConsilienceError("there are no samples to predict.")
        if not form.in_range(x):
            raise ConsilienceError(
                f"a number in the samples is above {form.largest_number:g}, far outside of the range of the "
                "shared data: peers refuse it. Are the samples in the same units?"
            )
        self.unheard: dict[str, str] = {}
        """Peers that did not answer all questions, and why."""
        self._lock = Lock()

    def collect(self, peers: list[str]) -> dict[str, Array]:
        """Predictions of every peer that answered all questions."""
        ways: dict[str, Queue[int]] = {peer: Queue() for peer in peers}
        known = set[tuple[str, int]]()

        def reach(carrier: int, peer: str, role: str, here: bool) -> None:
            if here and (peer, carrier) not in known:
                known.add((peer, carrier))
                ways[peer].put(carrier)

        watched = dict.fromkeys(peers, (ANSWERS,))
        carriers = open_carriers(
            replace(self._loaded.network, listen=""), self._federation, self._me, "", None, watched, reach, self._sealer
        )
        try:
            with ThreadPoolExecutor(max(1, len(peers))) as threads:
                answers = threads.map(partial(self._predictions, carriers), peers, ways.values())
                return {peer: f for peer, f in zip(peers, answers, strict=True) if f is not None}
        finally:
            for carrier in carriers:
                carrier.close()
            self._log.sync()

    def _predictions(self, carriers: Sequence[Carrier], peer: str, ways: "Queue[int]") -> Array | None:
        """A peer's predictions of all samples; None if it does not answer."""
        try:
            answers, reach = list[Array](), self._ways(carriers, ways)
            carrier = next(reach, None)
            problem: ConsilienceError = _NotHeard("not there")
            while len(answers) < len(self._batches):
                if carrier is None:
                    raise problem
                try:
                    answers.append(self._ask(carrier, peer, self._batches[len(answers)]))
                except (_NotHeard, InvalidInput) as error:  # a middleman may keep answers back
                    problem, carrier = error, next(reach, None)
            return np.concatenate(answers)
        except (_NotHeard, InvalidInput) as error:
            reason = str(error) if isinstance(error, _NotHeard) else f"sent something that is not accepted ({error})"
            self.unheard[peer] = reason
            self._log.add("unheard", agent=peer, reason=reason)
            self._say(f"without {peer}: {reason}")
            return None

    def _ways(self, carriers: Sequence[Carrier], ways: "Queue[int]") -> Iterator[Carrier]:
        """The carriers over which a peer appears within the patience, each once."""
        end = time.monotonic() + self._patience
        with suppress(Empty):
            for _ in carriers:
                yield carriers[ways.get(timeout=max(0.0, end - time.monotonic()))]

    def _ask(self, carrier: Carrier, peer: str, batch: Rows) -> Array:
        """The answer of a peer to one question."""
        with self._lock:
            self._loaded.changes.look()
        if peer in self._loaded.changes.revoked:
            raise _NotHeard("was revoked by a quorum")
        me, index = self._federation.names.index(self._me), self._federation.names.index(peer)
        question = self._questions.ask(self._signing, me, index, batch, time.time())
        digest = sha256(question).hexdigest()
        self._log.add("asked", agent=peer, samples=count(batch), bytes=len(question), hash=digest)
        sealed = self._sealer.seal(Kind.SAMPLES, question, [peer])
        answers: Queue[Array | ConsilienceError | None] = Queue()
        left = UNREADABLE

        def answered(data: bytes | None) -> bool:
            nonlocal left
            left -= 1
            if data is None:
                answers.put(None)
            elif left > 0:
                try:
                    answers.put(self._read(data, peer, question))
                except ConsilienceError as error:
                    answers.put(error)
            return left <= 0

        carrier.fetch(peer, ANSWERS, "", 0, sealed, self._patience, answered)
        problem: ConsilienceError = _NotHeard("did not answer")
        while (answer := answers.get()) is not None:
            if not isinstance(answer, ConsilienceError):
                self._log.add("heard", agent=peer, samples=len(answer), hash=sha256(answer.tobytes()).hexdigest())
                return answer
            problem = answer
        raise problem

    def _read(self, data: bytes, peer: str, question: bytes) -> Array:
        """The answer that a peer sealed for this site and this question; an error if it is none, or a refusal."""
        message = self._sealer.open(data, Kind.PREDICTIONS, Kind.REFUSAL)
        if message.sender != peer:
            raise InvalidInput("a message of another")
        if message.kind == Kind.REFUSAL:
            raise _NotHeard(refusal_from(bytes(message.data), question))
        me, index = self._federation.names.index(self._me), self._federation.names.index(peer)
        return self._questions.read_answer(bytes(message.data), index, me, question)
