"""Reading and writing TOML, for the whole package."""

import re
import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from consilience.base.errors import ConsilienceError

MOST_DOTS = 8
"""In a key or the header of a table: the time to read dotted keys grows with the square of their parts."""
_STRINGS = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"{3,5}|\Z)|"(?:\\.|[^"\\\n])*(?:"|$)'
    r"|'''.*?(?:'{3,5}|\Z)|'[^'\n]*(?:'|$)|#[^\n]*",
    re.DOTALL | re.MULTILINE,
)
"""Quoted strings and comments, in which dots do no harm; one that does not end goes on to the end."""
_MANY_DOTS = re.compile(rf"\.(?:[\w \t-]*\.){{{MOST_DOTS}}}")


def parse(text: str, where: str) -> dict[str, Any]:
    """The tables in a text; an error that names `where` if it is not TOML."""
    if _MANY_DOTS.search(_STRINGS.sub("x", text)):
        raise ConsilienceError(f"{where} is not read: a key has more than {MOST_DOTS} dots.")
    try:
        tables = tomllib.loads(text)
        too_large = _holds_too_large(tables)
    except (ValueError, RecursionError) as error:  # numbers too long for int() are ValueErrors, too
        raise ConsilienceError(f"{where} is not valid TOML: {error}.") from error
    if too_large:
        raise ConsilienceError(f"{where} is not valid TOML: a whole number does not fit into 64 bits.")
    return tables


def _holds_too_large(value: Any) -> bool:
    """Whether there is a whole number beyond 64 bits, which TOML does not have."""
    if isinstance(value, dict | list):
        return any(map(_holds_too_large, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def read(path: Path, advice: str = "", largest: int = 1_000_000) -> dict[str, Any]:
    """The tables in a file. `advice` ends the error if the file cannot be read."""
    try:
        if path.stat().st_size > largest:
            raise ConsilienceError(f"{path} is too large ({path.stat().st_size} bytes; at most {largest} are read).")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConsilienceError(f"{path} is not valid TOML: it is no text ({error}).") from error
    except OSError as error:
        raise ConsilienceError(f"{path} cannot be read ({error.strerror}). {advice}".rstrip()) from error
    return parse(text, str(path))


def dump(tables: dict[str, Any], meanings: dict[str, str] | None = None) -> str:
    """Tables as TOML text; behind a value stands its meaning, if its dotted key has one.

    >>> print(dump({"name": "a", "run": {"seed": 0}}, {"run.seed": "of everything random"}))
    name = "a"
    <BLANKLINE>
    [run]
    seed = 0  # of everything random
    <BLANKLINE>
    """
    return "\n".join(_lines(tables, meanings or {}, ())) + "\n"


def _lines(table: dict[str, Any], meanings: dict[str, str], path: tuple[str, ...]) -> list[str]:
    """Values first, then tables and lists of tables."""
    lines, later = [], []
    for key, value in table.items():
        here = (*path, key)
        if isinstance(value, dict):
            meaning = "" if "name" in value else meanings.get(".".join(here), "")
            head = f"[{_dotted(here)}]" + (f"  # {meaning}" if meaning else "")
            later += ["", head, *_lines(value, meanings, here)]
        elif isinstance(value, list | tuple) and value and all(isinstance(row, dict) for row in value):
            later += [line for row in value for line in ["", f"[[{_dotted(here)}]]", *_lines(row, meanings, here)]]
        else:
            meaning = meanings.get(".".join(here), "")
            lines.append(f"{_dotted((key,))} = {value_text(value)}" + (f"  # {meaning}" if meaning else ""))
    return [*lines, *(later if lines or path else later[1:])]


def _dotted(path: tuple[str, ...]) -> str:
    """A key, each part in quotes where it needs them."""
    return ".".join(tomli_w.dumps({key: 0}).rpartition(" = ")[0] for key in path)


def value_text(value: Any) -> str:
    """One value; lists and tables within them stay on their line."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(value_text(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_dotted((key,))} = {value_text(item)}' for key, item in value.items())}}}"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")


def value(text: str) -> Any:
    """One TOML value; a bare word is a string.

    >>> value("5"), value("naive"), value("[1]")
    (5, 'naive', [1])
    """
    try:
        parsed: Any = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text.strip()
    return parsed


def call(text: str, what: str) -> tuple[str, dict[str, Any]]:
    """A name with options in brackets behind it: the name and the options. `what` names it in errors.

    >>> call("fedprox(mu=0.1)", "the method"), call("naive", "the method")
    (('fedprox', {'mu': 0.1}), ('naive', {}))
    """
    head, bracket, rest = text.partition("(")
    if not bracket:
        return head.strip(), {}
    if not rest.rstrip().endswith(")"):
        raise ConsilienceError(f"{what} {text!r} lacks a closing bracket. Write it as name(option=value).")
    options: dict[str, Any] = parse(f"options = {{{rest.rstrip()[:-1]}}}", f"{what} {text!r}")["options"]
    return head.strip(), options
