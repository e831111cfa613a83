"""Collective prediction, the client: asks peers for their predictions and mixes them by this site's trust."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
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
from consilience.federation.peers.question import REFUSALS, Questions
from consilience.federation.peers.sealing import Kind, Message, Sealer
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
    """Why a peer has not answered."""


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

        def reach(carrier: int, peer: str, role: str, here: bool) -> None:
            if here:
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
            try:
                carrier = carriers[ways.get(timeout=self._patience)]
            except Empty:
                raise _NotHeard("not there") from None
            return np.concatenate([self._ask(carrier, peer, batch) for batch in self._batches])
        except (_NotHeard, InvalidInput) as error:
            reason = str(error) if isinstance(error, _NotHeard) else f"sent something that is not accepted ({error})"
            self.unheard[peer] = reason
            self._log.add("unheard", agent=peer, reason=reason)
            self._say(f"without {peer}: {reason}")
            return None

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
        message = self._answer(carrier, peer, self._sealer.seal(Kind.SAMPLES, question, [peer]))
        data = bytes(message.data)
        if message.kind == Kind.PREDICTIONS:
            f = self._questions.read_answer(data, index, me, question)
            self._log.add("heard", agent=peer, samples=len(f), hash=sha256(data).hexdigest())
            return f
        raise _NotHeard(REFUSALS.get(data, "did not answer"))

    def _answer(self, carrier: Carrier, peer: str, question: bytes) -> Message:
        """The first answer that the peer sealed for this site."""
        answers: Queue[Message | InvalidInput | None] = Queue()
        left = UNREADABLE

        def answered(data: bytes | None) -> bool:
            nonlocal left
            left -= 1
            if data is None:
                answers.put(None)
            elif left > 0:
                try:
                    message = self._sealer.open(data, Kind.PREDICTIONS, Kind.REFUSAL)
                    answers.put(message if message.sender == peer else InvalidInput("a message of another"))
                except InvalidInput as problem:
                    answers.put(problem)
            return left <= 0

        carrier.fetch(peer, ANSWERS, "", 0, question, self._patience, answered)
        problem = None
        while (answer := answers.get()) is not None:
            if isinstance(answer, Message):
                return answer
            problem = answer
        raise problem or _NotHeard("did not answer")
