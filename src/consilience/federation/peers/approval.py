"""Which federation files a site works with: signed by a quorum, not expired, none older than the newest it has seen.

The members that must sign are those of the newest file that the site has seen; at first those of the file itself. A
signature is for all of the file but the epoch, which every site raises by itself for a new run.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.base.errors import ConsilienceError
from consilience.base.files import write_atomically
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.keys import is_signed, public_key, signature_bytes
from consilience.federation.peers.untrusted_input import read_federation

NEWEST = "newest"
"""The folder beside the signing key that holds the newest file of each federation that the site has seen."""


def signed_message(federation: Federation) -> bytes:
    """What members sign of a file: no frame, change or line of a log begins like it."""
    return b"CNSV" + replace(federation, epoch=1, signatures={}).identity()


def with_signature(federation: Federation, agent: str, key: Ed25519PrivateKey) -> Federation:
    """The file with one more signature."""
    if federation.member(agent).key != public_key(key):
        raise ConsilienceError(f"the signing key of this site is not the one that the federation file has for {agent}.")
    return replace(federation, signatures=federation.signatures | {agent: key.sign(signed_message(federation)).hex()})


def with_signatures_of(federation: Federation, copies: Iterable[Federation]) -> Federation:
    """The file with the signatures of other copies of it, too."""
    signatures = dict(federation.signatures)
    for copy in copies:
        if signed_message(copy) != signed_message(federation):
            raise ConsilienceError(
                f"this is no copy of the file; it differs in {'; '.join(federation.differences(copy))}."
            )
        signatures = dict(copy.signatures) | signatures
    return replace(federation, signatures=signatures)


def signers(federation: Federation, known: Federation | None = None) -> list[str]:
    """Members of the file, or of the one that is known, with a genuine signature of it."""
    message, roster = signed_message(federation), (known or federation).roster
    given = {name: signature_bytes(text) for name, text in federation.signatures.items()}
    return [m.agent for m in roster if m.agent in given and is_signed(m.key, given[m.agent], message)]


def check_approved(federation: Federation, keys: Path, today: date | None = None) -> None:
    """Refuses a file that is expired, older than the newest that the site has seen, or not signed by a quorum.

    Args:
        federation: The file.
        keys: The folder of the site's signing key, where the newest file is remembered.
        today: The date in UTC.
    """
    today = today or datetime.now(UTC).date()
    if federation.expires and today > date.fromisoformat(federation.expires):
        raise ConsilienceError(
            f"the federation file expired on {federation.expires}. Write one that is valid for longer, which a quorum "
            "signs: consilience federation next --expires DATE, then consilience federation sign."
        )
    path = keys / NEWEST / f"{federation.id}.toml"
    newest = read_federation(path) if path.is_file() else None
    if newest is not None:
        if signed_message(newest) == signed_message(federation):
            return
        if federation.version <= newest.version:
            what = "older than" if federation.version < newest.version else "another one than"
            raise ConsilienceError(
                f"the federation file (version {federation.version}) is {what} the newest that this site has seen "
                f"(version {newest.version}, kept in {path}). It differs in "
                f"{'; '.join(newest.differences(federation)[:5])}. Get the newest from the others."
            )
    judging = newest or federation
    names = signers(federation, newest)
    if len(names) < judging.quorum:
        raise ConsilienceError(
            f"{len(names)} members have signed version {federation.version} of the federation file "
            f"({', '.join(names) or 'nobody'}); {judging.quorum} of {', '.join(judging.names)} are needed. Each signs "
            "with `consilience federation sign` and passes the file on."
        )
    remember(federation, keys)


def remember(federation: Federation, keys: Path) -> None:
    """Keeps the file as the newest that the site has seen."""
    (keys / NEWEST).mkdir(exist_ok=True)
    write_atomically(keys / NEWEST / f"{federation.id}.toml", federation.to_toml().encode())
