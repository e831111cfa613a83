"""The page of a consortium: what each member is doing, for those who coordinate."""

import secrets
import time
from collections.abc import Sequence
from typing import final

from consilience.federation.consortium import Consortium, MemberState
from consilience.report import html
from consilience.report.live import TokenHandler, start_server
from consilience.report.tables import Grid

REFRESH = 2
"""Seconds between two looks of an open page."""


def states_grid(federation: str, states: Sequence[MemberState]) -> Grid:
    """The states of all members as a table."""
    rows = [(s.agent, s.state, _clock(s.clock), _ago(s.seen)) for s in states]
    return Grid(f"{federation}: the other members", ("member", "state", "clock", "last answer"), rows, words=4)


def consortium_page(federation: str, states: Sequence[MemberState]) -> str:
    """The page with the states of all members."""
    present = sum(state.clock is not None for state in states)
    text = f"{present} of {len(states)} other members answer. Statuses are signed; they hold no predictions."
    return html.page(federation, [html.paragraph(text), html.table(states_grid(federation, states))], REFRESH)


@final
class ConsortiumPage:
    """Serves the page until it is closed, at an address that contains a secret token.

    Args:
        consortium: Whose members are shown.
        federation: The federation's name.
        host: Where to listen.
        port: 0 for any that is free.
    """

    def __init__(self, consortium: Consortium, federation: str, host: str = "127.0.0.1", port: int = 0) -> None:
        token = secrets.token_urlsafe(16)

        class StatesHandler(TokenHandler):
            def page(self, rest: str) -> None:
                """The page, whatever the rest of the address is."""
                self.answer(consortium_page(federation, list(consortium.members.values())))

        StatesHandler.token = token
        self._server = start_server(StatesHandler, host, port)
        self.address = f"http://{host}:{self._server.server_address[1]}/{token}/"

    def close(self) -> None:
        """Ends the server."""
        self._server.shutdown()
        self._server.server_close()


def _clock(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:+.2f} s"


def _ago(seen: float | None) -> str:
    return "never" if seen is None else f"{time.time() - seen:.0f} s ago"
