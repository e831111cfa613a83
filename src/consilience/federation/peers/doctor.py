"""Before a run: can each peer be reached, is its certificate valid, do clocks, federation file and data agree?"""

import socket
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime

from consilience.federation.peers.federation import Federation, Member
from consilience.federation.peers.frame import Status
from consilience.federation.peers.keys import Certificate, parse_certificate
from consilience.federation.peers.link import Tls
from consilience.federation.peers.mesh import Mesh
from consilience.federation.peers.outside import shown


@dataclass(frozen=True)
class Finding:
    """What is known of one peer."""

    agent: str
    address: str
    reachable: str
    """Why it is not; empty if it is."""
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


def examine(federation: Federation, me: str, tls: Tls, mesh: Mesh, seconds: float = 8.0) -> list[Finding]:
    """One finding per peer. Peers answer while their agent or their doctor runs."""
    peers = [member for member in federation.roster if member.agent != me]
    handshakes = {member.agent: _handshake(member, tls) for member in peers}
    statuses = mesh.statuses(seconds)
    findings = []
    for member in peers:
        problem, certificate = handshakes[member.agent]
        if problem:
            problem, certificate = _handshake(member, tls)
        wrong = ""
        if certificate is not None:
            wrong = certificate.problem(datetime.now(UTC))
            if not wrong and certificate.name != member.certificate:
                wrong = f"is that of {certificate.name!r}, not of {member.certificate!r}"
        status = statuses.get(member.agent)
        clock = status.clock if isinstance(status, Status) else None
        differs = status if isinstance(status, str) else ""
        if isinstance(status, Status) and not status.same_shared:
            differs = "its shared data differ"
        findings.append(
            Finding(member.agent, member.address, problem, certificate, wrong, clock, differs, status is not None)
        )
    return findings


def _handshake(member: Member, tls: Tls) -> tuple[str, Certificate | None]:
    """Why the peer cannot be reached over mutual TLS (empty if it can), and its certificate."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=str(tls.authority))
    context.load_cert_chain(str(tls.certificate), str(tls.key))
    try:
        with (
            socket.create_connection((member.host.strip("[]"), member.port), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname=member.host.strip("[]")) as secure,
        ):
            der = secure.getpeercert(binary_form=True)
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not accepted: {error.verify_message}", None
    except (OSError, ssl.SSLError) as error:
        return f"no connection to {member.address}: {error.strerror or error}", None
    try:
        return "", parse_certificate(ssl.DER_cert_to_PEM_cert(der).encode()) if der else None
    except Exception as error:  # TLS takes what the reader of certificates does not
        return f"its certificate cannot be read: {shown(error)}", None
