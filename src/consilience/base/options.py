"""Options: a field of the dataclass that uses it, with its default, its meaning and its permitted range.

Settings, TOML, help, the federation file and the Python interface follow from the fields.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from inspect import cleandoc, signature
from numbers import Integral, Real
from re import fullmatch, sub
from sys import float_info
from typing import Any, Self, TypeVar, get_args, get_origin, get_type_hints

from consilience.base.errors import ConsilienceError

T = TypeVar("T")


def option(
    default: Any = MISSING,
    meaning: str = "",
    *,
    at_least: float | None = None,
    above: float | None = None,
    below: float | None = None,
    one_of: tuple[str, ...] = (),
    pattern: str = "",
    local: bool = False,
    resolve: Callable[[str], Any] | None = None,
) -> Any:
    """A field of an `Options` dataclass, whose value is held to the type and the range given here.

    Args:
        default: Its default; without one the option must be given.
        meaning: What it is, for help, settings files and messages.
        at_least: The smallest number, or the length of the shortest list.
        above: A number that the value exceeds.
        below: A number that the value stays below.
        one_of: The words that are allowed.
        pattern: A regular expression that a word matches.
        local: Whether it is each machine's own, and not for a federation to agree on.
        resolve: Finds one of several kinds of things by its name. A TOML file has the name, or a table with `name` and
            the options of that thing.
    """
    facts: dict[str, Any] = {"meaning": meaning, "at_least": at_least, "above": above, "below": below}
    facts |= {"one_of": one_of, "pattern": pattern, "local": local, "resolve": resolve}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=facts)
    if is_dataclass(default) and not isinstance(default, type):
        return field(default_factory=lambda: default, metadata=facts)
    return field(default=default, metadata=facts)


@dataclass(frozen=True)
class Options:
    """A dataclass of options. An unknown one, a value of a wrong type or out of its range is an error that says so."""

    def __new__(cls, *_: Any, **values: Any) -> Self:
        """Refuses names that the constructor does not take, before it is called."""
        for name in values:
            if name not in cls.__dataclass_fields__ and name not in signature(cls.__init__).parameters:
                known = _known(cls)
                has = f"{hint(name, known)}It has {', '.join(known)}." if known else "It has none."
                raise ConsilienceError(f"{cls.__name__} has no option {name!r}. {has}")
        return super().__new__(cls)

    def __init_subclass__(cls, **more: Any) -> None:
        """Lists the options in the docstring; keeps the short text, which the dataclass decorator would replace."""
        super().__init_subclass__(**more)
        known = {**cls.__dataclass_fields__, **vars(cls)}
        specs = {name: spec for name, spec in known.items() if isinstance(spec, Field) and "meaning" in spec.metadata}
        if cls.__doc__ and specs:
            lines = [f"    {name}: {spec.metadata['meaning'].rstrip(' .|')}." for name, spec in specs.items()]
            cls.__doc__ = "\n".join([cleandoc(cls.__doc__), "", "Args:", *lines])
        if "__repr__" not in vars(cls):
            cls.__repr__ = cls.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        """The options that do not have their default."""
        shown = []
        for spec in fields(self):
            value, default = getattr(self, spec.name), _default(spec)
            if type(value) is not type(default) or value != default:
                shown.append(f"{spec.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __post_init__(self) -> None:
        check_options(self)


def check_options(options: Any) -> None:
    """Refuses values of a wrong type or outside their range.

    Numbers of other types, such as NumPy's, become Python's, whole numbers become floats where floats are wanted, and
    lists become tuples.
    """
    for spec in fields(options):
        kind = _type(type(options), spec)
        value = _plain(kind, getattr(options, spec.name))
        object.__setattr__(options, spec.name, value)
        if "meaning" in spec.metadata:
            problem = _problem(kind, spec.metadata, value)
            if problem:
                meaning = spec.metadata["meaning"]
                raise ConsilienceError(f"{spec.name} is {brief(value)}; it must {problem} ({meaning}).")


def _plain(kind: Any, value: Any) -> Any:
    """`value` as an instance of `kind`, if it stands for one; otherwise as it is."""
    if get_origin(kind) is tuple and isinstance(value, list | tuple):
        return tuple(_plain(get_args(kind)[0], item) for item in value)
    if type(value) is kind or isinstance(value, bool):
        return value
    if kind is int and isinstance(value, Integral):
        return int(value)
    try:
        return float(value) if kind is float and isinstance(value, Real) else value
    except OverflowError:  # a whole number beyond every float
        return value


def brief(value: Any) -> str:
    """A value as a message shows it: however long it is, in a line.

    >>> brief("x" * 1000)[-6:], brief(10**5000)
    ('xxx...', 'an int that is too long to show')
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"an {type(value).__name__} that is too long to show"
    return text if len(text) <= 200 else f"{text[:200]}..."


def _problem(kind: Any, facts: Any, value: Any) -> str:
    """What an option must be and is not; empty if all is well."""
    if kind in _NAMES and type(value) is not kind:
        return f"be {_NAMES[kind]}"
    if isinstance(kind, type) and is_dataclass(kind) and not isinstance(value, kind):
        return f"be a {kind.__name__}"
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        if not isinstance(value, tuple) or not all(type(entry) is item for entry in value):
            return f"be a list of {_NAMES.get(item, 'a table').split()[-1]}s"
        return "" if len(value) >= (facts["at_least"] or 0) else f"hold at least {facts['at_least']:g}"
    if facts["one_of"] and value not in facts["one_of"]:
        return f"be one of {', '.join(facts['one_of'])}"
    if facts["pattern"] and not fullmatch(facts["pattern"], value):
        return "be one of these"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if not abs(value) <= float_info.max:  # a whole number may be larger than any float
        return "be a finite number"
    if facts["at_least"] is not None and value < facts["at_least"]:
        return f"be at least {facts['at_least']:g}"
    if facts["above"] is not None and value <= facts["above"]:
        return f"be above {facts['above']:g}"
    if facts["below"] is not None and value >= facts["below"]:
        return f"be below {facts['below']:g}"
    return ""


def _type(kind: type, spec: "Field[Any]") -> Any:
    """The type of a field, also where annotations are not evaluated (`from __future__ import annotations`)."""
    if not isinstance(spec.type, str):
        return spec.type
    alone = type(kind.__name__, (), {"__annotations__": {spec.name: spec.type}, "__module__": kind.__module__})
    try:
        return get_type_hints(alone)[spec.name]
    except NameError:  # imported for type checkers alone
        return Any


_NAMES = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}


def from_table(kind: type[T], table: Any, where: str) -> T:
    """An options dataclass from a TOML table; an unknown key or an invalid value is an error that says where."""
    if not isinstance(table, dict):
        raise ConsilienceError(f"{where} is {brief(table)}; it must be a table with {', '.join(_known(kind))}.")
    here = f"{where}: " if where else ""
    known = {spec.name: spec for spec in fields(kind)}  # type: ignore[arg-type]
    values = {}
    for key, value in table.items():
        if key not in known:
            there_are = f"{hint(key, known)}Known: {', '.join(known)}." if known else "There are none here."
            raise ConsilienceError(f"{here}unknown setting {key!r}. {there_are}")
        values[key] = _value(kind, known[key], value, f"{where}.{key}" if where else key)
    missing = [name for name, spec in known.items() if name not in values and _default(spec) is MISSING]
    if missing:
        raise ConsilienceError(f"{here}{missing[0]!r} is missing. The entries are {', '.join(known)}.")
    try:
        return kind(**values)
    except ConsilienceError as error:
        raise ConsilienceError(f"{here}{error}") from None


def to_table(options: Any) -> dict[str, Any]:
    """An options dataclass as a TOML table, complete."""
    return {spec.name: _shown(spec, getattr(options, spec.name)) for spec in fields(options)}


def hint(key: str, known: Any) -> str:
    """ "Did you mean ...? " where a known name is near."""
    last_parts = {name.rpartition(".")[2]: name for name in known}
    near = get_close_matches(key.rpartition(".")[2], last_parts, n=1, cutoff=0.4)
    return f"Did you mean {last_parts[near[0]]!r}? " if near else ""


def meanings(options: Any, before: str = "") -> dict[str, str]:
    """What every option means, by dotted key, tables within it included."""
    texts: dict[str, str] = {}
    for spec in fields(options):
        value = getattr(options, spec.name)
        if spec.metadata.get("resolve") is not None:
            texts[f"{before}{spec.name}.name"] = spec.metadata["meaning"]
        if is_dataclass(value) and not isinstance(value, type):
            texts |= meanings(value, f"{before}{spec.name}.")
        else:
            texts[f"{before}{spec.name}"] = spec.metadata.get("meaning", "")
    return texts


def differences(before: dict[str, Any], now: dict[str, Any]) -> dict[str, str]:
    """Options in which two tables differ, tables within them included: by dotted key, what was and what is."""
    old, new = flat(before), flat(now)
    keys = [key for key in new | old if old.get(key) != new.get(key)]
    return {key: f"{key} was {old.get(key)!r}, now {new.get(key)!r}" for key in keys}


def flat(table: dict[str, Any], before: str = "") -> dict[str, Any]:
    """A table of tables as one, with dotted keys.

    >>> flat({"run": {"seed": 1}, "lam": 0.5})
    {'run.seed': 1, 'lam': 0.5}
    """
    values: dict[str, Any] = {}
    for key, value in table.items():
        values |= flat(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value}
    return values


def stable_text(value: Any) -> str:
    """A value as text that is the same in every process: of a function the name, of an estimator the class.

    >>> stable_text([0.5, len, "auto", object()])
    '[0.5, len, auto, <object object>]'
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(stable_text, value))}]"
    name = getattr(value, "__qualname__", getattr(value, "__name__", ""))
    if not name and hasattr(value, "get_params"):  # an estimator among the parameters of another, which lists its own
        name = type(value).__qualname__
    return str(name) or sub(r" at 0x[0-9a-fA-F]+", "", str(value))


def _known(kind: type) -> list[str]:
    return [spec.name for spec in fields(kind)]


def _default(spec: "Field[Any]") -> Any:
    """The default of a field; `MISSING` where it has none."""
    return spec.default_factory() if spec.default_factory is not MISSING else spec.default


def _value(owner: type, spec: "Field[Any]", value: Any, where: str) -> Any:
    resolve, kind = spec.metadata.get("resolve"), _type(owner, spec)
    if resolve is not None:
        return _resolved(resolve, value, where)
    if isinstance(kind, type) and is_dataclass(kind):
        return from_table(kind, value, where)
    if get_origin(kind) is tuple:
        items = value if isinstance(value, list | tuple) else (value,)
        item = get_args(kind)[0]
        tables = isinstance(item, type) and is_dataclass(item)
        return tuple(from_table(item, entry, where) for entry in items) if tables else tuple(items)
    if get_origin(kind) is dict and not isinstance(value, dict):
        raise ConsilienceError(f"{where} is {brief(value)}; it must be a table.")
    return value


def _resolved(resolve: Callable[[str], Any], value: Any, where: str) -> Any:
    """A thing from its name, or from a table with its name and options; without a name, the default with options."""
    if isinstance(value, str):
        return resolve(value)
    if not isinstance(value, dict):
        raise ConsilienceError(f"{where} is {brief(value)}; it must be a name, or a table with a name and options.")
    options = dict(value)
    thing = resolve(str(options.pop("name", "")))
    return changed(thing, options, where) if options else thing


def changed(options: T, values: dict[str, Any], where: str) -> T:
    """`options` with some values in place of its own, from a TOML table.

    The name of an option suffices where a single part of `options` has it: peers=8 for listening={peers=8}.
    """
    if not is_dataclass(options):
        raise ConsilienceError(f"{where}: unknown setting {next(iter(values))!r}. There are none.")
    known = _known(type(options))
    tables = to_table(options) | {key: value for key, value in values.items() if key in known}
    of_parts = {key: value for key, value in values.items() if key not in known}
    if of_parts:
        tables = to_table(from_table(type(options), tables, where))
        for key, value in of_parts.items():
            parts = [table for table in tables.values() if isinstance(table, dict) and key in table and key != "name"]
            (parts[0] if len(parts) == 1 else tables)[key] = value
    return from_table(type(options), tables, where)


def _shown(spec: "Field[Any]", value: Any) -> Any:
    if spec.metadata.get("resolve") is not None:
        name = getattr(value, "name", getattr(value, "__name__", type(value).__name__))
        return {"name": name} | (to_table(value) if is_dataclass(value) else {})
    if is_dataclass(value) and not isinstance(value, type):
        return to_table(value)
    if isinstance(value, tuple):
        return [to_table(item) if is_dataclass(item) else item for item in value]
    return value
