"""Before a run: can each peer be reached, is its certificate valid, do clocks, federation file and data agree?"""

import socket
import ssl
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from consilience.federation.peers.federation import Federation, Member
from consilience.federation.peers.frame import Status
from consilience.federation.peers.keys import Certificate, parse_certificate, read_certificate
from consilience.federation.peers.site_exchange import SiteExchange
from consilience.federation.peers.untrusted_input import printable
from consilience.federation.peers.zenoh_config import Tls

PAUSE = 1.0
"""Seconds between attempts to reach a peer."""
LINGER = 30.0
"""Seconds for which a check that has reached all peers answers those that have not, at most."""


@dataclass(frozen=True)
class Finding:
    """What a check knows of one peer."""

    agent: str
    address: str
    reachable: str
    """Why it is not reachable; empty if it is."""
    certificate: Certificate | None
    certificate_problem: str
    clock: float | None
    """Seconds that its clock is ahead of ours."""
    federation: str
    """Why this site cannot work with it: its federation file, its shared data, its version; empty if it can."""
    answered: bool

    @property
    def good(self) -> bool:
        """Whether a run with this peer can begin."""
        return self.answered and not (self.reachable or self.certificate_problem or self.federation)


def examine(
    federation: Federation,
    me: str,
    tls: Tls,
    exchange: SiteExchange,
    seconds: float = 8.0,
    revoked: Collection[str] = (),
    direct: bool = True,
) -> list[Finding]:
    """One finding for each peer that is not revoked. Peers answer while their agent or their check runs.

    With `direct` links each peer's port is tried, too.

    Peers that cannot be reached yet are tried again for `seconds`. When all were reached, this check answers other
    checks until they have reached all, too.
    """
    peers = [member for member in federation.roster if member.agent != me and member.agent not in revoked]
    end, statuses = time.monotonic() + seconds, dict[str, Status | str]()
    handshakes: dict[str, tuple[str, Certificate | None]] = {}
    while True:
        for member in peers:
            if handshakes.get(member.agent, ("not tried", None))[0]:
                tried = direct and member.address
                handshakes[member.agent] = tls_handshake(member.address, member.host, tls) if tried else ("", None)
        waited_for = {member.agent for member in peers} - statuses.keys()
        statuses |= exchange.statuses(max(0.0, min(PAUSE, end - time.monotonic())), waited_for)
        findings = [_finding(member, *handshakes[member.agent], statuses.get(member.agent)) for member in peers]
        if all(finding.answered and not finding.reachable for finding in findings):
            exchange.answer_checks(LINGER)
            return findings
        if time.monotonic() > end:
            return findings
        if not waited_for - statuses.keys():
            time.sleep(0.2)


def _finding(member: Member, problem: str, certificate: Certificate | None, status: Status | str | None) -> Finding:
    wrong = ""
    if certificate is not None:
        wrong = certificate.problem(datetime.now(UTC))
    clock = status.clock if isinstance(status, Status) else None
    differs = status if isinstance(status, str) else ""
    if isinstance(status, Status) and not status.same_shared:
        differs = "its shared data differ"
    return Finding(member.agent, member.address, problem, certificate, wrong, clock, differs, status is not None)


def is_own_process(listen: str, member: Member, tls: Tls) -> bool:
    """Whether the process that listens at this site's port, such as its agent, shows the site's certificate."""
    _, certificate = tls_handshake(listen, member.host, tls)
    return certificate is not None and certificate == read_certificate(tls.certificate)


def own_certificate_problem(host: str, tls: Tls) -> str:
    """Why peers would not accept this site's certificate; empty if they would.

    A TLS handshake of the site with itself: key, certificate, CA, host and uses must fit.
    """
    try:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_verify_locations(str(tls.authority))
        server.verify_mode = ssl.CERT_REQUIRED
        server.load_cert_chain(str(tls.certificate), str(tls.key))
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = [
            _client_context(tls).wrap_bio(to_client, to_server, server_hostname=host.strip("[]")),
            server.wrap_bio(to_server, to_client, server_side=True),
        ]
        for _ in range(4):  # each side speaks twice at most
            for end in ends:
                with suppress(ssl.SSLWantReadError):
                    end.do_handshake()
        for end in ends:
            end.do_handshake()
        return ""
    except ssl.SSLCertVerificationError as error:
        return f"is not accepted with the CA {tls.authority} ({error.verify_message})"
    except (OSError, ssl.SSLError) as error:
        return f"does not go with the key {tls.key} and the CA {tls.authority} ({error.strerror or error})"


def _client_context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=str(tls.authority))
    if tls.certificate.is_file() and tls.key.is_file():
        context.load_cert_chain(str(tls.certificate), str(tls.key))
    return context


def tls_handshake(address: str, name: str, tls: Tls) -> tuple[str, Certificate | None]:
    """Why TLS with the host `name` fails (empty if it does not), and the host's certificate.

    The site shows its own certificate if it has one.
    """
    host, _, port = address.rpartition(":")
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), timeout=5) as plain,
            _client_context(tls).wrap_socket(plain, server_hostname=name.strip("[]")) as secure,
        ):
            der = secure.getpeercert(binary_form=True)
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not accepted: {error.verify_message}", None
    except (OSError, ssl.SSLError) as error:
        return f"no connection to {address}: {error.strerror or error}", None
    try:
        return "", parse_certificate(ssl.DER_cert_to_PEM_cert(der).encode()) if der else None
    except Exception as error:  # TLS takes what the reader of certificates does not
        return f"its certificate cannot be read: {printable(error)}", None
