"""Damage to bytes and to text: what a broken disk, a careless editor or a hostile peer makes of a good input."""

import random
import re

WORDS = [b"nan", b"inf", b"-inf", b"NaN", b"-Infinity", b"true", b"[]", b"{}", b'""', b"1e999"]
WORDS += [b"0x" + b"f" * 5000, b"9" * 401, b"9" * 5001]
WORDS += [b"[" * 3000, b"a." * 2000 + b"a = 1\n", b"\x1b]0;x\x07", b"[bold red]", b"\xff\xfe", "\u202e".encode(), b"\0"]
WORDS += [b"../../etc", b"2024-01-01", b"00:00:00", b"1979-05-27T07:32:00Z", b"-1", b"18446744073709551616", b"''' "]
_VALUES = re.compile(rb'"[^"\n]{0,200}"|-?[0-9][0-9.e+-]{0,200}|\[[^\]\n]{0,200}\]|true|false')
NUMBERS = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF]


def mutated(good: bytes, draw: random.Random, others: list[bytes]) -> bytes:
    """`good`, damaged once or a few times."""
    data = good
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        data = draw.choice(_WAYS)(data, draw, others)
    return data[: 4 * len(good) + 40_000]


def _bit(data: bytes, draw: random.Random, others: list[bytes]) -> bytes:
    at = draw.randrange(len(data) or 1)
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :] if data else b"\1"


def _number(data: bytes, draw: random.Random, others: list[bytes]) -> bytes:
    size, at = draw.choice((1, 2, 4, 8)), draw.randrange(len(data) + 1)
    value = draw.choice(NUMBERS) % 256**size
    return data[:at] + value.to_bytes(size, draw.choice(("little", "big"))) + data[at + size :]


def _cut(data: bytes, draw: random.Random, others: list[bytes]) -> bytes:
    at, to = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    return draw.choice((data[:at], data[to:], data[:at] + data[to:]))


def _repeat(data: bytes, draw: random.Random, others: list[bytes]) -> bytes:
    at, to = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    return data[:to] + data[at:to] * draw.choice((1, 2, 20)) + data[to:]


def _noise(data: bytes, draw: random.Random, others: list[bytes]) -> bytes:
    at, length = draw.randrange(len(data) + 1), draw.randrange(1, 64)
    return data[:at] + draw.randbytes(length) + data[at + draw.choice((0, length)) :]


def _splice(data: bytes, draw: random.Random, others: list[bytes]) -> bytes:
    other = draw.choice(others) if others else data
    return data[: draw.randrange(len(data) + 1)] + other[draw.randrange(len(other) + 1) :]


def _word(data: bytes, draw: random.Random, others: list[bytes]) -> bytes:
    at = draw.randrange(len(data) + 1)
    return data[:at] + draw.choice(WORDS) + data[at:]


def _value(data: bytes, draw: random.Random, others: list[bytes]) -> bytes:
    """Another value in the place of a number, a word or a list of a text."""
    places = list(_VALUES.finditer(data, 0, 20_000))
    if not places:
        return _word(data, draw, others)
    index = draw.choice(places)
    return data[: index.start()] + draw.choice(WORDS) + data[index.end() :]


def _line(data: bytes, draw: random.Random, others: list[bytes]) -> bytes:
    """A line left out, doubled, or moved."""
    lines = data.split(b"\n")
    at, to = draw.randrange(len(lines)), draw.randrange(len(lines))
    taken = lines.pop(at)
    return b"\n".join(lines[:to] + [taken] * draw.choice((0, 1, 2)) + lines[to:])


_WAYS = (_bit, _bit, _number, _cut, _repeat, _noise, _splice, _word, _value, _value, _line)
