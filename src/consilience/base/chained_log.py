"""Lines of JSON. Each holds the hash of the line before it and, where there is a key, a signature.

The audit log and the privacy ledger of a site are files of such lines. A line that was changed, removed or put between
two others no longer fits the next one; who changes that one, too, needs the site's key.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

Sign = Callable[[bytes], bytes]
"""Makes an Ed25519 signature (64 bytes) of a message."""
Verify = Callable[[bytes, bytes], bool]
"""Whether a signature is that of a message."""
_SIGNED = b', "signed": "'
_TAIL = len(_SIGNED) + 128 + len(b'"}')


def line_hash(line: bytes) -> str:
    """What the next line holds of a line."""
    return hashlib.sha256(line).hexdigest()[:32]


def chained_line(content: Mapping[str, Any], before: str, purpose: bytes, sign: Sign | None) -> bytes:
    """A line without its end of line.

    Args:
        content: What it says.
        before: The hash of the line before it; empty for the first.
        purpose: What the signature is for. Nothing else that the key signs begins with it.
        sign: Signs it; None where there is no key.
    """
    body = json.dumps({**content, "before": before}, ensure_ascii=False).encode()
    if sign is None:
        return body
    return body[:-1] + _SIGNED + sign(purpose + body).hex().encode() + b'"}'


def is_line_signed(line: bytes, purpose: bytes, verify: Verify) -> bool:
    """Whether a line has a signature that `verify` accepts."""
    tail = line[-_TAIL:]
    if len(line) < _TAIL or not tail.startswith(_SIGNED):
        return False
    text = tail[len(_SIGNED) : -2]
    if not re.fullmatch(rb"[0-9a-f]{128}", text):
        return False
    return verify(bytes.fromhex(text.decode()), purpose + line[:-_TAIL] + b"}")
