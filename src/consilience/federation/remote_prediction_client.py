"""Collective prediction, the client: asks peers for their predictions and mixes them by this site's trust."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, final

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows, count
from consilience.federation.peers.audit import AuditLog
from consilience.federation.peers.equivocation import agents_with_evidence
from consilience.federation.peers.inbox import Say
from consilience.federation.peers.question import REFUSALS, Questions
from consilience.federation.peers.samples import LARGEST
from consilience.federation.peers.untrusted_input import InvalidInput
from consilience.federation.peers.zenoh_config import ANSWERS, key_of, open_session, token_of, zenoh_module
from consilience.federation.remote_prediction_server import TOPIC, site_model
from consilience.federation.site import LoadedSite
from consilience.runtime.ensemble import Collective, collective, weights_of
from consilience.runtime.run import load_run
from consilience.tasks import TASKS
from consilience.tasks.protocol import Array

if TYPE_CHECKING:
    import zenoh

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
    with closing(AuditLog(loaded.out / LOG, loaded.signing_key)) as log:
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
        self._signing = loaded.signing_key
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
        changes, zenoh = self._loaded.changes, zenoh_module()
        session = open_session(self._federation, self._me, self._loaded.tls, "", 2 * LARGEST, changes.revoked)
        try:
            present = {peer: Event() for peer in peers}

            def watch(peer: str) -> Any:
                def changed(sample: Any) -> None:
                    if sample.kind == zenoh.SampleKind.PUT:
                        present[peer].set()

                return session.liveliness().declare_subscriber(token_of(peer, ANSWERS), changed, history=True)

            declared = [watch(peer) for peer in peers]
            with ThreadPoolExecutor(max(1, len(declared))) as threads:
                answers = threads.map(partial(self._predictions, session), peers, present.values())
                return {peer: f for peer, f in zip(peers, answers, strict=True) if f is not None}
        finally:
            with suppress(zenoh.ZError):
                session.close()  # type: ignore[no-untyped-call]
            self._log.sync()

    def _predictions(self, session: "zenoh.Session", peer: str, present: Event) -> Array | None:
        """A peer's predictions of all samples; None if it does not answer."""
        try:
            if not present.wait(self._patience):
                raise _NotHeard("not there")
            return np.concatenate([self._ask(session, peer, batch) for batch in self._batches])
        except (_NotHeard, InvalidInput) as error:
            reason = str(error) if isinstance(error, _NotHeard) else f"sent something that is not accepted ({error})"
            self.unheard[peer] = reason
            self._log.add("unheard", agent=peer, reason=reason)
            self._say(f"without {peer}: {reason}")
            return None

    def _ask(self, session: "zenoh.Session", peer: str, batch: Rows) -> Array:
        """The answer of a peer to one question."""
        with self._lock:
            self._loaded.changes.look()
        if peer in self._loaded.changes.revoked:
            raise _NotHeard("was revoked by a quorum")
        zenoh = zenoh_module()
        me, index = self._federation.names.index(self._me), self._federation.names.index(peer)
        question = self._questions.ask(self._signing, me, index, batch, time.time())
        digest = sha256(question).hexdigest()
        self._log.add("asked", agent=peer, samples=count(batch), bytes=len(question), hash=digest)
        replies = session.get(
            key_of(peer, self._me, TOPIC),
            payload=question,
            timeout=self._patience,
            consolidation=zenoh.ConsolidationMode.NONE,
            congestion_control=zenoh.CongestionControl.BLOCK,
        )
        for reply in replies:
            data = reply.result.payload.to_bytes()[: 2 * LARGEST]
            if reply.ok is not None:
                f = self._questions.read_answer(data, index, me, question)
                self._log.add("heard", agent=peer, samples=len(f), hash=sha256(data).hexdigest())
                return f
            if data in REFUSALS:
                raise _NotHeard(REFUSALS[data])
        raise _NotHeard("did not answer")
