"""Remote prediction, the server: a site answers its peers' questions with the predictions of its model."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Empty, Full, Queue
from typing import final

from consilience.base.errors import ConsilienceError
from consilience.base.rows import count
from consilience.export.folder import ExportedModel, load_model
from consilience.export.manifest import FILE
from consilience.federation.peers.audit import AuditLog, privacy_spent, read_audit
from consilience.federation.peers.carrier import ANSWERS, Query
from consilience.federation.peers.inbox import Say
from consilience.federation.peers.network import open_carriers
from consilience.federation.peers.question import CLOCK, Question, Questions, refusal
from consilience.federation.peers.sealing import Kind, Sealer, version_hint
from consilience.federation.peers.untrusted_input import InvalidInput, VersionError, printable
from consilience.federation.site import LoadedSite

LOG = "answered.jsonl"
WAITING = 16
"""Questions that wait to be answered; more are turned away."""
DAY = timedelta(days=1)


@final
class QuestionHandler:
    """Answers or refuses questions, one after another. Everything that a peer can fill is bounded."""

    def __init__(self, loaded: LoadedSite, model: ExportedModel, log: Path, say: Say) -> None:
        federation, site = loaded.federation, loaded.site
        self._prepared, self._model, self._say = loaded, model, say
        self._me = federation.names.index(site.agent)
        self._signing = loaded.keys.signing
        self._questions = Questions(federation, loaded.agreed)
        self._welcome = set(federation.names) if "*" in site.answer_to else set(site.answer_to)
        self._changes = loaded.changes
        self._rows = site.answer_rows
        self._answered = answered_today(log)
        """Per peer, the times and the numbers of samples of the last day."""
        self._seen: dict[bytes, float] = {}
        """Answered questions whose clock is still valid, so that none is answered twice."""
        self._logged: set[tuple[str, str]] = set()
        run_log = loaded.out / "audit.jsonl"
        spent = privacy_spent(run_log) if run_log.is_file() else None
        site.outgoing.check(federation.task)
        site.outgoing.check_spent(spent[0] if spent else None)
        self._audit = AuditLog(log, self._signing)

    def reply(self, data: bytes) -> tuple[bool, bytes]:
        """Whether to answer a question, and the answer; or else the reason, one of REFUSALS."""
        try:
            question = self._questions.read(data, self._me)
        except VersionError as reason:
            return self._refused("somebody", "another version", b"version", f": {reason}")
        except InvalidInput as reason:
            return self._refused("somebody", str(reason), b"wrong")
        refusal = self._refusal(question)
        if refusal:
            return self._refused(question.asker, refusal.decode(), refusal)
        if not self._questions.format.in_range(question.samples):
            return self._refused(question.asker, "values far outside of the range of the shared data", b"wrong")
        self._answered.setdefault(question.asker, []).append((time.time(), count(question.samples)))
        try:
            f = self._model.predict(self._prepared.as_read(question.samples))
            f = self._prepared.site.outgoing.reduced(f, self._prepared.federation.task)
            round_ = int(self._model.manifest.training.get("round", 0))
            answer = self._questions.answer(self._signing, self._me, question, f, round_)
        except Exception as error:  # whatever a model does with samples that a peer chose
            detail = f": {type(error).__name__}: {printable(error)}"
            return self._refused(question.asker, "the model cannot predict its samples", b"wrong", detail)
        self._seen[question.digest] = question.clock
        self._audit.add(
            "answered", agent=question.asker, samples=len(f), question=question.digest.hex(), bytes=len(answer)
        )
        self._audit.sync()
        self._say(f"answered {question.asker}: {len(f)} samples")
        return True, answer

    def close(self) -> None:
        """Ends the log."""
        self._audit.close()

    def _refusal(self, question: Question) -> bytes:
        """Why a question is not answered; empty if it is."""
        now = time.time()
        self._seen = {digest: clock for digest, clock in self._seen.items() if abs(now - clock) <= CLOCK}
        self._changes.look(at_once=True)
        if question.asker not in self._welcome or question.asker in self._changes.revoked:
            return b"not you"
        if abs(now - question.clock) > CLOCK:
            return b"clock"
        if question.digest in self._seen:
            return b"again"
        answered = self._answered.get(question.asker, [])
        recent = [(when, rows) for when, rows in answered if now - when < DAY.total_seconds()]
        self._answered[question.asker] = recent
        return b"enough" if sum(rows for _, rows in recent) + count(question.samples) > self._rows else b""

    def _refused(self, peer: str, reason: str, word: bytes, detail: str = "") -> tuple[bool, bytes]:
        """Logs the first refusal of a peer for each reason."""
        if (peer, reason) not in self._logged:
            self._logged.add((peer, reason))
            self._audit.add("refused", agent=peer, reason=reason + detail)
            self._say(f"refused a question of {peer} ({reason}{detail})")
        return False, word


def answered_today(log: Path) -> dict[str, list[tuple[float, int]]]:
    """Per peer, the times and the numbers of samples that the log has for the last day."""
    answered: dict[str, list[tuple[float, int]]] = {}
    now = datetime.now(UTC)
    for event in read_audit(log) if log.is_file() else []:
        try:
            when = datetime.fromisoformat(event["time"])
            if event["event"] == "answered" and now - when < DAY:
                answered.setdefault(str(event["agent"]), []).append((when.timestamp(), int(event["samples"])))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ConsilienceError(
                f"{log}, which says how many samples were answered today, is damaged ({error}). Restore it."
            ) from None
    return answered


def answer_peers(loaded: LoadedSite, say: Say, until: float = float("inf")) -> None:
    """Answers questions with the model that this site trained.

    Args:
        loaded: The site.
        say: Is told what was answered and refused.
        until: When to end, as `time.monotonic` counts; without it only Ctrl-C ends it.
    """
    model = site_model(loaded)
    if not loaded.site.answer_to:
        raise ConsilienceError('`answer_to` in site.toml is empty: this site answers nobody. Name peers there, or "*".')
    site, changes = loaded.site, loaded.changes
    waiting: Queue[Query] = Queue(WAITING)
    handler = QuestionHandler(loaded, model, loaded.out / LOG, say)

    def take(query: Query) -> None:
        """Called from threads of the carriers."""
        try:
            waiting.put_nowait(query)
        except Full:
            query.drop()

    changes.check_own_site(site.agent)
    if changes.problem:
        say(changes.problem)
    if changes.revoked:
        say(f"{', '.join(changes.revoked)} was revoked by a quorum: it is not answered")
    federation, sealer = loaded.federation, Sealer(loaded.federation, site.agent, loaded.keys)
    carriers = open_carriers(loaded.network, federation, site.agent, ANSWERS, take, {}, lambda *_: None, sealer)
    try:
        say(f"answering with the model of round {model.manifest.training.get('round', '?')}; end with Ctrl-C")
        while time.monotonic() < until:
            try:
                query = waiting.get(timeout=0.2)
            except Empty:
                continue
            reply_sealed(handler, sealer, query)
    finally:
        for carrier in carriers:
            carrier.close()
        handler.close()


def reply_sealed(handler: QuestionHandler, sealer: Sealer, query: Query) -> None:
    """Answers a sealed question; who asked is told, too, why it is refused."""
    try:
        asked = sealer.open(query.message, Kind.SAMPLES)
        question = bytes(asked.data)
        good, data = handler.reply(question)
        kind, data = (Kind.PREDICTIONS, data) if good else (Kind.REFUSAL, refusal(data, question))
        query.reply(sealer.seal(kind, data, [asked.sender]))
    except VersionError:
        query.reply(version_hint())
    except InvalidInput:
        pass  # of nobody in the federation
    finally:
        query.drop()


def site_model(loaded: LoadedSite) -> ExportedModel:
    """The stored model of a finished run of this federation."""
    if not (loaded.model / FILE).is_file():
        raise ConsilienceError(
            f"{loaded.model} holds no trained model. It is written when the run of `consilience site run` is finished."
        )
    model = load_model(loaded.model)
    if model.manifest.training.get("federation") != loaded.federation.identity().hex():
        raise ConsilienceError(f"the model in {loaded.model} is of another federation than {loaded.site.federation}.")
    return model
