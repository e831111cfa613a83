"""The carrier folder: sealed messages as files that all sites see, on a shared drive or in a bucket, through fsspec.

    FOLDER/ID/EPOCH/AGENT/ROLE/{status, federation, finished, round-N, receipts-N}

Each site writes into its own folder alone, each file at once, and takes back what another writes there. A peer is
present while its status, which has its clock and its signature, is renewed.
"""

import os
import re
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Thread
from typing import Any, final

from consilience.base.errors import ConsilienceError
from consilience.base.files import write_atomically
from consilience.federation.peers.carrier import Answered, Reach
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.frame import NONCE, Format, Status, hash_of
from consilience.federation.peers.outbox import SERVED, Outbox
from consilience.federation.peers.sealing import Kind, Sealer
from consilience.federation.peers.untrusted_input import InvalidInput, status_from

LOCAL, REMOTE = 0.2, 2.0
"""Seconds between two looks into a folder of this machine or its network, and into a bucket."""
LEASE = 10.0
"""Seconds for which a status counts, at least; else as long as a round's deadline."""
CLOCK = 300.0
"""Seconds that a peer's clock may be off."""
TRIES = 10
"""Attempts to begin."""
CHECK = 30.0
"""Seconds after which a site looks whether its own files are as it wrote them."""

_OWN = re.compile(r"status|federation|finished|(round|receipts)-\d+")
"""Names of files that a site writes."""


@dataclass
class FolderRequest:
    """Something that this site waits for."""

    peer: str
    role: str
    topic: str
    number: int
    end: float
    answered: Answered
    seen: bytes = b""
    """The hash of the content that was not accepted."""
    missing: float = 0.0
    """Since when the peer has left the round, as its status says, and has no file of it."""


@dataclass
class WatchedPeer:
    """A peer's process in a role, as its status shows it."""

    message: bytes = b""
    status: Status | None = None
    renewed: float = 0.0
    """When its status was last seen to be newer, by this machine's monotonic clock."""
    present: bool = False
    refused: set[bytes] = field(default_factory=set)
    """Hashes of the last contents that were not accepted."""


@final
class FolderCarrier:
    """What one process of a site reads and writes in the shared folder.

    Args:
        folder: A path, or a URL that fsspec knows.
        federation: The federation.
        me: The site's agent.
        role: The role of this process.
        outbox: What is published.
        sealer: Opens what peers wrote.
        watched: The roles in which each peer is watched for.
        reach: Is told which peers are present.
    """

    asks = False
    """Questions travel nowhere: a status is fresh by its clock, not by a nonce."""

    def __init__(
        self,
        folder: str,
        federation: Federation,
        me: str,
        role: str,
        outbox: Outbox,
        sealer: Sealer,
        watched: Mapping[str, tuple[str, ...]],
        reach: Reach,
    ) -> None:
        self._fs, root = _file_system(folder)
        self._local = "file" in (self._fs.protocol if isinstance(self._fs.protocol, tuple) else (self._fs.protocol,))
        self._top, self._epoch = root.rstrip("/"), federation.epoch
        self._root = f"{self._top}/{federation.id}/{federation.epoch}"
        self._me, self._role, self._outbox, self._sealer, self._reach = me, role, outbox, sealer, reach
        self._format, self._readers = Format(federation), [name for name in federation.names if name != me]
        self._lease = max(LEASE, federation.deadline)
        self._watched = {(peer, role): WatchedPeer() for peer, roles in watched.items() for role in roles}
        self._requests: list[FolderRequest] = []
        self._mine: dict[str, bytes] = {}
        """What this site's folder should hold, but for its status."""
        self._written: dict[str, bytes] = {}
        """Hashes of what was written."""
        self._changed, self._closed = Condition(), False
        self._next_status = self._next_check = 0.0
        self._mine["federation"] = outbox.document("federation", 0, self._readers)
        for number in outbox.rounds:
            self.publish("round", number)
        for left in reversed(range(TRIES)):
            try:
                self._remove_old()
                self._write()
                break
            except Exception as error:  # of whatever file system it is; who may write there can be in the way
                if not left:
                    raise ConsilienceError(
                        f"the shared folder {folder} cannot be written to ({type(error).__name__}: {error}). Is it "
                        "there, and may this site write to it? Correct `folder` in site.toml."
                    ) from error
                self._written.clear()
                time.sleep(LOCAL)
        Thread(target=self._work, name="folder", daemon=True).start()

    def publish(self, topic: str, number: int) -> None:
        """Writes what the outbox now has on a topic, and a new status; removes old rounds."""
        document = self._outbox.document(topic, number, self._readers)
        name = topic if topic == "finished" else f"{topic}-{number}"
        with self._changed:
            self._mine[name] = document
            same = sorted((int(n.rpartition("-")[2]), n) for n in self._mine if n.startswith(f"{topic}-"))
            for _, old in same[:-SERVED]:
                del self._mine[old]
            self._next_status = 0.0
            self._changed.notify()

    def fetch(
        self, peer: str, role: str, topic: str, number: int, question: bytes, seconds: float, answered: Answered
    ) -> None:
        """Waits for a peer's file on a topic, or for a status that shows that it has left the round."""
        with self._changed:
            self._requests.append(FolderRequest(peer, role, topic, number, time.monotonic() + seconds, answered))
            self._changed.notify()

    def close(self) -> None:
        """Ends it; what was published stays."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        with suppress(Exception):
            self._write()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait(LOCAL if self._local else REMOTE)
                if self._closed:
                    return
                requests = list(self._requests)
            with suppress(Exception):  # the file system may be away for a while
                self._write()
            for (peer, role), watched in self._watched.items():
                self._look(peer, role, watched)
            done = [request for request in requests if self._try(request)]
            with self._changed:
                self._requests = [request for request in self._requests if request not in done]
            for request in done:
                request.answered(None)

    def _write(self) -> None:
        """Brings this site's folder up to date."""
        now = time.monotonic()
        with self._changed:
            mine = dict(self._mine)
        for name in self._written.keys() - mine.keys() - {"status"}:
            self._remove(name)
        if now > self._next_check:
            self._next_check = now + CHECK
            for name in mine:
                if hash_of(self._read(self._me, self._role, name)) != self._written.get(name):
                    self._written.pop(name, None)
        for name, data in mine.items():
            if self._written.get(name) != hash_of(data):
                self._put(name, data)
        if now > self._next_status:
            self._put("status", self._outbox.document("status", 0, self._readers))
            self._next_status = now + self._lease / 5

    def _look(self, peer: str, role: str, watched: WatchedPeer) -> None:
        """Notes whether a peer's process is present."""
        now, data = time.monotonic(), self._read(peer, role, "status")
        if data and data != watched.message and (digest := hash_of(data)) not in watched.refused:
            try:
                message = self._sealer.open(data, Kind.STATUS)
                status = status_from(self._format, bytes(message.data), message.run, message.round, bytes(NONCE))
                first = watched.status is None
                if (message.sender, message.epoch) != (peer, self._epoch) or (
                    first and abs(time.time() - status.clock) > self._lease + CLOCK
                ):
                    raise InvalidInput("of another, or too old")
                if watched.status is not None and status.clock <= watched.status.clock:
                    raise InvalidInput("older than the one before")
                watched.message, watched.status, watched.renewed = data, status, now
            except InvalidInput:
                watched.refused = {digest, *list(watched.refused)[:7]}
        present = watched.status is not None and now < watched.renewed + self._lease
        if present != watched.present:
            watched.present = present
            self._reach(peer, role, present)

    def _try(self, request: FolderRequest) -> bool:
        """Whether a request has its answer, or no more time."""
        watched = self._watched.get((request.peer, request.role), WatchedPeer())
        name = request.topic if request.topic in ("status", "federation", "finished") else ""
        data = watched.message if name == "status" else b""
        if name != "status":
            data = self._read(request.peer, request.role, name or f"{request.topic}-{request.number}")
            if name == "finished" and data and self._is_last(request.peer, data):
                self._outbox.finished.add(request.peer)
        status = watched.status
        if not data and not name and status is not None and status.same_run and status.round > request.number:
            kept = status.round < request.number + SERVED
            request.missing = request.missing or time.monotonic()
            if not kept or time.monotonic() > request.missing + 2 * CHECK:  # else somebody removed it for a while
                data = watched.message
        elif data:
            request.missing = 0.0
        if data and request.seen != (digest := hash_of(data)):
            request.seen = digest
            if request.answered(data):
                return True
        return time.monotonic() > request.end

    def _is_last(self, peer: str, data: bytes) -> bool:
        """Whether this is a peer's status in the last round of the run."""
        try:
            message = self._sealer.open(data, Kind.STATUS)
        except InvalidInput:
            return False
        return (message.sender, message.run, message.round) == (peer, self._format.run, self._format.rounds)

    def _path(self, agent: str, role: str, name: str) -> str:
        return f"{self._root}/{agent}/{role}/{name}"

    def _read(self, agent: str, role: str, name: str) -> bytes:
        """The content of a file; empty if there is none, it is too large or cannot be read now."""
        path, most = self._path(agent, role, name), self._sealer.largest
        try:
            content: bytes = _read_plain(path, most) if self._local else self._fs.cat_file(path, start=0, end=most + 1)
        except Exception:  # of whatever file system it is
            return b""
        return content if len(content) <= most else b""

    def _put(self, name: str, data: bytes) -> None:
        path = self._path(self._me, self._role, name)
        if self._local:
            self._check_own(path)
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(Path(path), data)
        else:
            self._fs.pipe_file(path, data)
        self._written[name] = hash_of(data)

    def _check_own(self, path: str) -> None:
        """Refuses a path that leads out of the shared folder: who can write there may have put a link in it."""
        real = Path(self._top).resolve() / Path(path).parent.relative_to(self._top)
        if self._local and Path(path).parent.resolve() != real:
            raise OSError(f"{path} leads elsewhere")

    def _remove(self, name: str) -> None:
        path = self._path(self._me, self._role, name)
        self._check_own(path)
        with suppress(FileNotFoundError):
            self._fs.rm_file(path)
        self._written.pop(name, None)

    def _remove_old(self) -> None:
        """Removes what an earlier process of this site wrote, in this epoch or in one before."""
        home, _, epoch = self._root.rpartition("/")
        with suppress(FileNotFoundError):
            for name in {str(path).rstrip("/").rpartition("/")[2] for path in self._fs.ls(home, detail=False)}:
                if name.isdecimal() and int(name) <= int(epoch):
                    self._remove_all(f"{home}/{name}/{self._me}/{self._role}")

    def _remove_all(self, folder: str) -> None:
        with suppress(FileNotFoundError):
            for path in map(str, self._fs.ls(folder, detail=False)):
                self._check_own(path)
                if _OWN.fullmatch(path.rpartition("/")[2]):
                    self._fs.rm_file(path)


def _read_plain(path: str, most: int) -> bytes:
    """A file's content, of one byte more than `most` if it is longer. A pipe, device or link is none and is not opened.

    Who can write into the folder could otherwise stop or fill the process that reads.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(handle, "rb") as file:
        return file.read(most + 1) if stat.S_ISREG(os.fstat(handle).st_mode) else b""


def _file_system(folder: str) -> tuple[Any, str]:
    """The file system of a path or URL, and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ConsilienceError("a shared folder needs more packages: pip install 'consilience[folder]'.") from error
    try:
        fs, root = url_to_fs(folder, use_listings_cache=False, skip_instance_cache=False)
    except Exception as error:
        raise ConsilienceError(f"`folder` in site.toml names {folder}, which cannot be opened: {error}.") from error
    return fs, str(root)
