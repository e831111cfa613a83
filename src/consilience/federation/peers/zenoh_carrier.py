"""The carriers direct and relay: sealed questions and answers over a Zenoh session."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, final

from consilience.base.errors import ConsilienceError
from consilience.federation.peers.carrier import Answered, Query, Reach
from consilience.federation.peers.connection_limiter import ConnectionLimiter
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.zenoh_config import Tls, between_members, key_of, open_session, to_relay, zenoh_module

if TYPE_CHECKING:
    import zenoh

PAUSE = 1.0
"""Seconds between two attempts to reach a relay."""


@final
class ZenohCarrier:
    """A site's session, and what it declares there.

    Args:
        federation: The federation.
        me: The member.
        role: The role of this process; empty if it only asks.
        answer: Is given questions to this process.
        watched: The roles in which each peer is watched for.
        reach: Is told which peers are present.
    """

    asks = True

    def __init__(
        self,
        federation: Federation,
        me: str,
        role: str,
        answer: Callable[[Query], None] | None,
        watched: Mapping[str, tuple[str, ...]],
        reach: Reach,
    ) -> None:
        self._id, self._me, self._role, self._answer = federation.id, me, role, answer
        self._threads, self._watched, self._reach = len(federation.roster), watched, reach
        self._federation = federation
        self._lock, self._closed = Lock(), Event()
        self._session: zenoh.Session | None = None
        self._limiter: ConnectionLimiter | None = None
        self._declared: list[Any] = []

    def listen(self, tls: Tls, address: str, largest: int) -> "ZenohCarrier":
        """Opens links to the other members, and listens at an address, if there is one, behind a limiter."""
        if not address:
            self._open(between_members(self._federation, self._me, tls, "", largest))
            return self
        self._limiter = limiter = ConnectionLimiter(address, [m.host for m in self._federation.roster if m.address])
        for left in (2, 1, 0):
            try:
                inner = f"127.0.0.1:{limiter.inner}"
                self._open(between_members(self._federation, self._me, tls, inner, largest))
                break
            except zenoh_module().ZError as error:
                if not left:
                    limiter.close()
                    raise ConsilienceError(
                        f"agent {self._me!r} cannot listen ({_first_line(error)}). Are its TLS key and certificate "
                        "in order?"
                    ) from error
                limiter.choose_inner()  # its port was taken meanwhile
        limiter.start()
        return self

    def dial(self, tls: Tls, address: str, largest: int) -> "ZenohCarrier":
        """Connects to a relay, now or as soon as it can be reached."""
        settings = to_relay(address, tls, largest)

        def connect() -> None:
            while not self._closed.is_set():
                with suppress(zenoh_module().ZError):
                    self._open(settings)
                    return
                self._closed.wait(PAUSE)

        Thread(target=connect, name="relay", daemon=True).start()
        return self

    def _open(self, settings: dict[str, Any]) -> None:
        session = open_session(settings, self._threads)
        with self._lock:
            if self._closed.is_set():
                session.close()  # type: ignore[no-untyped-call]
                return
            self._session = session
            put = zenoh_module().SampleKind.PUT
            if self._role and self._answer:
                key, answer = key_of(self._id, self._me, self._role), self._answer
                self._declared.append(session.declare_queryable(key, lambda query: answer(_ZenohQuery(query))))
                self._declared.append(session.liveliness().declare_token(key))
            for peer, roles in self._watched.items():
                for role in roles:

                    def changed(sample: Any, peer: str = peer, role: str = role) -> None:
                        self._reach(peer, role, sample.kind == put)

                    watch = session.liveliness().declare_subscriber
                    self._declared.append(watch(key_of(self._id, peer, role), changed, history=True))

    def publish(self, topic: str, number: int) -> None:
        """Nothing: peers are answered when they ask."""

    def fetch(
        self, peer: str, role: str, topic: str, number: int, question: bytes, seconds: float, answered: Answered
    ) -> None:
        """Puts a question to a peer's process in a role. `answered` is given the answers, and None at the end."""
        zenoh, session = zenoh_module(), self._session
        if session is None:
            answered(None)
            return

        def on_answer(answer: Any) -> None:
            if answer.ok is not None:
                answered(answer.ok.payload.to_bytes())

        try:
            session.get(
                key_of(self._id, peer, role),
                zenoh.handlers.Callback(on_answer, lambda: _end(answered), indirect=False),
                target=zenoh.QueryTarget.ALL,  # who claims to be the peer, too, does not keep the question from it
                payload=question,
                timeout=seconds,
                consolidation=zenoh.ConsolidationMode.NONE,
                congestion_control=zenoh.CongestionControl.BLOCK,
            )
        except zenoh.ZError:
            answered(None)

    def close(self) -> None:
        """Ends the session. Dead links are given up."""
        self._closed.set()
        if self._limiter:
            self._limiter.close()
        with self._lock, suppress(zenoh_module().ZError):
            if self._session:
                self._session.close()  # type: ignore[no-untyped-call]


@final
class _ZenohQuery:
    """A question as Zenoh hands it over."""

    def __init__(self, query: Any) -> None:
        self._query = query
        self.message: bytes = query.payload.to_bytes() if query.payload is not None else b""

    def reply(self, message: bytes) -> None:
        """Sends an answer; who asked may be gone."""
        with suppress(zenoh_module().ZError):
            self._query.reply(self._query.key_expr, message)

    def drop(self) -> None:
        """Ends the answer."""
        self._query.drop()


def _end(answered: Answered) -> None:
    answered(None)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200]
