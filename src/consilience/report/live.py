"""Live reports: the page of a run that has not ended, served on this machine and updated after every round."""

import json
import secrets
import socket
import threading
import time
from contextlib import suppress
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from consilience.base.errors import ConsilienceError
from consilience.report import html
from consilience.report.live_data import has_ended, is_run, snapshot, state_of
from consilience.report.page import audit_of, page_data, safe_json
from consilience.report.run_index import index_page
from consilience.runtime import checkpoint
from consilience.runtime.run import is_finished

POLL = 0.5
"""Seconds between two checks of a folder."""
LINGER = 3.0
"""Seconds that open pages have to receive the end of the run before the server stops."""
TIMEOUT = 10.0
"""Seconds within which a request must arrive and its answer be received."""
MOST_CONNECTIONS = 32
"""Simultaneous connections. Each is an open file of the process that trains, which needs other files too."""
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Connection": "close",
}
LATER = "Gains are shown at the end: they are against the same agents, trained alone for as many rounds."


def message(folder: Path) -> dict[str, Any]:
    """What a page receives: its data, None before the first round, and its state."""
    run = snapshot(folder)
    state = state_of(folder)
    if run is None:
        return {"state": state, "data": None}
    data = page_data(run) | {"audit": audit_of(folder)}
    if not state["finished"] and "alone" not in run.references:
        data |= {"alone_note": LATER, "verdicts": []}
    return {"state": state, "data": data}


def live_page(folder: Path) -> str:
    """The report with the current data, and a script that updates it."""
    script = (files("consilience.report") / "live.js").read_text(encoding="utf-8")
    current = message(folder)
    if current["data"] is None:
        facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in current["state"]["facts"])
        parts = [f"<p>{escape(current['state']['text'])}</p>", f"<dl>{facts}</dl>"]
        return html.page(f"{folder.name}: waiting for the first round", parts, refresh=2)
    page = html.template("page.html").replace("default-src 'none';", "default-src 'none'; connect-src 'self';")
    if not current["state"]["finished"]:
        page = page.replace("<body>", "<body>\n<script>window.underway = true;</script>")
    page = page.replace("__DATA__", safe_json(current["data"]))
    return page.replace("</body>", f"<script>\n{script}</script>\n</body>")


class Watch:
    """Serves a folder until it is closed, at an address that contains a secret token."""

    def __init__(self, folder: Path, host: str = "127.0.0.1", port: int = 0, token: str = "") -> None:
        if not folder.is_dir():
            raise ConsilienceError(f"{folder} is not a folder. Give the folder of a run, a comparison or a site.")
        inner = folder / "run"
        self.folder = inner if not is_run(folder) and is_run(inner) else folder
        token = token or secrets.token_urlsafe(16)
        self._end = threading.Event()
        self._streams: list[int] = []
        kind = {"folder": self.folder, "token": token, "ended": self._end, "streams": self._streams}
        self._server = start_server(type("Handler", (_Handler,), kind), host, port)
        self.address = f"http://{host}:{self._server.server_address[1]}/{token}/"

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops the server and its connections; open pages first receive the end of the run."""
        end = time.monotonic() + LINGER
        with suppress(ConsilienceError, OSError, ValueError, KeyError):  # a damaged folder is no reason not to end
            while self._streams and is_finished(self.folder) and has_ended(self.folder) and time.monotonic() < end:
                time.sleep(0.05)
        self._end.set()
        self._server.shutdown()
        self._server.server_close()


def start_server(handler: "type[TokenHandler]", host: str, port: int) -> "_Server":
    """A server of pages, in a thread of its own."""
    try:
        server = _Server((host, port), handler)
    except OSError as error:
        raise ConsilienceError(f"cannot serve at {host}:{port}: {error.strerror}. Choose another port.") from error
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    return server


class _Server(ThreadingHTTPServer):
    """A server with few connections; one that sends no request with the token in time is closed."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: dict[socket.socket, float] = {}
        """Connections, and when each expires."""
        self._lock = threading.Lock()
        super().__init__(address, handler)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether another connection is allowed; otherwise it is closed at once."""
        with self._lock:
            if len(self._open) >= MOST_CONNECTIONS:
                return False
            self._open[request] = time.monotonic() + TIMEOUT
        return True

    def admit(self, request: socket.socket) -> None:
        """Lifts the time limit of a connection whose request had the token."""
        with self._lock:
            self._open[request] = float("inf")

    def service_actions(self) -> None:
        """Closes expired connections; called several times a second."""
        now = time.monotonic()
        with self._lock:
            late = [request for request, until in self._open.items() if until < now]
        for request in late:
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Closes a connection and frees its slot."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silent: an error of a page does not concern the run."""


class TokenHandler(BaseHTTPRequestHandler):
    """Answers requests whose address begins with a secret token."""

    server: _Server
    token: str
    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: requests are not logged."""

    def handle(self) -> None:
        """Answers a request; a page that is closed meanwhile is not an error."""
        with suppress(ConnectionError, TimeoutError):
            super().handle()

    def do_GET(self) -> None:
        """Answers with a page."""
        token, _, rest = unquote(self.path.split("?")[0]).lstrip("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            self._answer(b"not here", "text/plain", HTTPStatus.NOT_FOUND)
            return
        self.server.admit(self.connection)
        try:
            self.page(rest)
        except (ConnectionError, TimeoutError):
            raise
        except Exception:  # files change while they are read, and may be damaged
            self._answer(b"This page cannot be made now. Try again.", "text/plain", HTTPStatus.SERVICE_UNAVAILABLE)

    def page(self, rest: str) -> None:
        """Answers with the page at a path after the token."""
        raise NotImplementedError

    def answer(self, text: str) -> None:
        """Answers with a page."""
        self._answer(text.encode(), "text/html; charset=utf-8")

    def _answer(self, data: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._start(status, {"Content-Type": kind, "Content-Length": str(len(data))})
        self.wfile.write(data)

    def _start(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        """The first lines of an answer; the connection is closed after it."""
        self.send_response(status)
        for name, value in (headers | HEADERS).items():
            self.send_header(name, value)
        self.end_headers()


class _Handler(TokenHandler):
    folder: Path
    ended: threading.Event
    streams: list[int]
    """One entry per page that receives events."""

    def page(self, rest: str) -> None:
        """Answers with the page of a run, its events, the list of runs, or another page in the folder."""
        inner, _, last = rest.rpartition("/")
        top = self.folder.resolve()
        run = (self.folder / inner.removeprefix("run").lstrip("/")).resolve()
        page = (top / last).resolve()
        if not inner and page.suffix == ".html" and page.parent == top and page.is_file():
            self._answer(page.read_bytes(), "text/html; charset=utf-8")
        elif not run.is_relative_to(top) or last not in ("", "events"):
            self._answer(b"not here", "text/plain", HTTPStatus.NOT_FOUND)
        elif last == "events" and is_run(run):
            self._events(run)
        elif is_run(run):
            self.answer(live_page(run))
        elif run == top:
            self.answer(index_page(run))
        else:
            self._answer(b"not here", "text/plain", HTTPStatus.NOT_FOUND)

    def _events(self, run: Path) -> None:
        """Server-sent events: all data after they changed, and the state in between."""
        self._start(HTTPStatus.OK, {"Content-Type": "text/event-stream"})
        self.streams.append(1)
        try:
            with suppress(OSError):
                self._send_until_finished(run)
        finally:
            self.streams.pop()

    def _send_until_finished(self, run: Path) -> None:
        before: tuple[int, int] | None = None
        while True:
            ended = has_ended(run)
            finished = sum(1 for _ in run.glob("*/summary.json")) + is_finished(run)
            now = (checkpoint.last_round(run / "checkpoint"), finished)
            content: dict[str, Any] = {}
            with suppress(ConsilienceError, OSError, ValueError, KeyError):  # files change while they are read
                content = message(run) if ended or now != before else {"state": state_of(run), "data": None}
            if content:
                before = now
                self._send("round" if content["data"] else "state", content)
                if content["state"]["finished"]:
                    return
            if self.ended.wait(POLL):
                return

    def _send(self, kind: str, content: dict[str, Any]) -> None:
        self.wfile.write(f"event: {kind}\ndata: {json.dumps(content, allow_nan=False)}\n\n".encode())
        self.wfile.flush()
