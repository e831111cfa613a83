"""The report of a run that is under way: the same page, served on this machine and told of every round."""

import json
import secrets
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

from consilience.errors import ConsilienceError
from consilience.report import shell
from consilience.report.page import page_data
from consilience.runtime import checkpoint
from consilience.runtime.driver import STARTED
from consilience.runtime.history import History
from consilience.runtime.run import Run, is_finished, load_run
from consilience.runtime.summary import summary_from

POLL = 0.5
"""Seconds between two looks at a folder."""


def is_run(folder: Path) -> bool:
    """Whether a run was begun, or is finished, in `folder`."""
    return is_finished(folder) or (folder / STARTED).is_file()


def snapshot(folder: Path) -> Run | None:
    """The run in `folder` as far as it has come; None before its first round."""
    if is_finished(folder):
        return load_run(folder)
    done, arrays, _ = checkpoint.read(folder / "checkpoint")
    if not done:
        return None
    summary = summary_from((folder / STARTED).read_text())
    kept = checkpoint.part(arrays, "history/")
    names = _recorded(summary.names, kept, arrays)
    history = History(names, everyone=len(names) == len(summary.names))
    history.restore(kept)
    trust, rounds = history.trust()
    return Run(history.frame(), trust, rounds, summary, by_class=history.by_class, sparse=history.sparse())


def state_of(folder: Path) -> dict[str, Any]:
    """What the line at the top of a live page says."""
    if is_finished(folder):
        return {"finished": True, "text": "finished"}
    summary = summary_from((folder / STARTED).read_text())
    done = checkpoint.last_round(folder / "checkpoint")
    text = f"round {done} of {summary.rounds} done"
    if done:
        began = (folder / STARTED).stat().st_mtime
        ended = max(path.stat().st_mtime for path in (folder / "checkpoint").iterdir())
        each = (ended - began) / done
        late = time.time() - ended
        text += f"; about {max(0.0, each * (summary.rounds - done) - late):.0f} s left"
        text += f"; the last round ended {late:.0f} s ago" if late > 2 * each + 5 else ""
    return {"finished": False, "text": text}


def message(folder: Path) -> dict[str, Any]:
    """What is sent to a page: its data, None before the first round, and its state."""
    run = snapshot(folder)
    return {"state": state_of(folder), "data": None if run is None else page_data(run)}


def live_page(folder: Path) -> str:
    """The report's own page with the data of now, and the script that keeps it so."""
    home = files("consilience.report")
    template = (home / "page.html").read_text(encoding="utf-8")
    script = (home / "live.js").read_text(encoding="utf-8")
    found = message(folder)
    if found["data"] is None:
        parts = ['<meta http-equiv="refresh" content="2">', f"<p>{escape(found['state']['text'])}</p>"]
        return shell.page(f"{folder.name}: waiting for the first round", parts)
    page = template.replace("default-src 'none';", "default-src 'none'; connect-src 'self';")
    page = page.replace("__DATA__", _safe(found["data"]))
    return page.replace("</body>", f"<script>\n{script}</script>\n</body>")


def index_page(folder: Path, runs: list[Path]) -> str:
    """Links to every run below a folder, such as those of a comparison, and to its own pages and pictures."""
    rows = []
    for run in runs:
        name = run.relative_to(folder).as_posix()
        rows.append(f'<li><a href="run/{escape(name)}/">{escape(name)}</a>: {escape(state_of(run)["text"])}</li>')
    body = ['<meta http-equiv="refresh" content="10">', f"<p>{len(runs)} runs.</p>", "<ul>", *rows, "</ul>"]
    return shell.page(folder.name, body)


class Watch:
    """Serves a folder until it is closed. Only who knows the address, which holds a token, gets an answer."""

    def __init__(self, folder: Path, host: str = "127.0.0.1", port: int = 0, token: str = "") -> None:
        if not folder.is_dir():
            raise ConsilienceError(f"{folder} is no folder. Give the folder of a run, a comparison or a site.")
        inner = folder / "run"
        self.folder = inner if not is_run(folder) and is_run(inner) else folder
        token = token or secrets.token_urlsafe(16)
        self._open = threading.Event()
        handler = type("Handler", (_Handler,), {"folder": self.folder, "token": token, "ended": self._open})
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except OSError as error:
            raise ConsilienceError(f"cannot serve at {host}:{port}: {error.strerror}. Choose another port.") from error
        self._server.daemon_threads = True
        self.address = f"http://{host}:{self._server.server_address[1]}/{token}/"
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the server and all its connections."""
        self._open.set()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    folder: Path
    token: str
    ended: threading.Event
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        """The page, its events, or the list of runs."""
        token, _, rest = unquote(self.path.split("?")[0]).lstrip("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            self._answer("not here", "text/plain", HTTPStatus.NOT_FOUND)
            return
        inner, _, last = rest.rpartition("/")
        run = (self.folder / inner.removeprefix("run").lstrip("/")).resolve()
        if not run.is_relative_to(self.folder.resolve()) or last not in ("", "events"):
            self._answer("not here", "text/plain", HTTPStatus.NOT_FOUND)
        elif last == "events" and is_run(run):
            self._events(run)
        elif is_run(run):
            self._answer(live_page(run), "text/html; charset=utf-8")
        elif run == self.folder.resolve():
            runs = sorted(path.parent for path in run.rglob("config.toml") if is_run(path.parent))
            self._answer(index_page(run, runs), "text/html; charset=utf-8")
        else:
            self._answer("not here", "text/plain", HTTPStatus.NOT_FOUND)

    def _answer(self, text: str, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        data = text.encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(data)

    def _events(self, run: Path) -> None:
        """Server-sent events: the whole data when they have changed, and the state in between."""
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        before: tuple[int, bool] | None = None
        with suppress(OSError):
            while not self.ended.wait(POLL):
                now = (checkpoint.last_round(run / "checkpoint"), is_finished(run))
                if now != before:
                    before = now
                    self._send("round", message(run))
                    if now[1]:
                        return
                else:
                    self._send("state", {"state": state_of(run), "data": None})

    def _send(self, kind: str, content: dict[str, Any]) -> None:
        self.wfile.write(f"event: {kind}\ndata: {json.dumps(content, allow_nan=False)}\n\n".encode())
        self.wfile.flush()


def _recorded(names: list[str], kept: dict[str, Any], arrays: dict[str, Any]) -> list[str]:
    """The agents that were recorded here: all of them, or at a site its own."""
    here = list(dict.fromkeys(key.split("/")[1] for key in arrays if key.startswith("agent/")))
    count = len({int(number) for key, column in kept.items() if key.endswith(".agent") for number in column})
    return names if count == len(names) else [name for name in names if name in here][:count]


def _safe(data: Any) -> str:
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
