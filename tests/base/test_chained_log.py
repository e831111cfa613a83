"""Lines of JSON that hold the hash of the line before them and, where there is a key, a signature."""

import hashlib
import json

from consilience.base.chained_log import chained_line, is_line_signed, line_hash


def sign(message: bytes) -> bytes:
    return hashlib.sha512(b"key" + message).digest()


def verify(signature: bytes, message: bytes) -> bool:
    return signature == sign(message)


def test_a_line_holds_the_hash_of_the_one_before_it():
    first = chained_line({"event": "start"}, "", b"P", None)
    second = chained_line({"event": "end"}, line_hash(first), b"P", None)
    assert json.loads(second) == {"event": "end", "before": line_hash(first)}
    assert line_hash(first) != line_hash(first.replace(b"start", b"stars"))


def test_a_signature_is_of_the_whole_line_and_of_its_purpose():
    line = chained_line({"event": "sent", "agent": "bücher"}, "ab", b"P", sign)
    assert json.loads(line)["agent"] == "bücher"
    assert is_line_signed(line, b"P", verify)
    assert not is_line_signed(line, b"Q", verify)
    assert not is_line_signed(line.replace(b"sent", b"lost"), b"P", verify)
    assert not is_line_signed(chained_line({"event": "sent"}, "ab", b"P", None), b"P", verify)
