"""Rate-limits unauthenticated connections, so that strangers cannot keep members out.

TLS passes through untouched, from peer to peer. A connection that has not sent the whole first message of a TLS
handshake within seconds is closed before anything of it reaches Zenoh, whose listener pauses after every handshake that
fails.
"""

import contextlib
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterable
from threading import Lock, Thread
from typing import final

from consilience.base.errors import ConsilienceError
from consilience.federation.peers.ports import INNER_PORTS, free_ports

HELLO = 3.0
"""Seconds within which the first message must arrive."""
OPEN, BURST, RATE = 32, 20, 5.0
"""Limits for all strangers together: open connections, new ones at once, and new ones a second. Each member has as
much for itself, or each address where members are not known by theirs."""
MOST_ADDRESSES = 10_000
"""Addresses whose bursts are remembered, at most."""
STALLED = 15_000
"""Milliseconds after which a connection is closed whose other end accepts no data."""
CHUNK = 1 << 18


@final
class ConnectionLimiter:
    """Listens at an address, and passes on what comes to a port of this machine.

    Args:
        address: host:port.
        members: Hosts of the members; None if they may come from anywhere: then each address has limits of its own.
        most: Open connections, at most.
    """

    def __init__(self, address: str, members: Iterable[str] | None, most: int = 1 << 16) -> None:
        self._known = Counter(ip for host in members or () for ip in _addresses(host))
        """IP addresses of members, and the number of members at each."""
        self._anywhere, self._most = members is None, most
        self._lock, self._closed = Lock(), False
        self._open: Counter[str] = Counter()
        self._credit: dict[str, tuple[float, float]] = {}
        """Per IP address, the rest of its burst, and when that was."""
        self.turned_away = 0
        host, _, port = address.rpartition(":")
        try:
            family, kind, _, _, local = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
            self._listening = socket.socket(family, kind)
            self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listening.bind(local)
            self._listening.listen(1024)
        except OSError as error:
            raise ConsilienceError(
                f"nobody can listen at {address} ({error.strerror or error}). Does another process listen there, such "
                "as one of this site (`listen` in site.toml), or is the address not this machine's?"
            ) from error
        self.choose_inner()

    def choose_inner(self) -> None:
        """A port for Zenoh to listen at, on this machine alone."""
        (self.inner,) = free_ports(1, INNER_PORTS)

    def start(self) -> None:
        """Starts to pass on connections."""
        Thread(target=self._accept, name="connection limiter", daemon=True).start()

    def close(self) -> None:
        """Ends listening."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                outer, remote = self._listening.accept()
            except OSError:
                time.sleep(0.05)  # out of open files, or closed
                continue
            who = remote[0] if self._anywhere or remote[0] in self._known else ""
            if self._may_enter(who):
                Thread(target=self._pass, args=(outer, who), daemon=True).start()
            else:
                self.turned_away += 1
                _reset(outer)

    def _may_enter(self, who: str) -> bool:
        share, now = max(1, self._known[who]), time.monotonic()
        with self._lock:
            before, since = self._credit.get(who, (float(BURST * share), now))
            credit = min(float(BURST * share), before + (now - since) * RATE * share)
            may = credit >= 1 and self._open[who] < OPEN * share and self._open.total() < self._most
            if len(self._credit) >= MOST_ADDRESSES:
                self._credit = {name: self._credit[name] for name in self._open if name in self._credit}
            self._credit[who] = credit - may, now
            self._open[who] += may
        return may

    def _pass(self, outer: socket.socket, who: str) -> None:
        inner: socket.socket | None = None
        try:
            first = _client_hello(outer)
            if first:
                inner = socket.create_connection(("127.0.0.1", self.inner), timeout=HELLO)
                inner.sendall(first)
                for end in (outer, inner):
                    end.settimeout(None)
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if hasattr(socket, "TCP_USER_TIMEOUT"):
                    outer.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED)
                back = Thread(target=_pump, args=(inner, outer), daemon=True)
                back.start()
                _pump(outer, inner)
                back.join()
            else:
                self.turned_away += 1
        except OSError:
            pass
        finally:
            _reset(outer)
            if inner is not None:
                _reset(inner)
            with self._lock:
                self._open[who] -= 1
                if not self._open[who]:
                    del self._open[who]


def _client_hello(outer: socket.socket) -> bytes:
    """The first record of a TLS handshake; empty if something else comes, or nothing in time."""
    end, data, wanted = time.monotonic() + HELLO, b"", 5
    while len(data) < wanted:
        left = end - time.monotonic()
        if left <= 0:
            return b""
        outer.settimeout(left)
        more = outer.recv(wanted - len(data))
        if not more:
            return b""
        data += more
        if wanted == 5 and len(data) == 5:
            kind, major, _, length = struct.unpack(">BBBH", data)
            if kind != 22 or major != 3 or not 4 <= length <= 16384:
                return b""
            wanted = 5 + length
    return data if data[5] == 1 else b""


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Passes on all data and the end of them."""
    with contextlib.suppress(OSError):
        buffer = memoryview(bytearray(CHUNK))
        while length := source.recv_into(buffer):
            target.sendall(buffer[:length])
    for end, how in ((source, socket.SHUT_RD), (target, socket.SHUT_WR)):
        with contextlib.suppress(OSError):
            end.shutdown(how)


def _reset(connection: socket.socket) -> None:
    """Closes a connection without lingering."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _addresses(host: str) -> set[str]:
    try:
        return {str(info[4][0]) for info in socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)}
    except OSError:
        return set()
