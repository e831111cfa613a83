"""The lines of the audit log as JSON to a syslog daemon."""

import json
import logging
from logging.handlers import SysLogHandler
from typing import Any, final

LONGEST = 8192
"""Characters of a line; of a longer one the hashes of what was heard are left out."""
_LEVELS = {"stopped": logging.ERROR} | dict.fromkeys(
    ("damaged", "excluded", "refused", "rejected", "reconnected", "revoked", "suspicious", "waiting"), logging.WARNING
)


@final
class Syslog(SysLogHandler):
    """Sends every event of a site to syslog. A daemon that does not answer ends nothing.

    Args:
        address: A socket such as /dev/log, or host:port (UDP).
        agent: The site's name, which each line holds.
    """

    def __init__(self, address: str, agent: str) -> None:
        host, _, port = address.rpartition(":")
        super().__init__(
            address if address.startswith("/") else (host.strip("[]"), int(port)), SysLogHandler.LOG_DAEMON
        )
        self.setFormatter(logging.Formatter("consilience[%(process)d]: %(message)s"))
        self._agent = agent

    def observe(self, entry: dict[str, Any]) -> None:
        """Sends one event."""
        line = json.dumps({"site": self._agent, **entry}, ensure_ascii=False)
        if len(line) > LONGEST:
            line = json.dumps({"site": self._agent, **{key: entry[key] for key in ("time", "event")}})
        level = _LEVELS.get(entry["event"], logging.INFO)
        self.emit(logging.LogRecord("consilience", level, "", 0, "%s", (line,), None))

    def handleError(self, record: logging.LogRecord) -> None:
        """Nothing: the audit log has the line."""
