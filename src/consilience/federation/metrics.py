"""How a site's run is going, for Prometheus, and a health check: both follow from the events of the audit log."""

from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any, final

from consilience.base.errors import ConsilienceError

TIMEOUT = 5.0
"""Seconds within which a request must arrive. Requests are answered one after another."""
_PROBLEMS = ("damaged", "excluded", "refused", "rejected", "stopped", "suspicious")


@final
class Metrics:
    """Serves /metrics and /health of one site until it is closed.

    Args:
        address: host:port to listen at.
        agent: The site's name.
    """

    def __init__(self, address: str, agent: str) -> None:
        try:
            import prometheus_client as prometheus
        except ImportError as error:
            raise ConsilienceError(
                "`metrics` in site.toml needs one more package: pip install 'consilience[metrics]'."
            ) from error
        self._registry = registry = prometheus.CollectorRegistry()
        self._render = prometheus.generate_latest

        def gauge(name: str, meaning: str) -> Any:
            return prometheus.Gauge(f"consilience_{name}", meaning, ["site"], registry=registry).labels(agent)

        def counter(name: str, meaning: str, *labels: str) -> Any:
            return prometheus.Counter(f"consilience_{name}", meaning, ["site", *labels], registry=registry)

        self._agent = agent
        self._round = gauge("round", "Round whose predictions were published last.")
        self._present = gauge("present", "Agents that are present, this one included.")
        self._heard = gauge("heard", "Agents heard in the last round, this one included.")
        self._epsilon = gauge("epsilon", "Epsilon spent on the private rows; NaN without a promise.")
        self._error_time = gauge("last_error_timestamp_seconds", "When the last error was logged; 0 for never.")
        self._error = prometheus.Info("consilience_last_error", "The last error.", ["site"], registry=registry)
        self._bytes = counter("sent_bytes", "Bytes of all frames that left the site since it started.").labels(agent)
        self._late = counter("late", "Predictions of an agent that came after their round had closed.", "agent")
        self._absent = counter("absent", "Rounds that closed without an agent.", "agent")
        self._epsilon.set(float("nan"))
        self._present.set(1)
        self._peers = set[str]()
        self.problem = "starting"
        """Why the site is not healthy; empty if it is."""
        self._server = _serve(address, self)
        Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()

    @property
    def port(self) -> int:
        """The port at which it listens."""
        return int(self._server.server_address[1])

    def observe(self, entry: dict[str, Any]) -> None:
        """Takes in one event of the audit log."""
        event, agent = entry["event"], str(entry.get("agent"))
        if event in ("start", "sent", "round", "finished"):
            self.problem = ""
        elif event == "waiting":
            heard = len(entry["found"]) + 1
            self.problem = f"round {entry['round']}: {heard} agents of {entry['quorum']} needed, after the deadline"
        elif event == "stopped":
            self.problem = f"stopped: {entry['reason']}"
        if event == "sent":
            self._round.set(entry["round"])
            self._bytes.inc(entry["bytes"])
        elif event == "round":
            self._heard.set(len(entry["heard"]) + 1)
            for name in entry["absent"]:
                self._absent.labels(self._agent, name).inc()
        elif event == "late":
            self._late.labels(self._agent, agent).inc()
        elif event in ("here", "gone", "revoked"):
            (self._peers.add if event == "here" else self._peers.discard)(agent)
            self._present.set(len(self._peers) + 1)
        elif event in ("ledger", "privacy"):
            self._epsilon.set(entry["spent"] if event == "ledger" else entry["epsilon"])
        elif event in _PROBLEMS:
            reason = str(entry.get("reason") or entry.get("sign") or event)
            self._error.labels(self._agent).info({"event": event, "agent": agent, "reason": reason[:200]})
            self._error_time.set_to_current_time()

    def page(self, path: str) -> tuple[int, str]:
        """The status and the text of a page."""
        if path == "/health":
            return (503, f"{self.problem}\n") if self.problem else (200, "ok\n")
        return (200, self._render(self._registry).decode()) if path == "/metrics" else (404, "/metrics or /health\n")

    def close(self) -> None:
        """Ends the server."""
        self._server.shutdown()
        self._server.server_close()


def _serve(address: str, metrics: Metrics) -> HTTPServer:
    class MetricsHandler(BaseHTTPRequestHandler):
        timeout = TIMEOUT

        def do_GET(self) -> None:
            status, text = metrics.page(self.path.partition("?")[0])
            content = text.encode()
            with suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Silent: requests are not logged."""

    host, _, port = address.rpartition(":")
    try:
        return HTTPServer((host.strip("[]"), int(port)), MetricsHandler)
    except OSError as error:
        raise ConsilienceError(
            f"metrics cannot be served at {address}: {error.strerror}. Set `metrics` in site.toml to another port."
        ) from error
