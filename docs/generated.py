"""Tables of the reference that are made from the code: settings, options and commands.

A page has `<!-- generated: NAME -->` where the table goes; `docs/hooks.py` puts it there when the site is built.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_args, get_origin

Section = Callable[[], str]


def settings() -> str:
    """A table for each table of the settings of an experiment, [method] without those of parts and other methods."""
    from consilience.settings.settings import Settings

    sections = []
    for spec in fields(Settings):
        value = getattr(Settings(), spec.name)
        rows = [] if spec.name != "method" else [("name", "`consensus`", spec.metadata["meaning"], "")]
        sections.append(f"## [{spec.name}]\n\n{table([*rows, *options(value)])}")
        for inner in fields(value):
            part = getattr(value, inner.name)
            if is_dataclass(part) and spec.name != "method" and options(part):
                rows = [] if inner.metadata.get("resolve") is None else [("name", "", inner.metadata["meaning"], "")]
                sections.append(f"### [{spec.name}.{inner.name}]\n\n{table([*rows, *options(part)])}")
    return "\n\n".join(sections)


def site() -> str:
    """The entries of site.toml."""
    from consilience.federation.site import Site

    text = table(options(Site))
    for spec in fields(Site):
        kind = next((kind for kind in (spec.type, *get_args(spec.type)) if is_dataclass(kind)), None)
        if kind is not None:
            text += f"\n\n### [{spec.name}]\n\n{table(options(kind))}"
    return text


def methods() -> str:
    """The options of every method but consensus, whose options are settings of the table [method]."""
    from consilience.methods import METHODS

    return by_name({name: METHODS.find(name) for name in METHODS.names() if name != "consensus"})


def parts() -> str:
    """The options of the parts of consensus."""
    from consilience.core.wire import Wire
    from consilience.extend import LEARNING, LISTENING

    registries = {"listening": LISTENING, "learning": LEARNING}
    sections = [
        f"### [method.{name}]\n\n{by_name({key: registry.find(key) for key in registry.names()})}"
        for name, registry in registries.items()
    ]
    return "\n\n".join([*sections, f"### [method.wire]\n\n{table(options(Wire()))}"])


def rules() -> str:
    """The options of every trust rule."""
    from consilience.extend import TRUST

    return by_name({name: TRUST.find(name) for name in TRUST.names()})


def attacks() -> str:
    """The options of every attack."""
    from consilience.core.attacks import ATTACKS

    return by_name({name: ATTACKS.find(name) for name in ATTACKS.names()})


def presets() -> str:
    """The presets."""
    from consilience.settings.presets import preset_names, preset_text

    first = {name: preset_text(name).splitlines()[0].removeprefix("# ") for name in preset_names()}
    return "\n".join(["| preset | what |", "|---|---|", *(f"| `{name}` | {what} |" for name, what in first.items())])


def commands() -> str:
    """Every command with its arguments, options and examples, as `--help` has them."""
    from typer.main import get_command

    from consilience.cli.main import app

    return "\n\n".join(command_section(name, command) for name, command in leaves("consilience", get_command(app)))


def leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """All commands below one, with the words that call them."""
    for word, inner in getattr(command, "commands", {}).items():
        yield from leaves(f"{name} {word}", inner)
    if not hasattr(command, "commands"):
        yield name, command


def command_section(name: str, command: Any) -> str:
    """A heading, the help, and a table of parameters."""
    from consilience.methods import method_names

    paragraphs, examples = [], []
    for block in (command.help or "").strip().split("\n\n"):
        block = re.sub(r"\s*\n\s*", " ", block.strip())
        if block.startswith("consilience "):
            examples.append(block)
        elif block not in ("Example:", "Examples:"):
            paragraphs.append(block)
    usage, rows = [name], []
    for parameter in command.params:
        argument = not parameter.opts[0].startswith("-")
        value = parameter.metavar or parameter.name.upper()
        usage += [value] if argument else []
        words = value if argument else " ".join(parameter.opts)
        if not argument and not getattr(parameter, "is_flag", False):
            words += f" {value if parameter.metavar else 'VALUE'}"
        default = parameter.default
        text = "" if default in (None, False, "", ()) or callable(default) else f"`{default}`"
        meaning = (parameter.help or "").replace("{methods}", ", ".join(method_names()))
        rows.append((words, text, meaning, ""))
    usage += ["[OPTIONS]"] if len(rows) >= len(usage) else []
    body = [f"## {name}", f"```text\n{' '.join(usage)}\n```", *map(escaped, paragraphs)]
    body += [table(rows, "argument or option")] if rows else []
    body += ["```text\n" + "\n".join(examples) + "\n```"] if examples else []
    return "\n\n".join(body)


def by_name(things: dict[str, Any]) -> str:
    """A table of the options of several things, by their names; those without options are named in a line."""
    rows = [(f"{name}: {row[0]}", *row[1:]) for name, thing in things.items() for row in options(thing)]
    without = [f"`{name}`" for name, thing in things.items() if not options(thing)]
    texts = [table(rows)] if rows else []
    return "\n\n".join([*texts, *([f"Without options: {', '.join(without)}."] if without else [])])


def options(thing: Any) -> list[tuple[str, str, str, str]]:
    """Name, default, meaning and permitted values of the options of a dataclass or of an instance of one."""
    if not is_dataclass(thing):
        return []
    rows = []
    for spec in fields(thing):
        value = default_of(thing, spec)
        named = spec.metadata.get("resolve") is not None
        if "meaning" not in spec.metadata or (is_dataclass(value) and not named):
            continue
        rows.append((spec.name, "" if named else shown(value), spec.metadata["meaning"], limits(spec)))
    return rows


def default_of(thing: Any, spec: "Field[Any]") -> Any:
    """The value of an instance, or the default of a class."""
    if not isinstance(thing, type):
        return getattr(thing, spec.name)
    if spec.default is not MISSING:
        return spec.default
    return spec.default_factory() if spec.default_factory is not MISSING else MISSING


def shown(value: Any) -> str:
    """A value as TOML has it."""
    import tomli_w

    if value is MISSING:
        return "required"
    if value is None or get_origin(value):
        return ""
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, int | float | str | list | dict) and not isinstance(value, dict):
        line = re.sub(r"\s+", " ", tomli_w.dumps({"x": value}).removeprefix("x = ").strip())
        return f"`{line.replace('[ ', '[').replace(', ]', ']')}`"
    return ""


def limits(spec: "Field[Any]") -> str:
    """The permitted range of an option."""
    facts = spec.metadata
    texts = [", ".join(f"`{word}`" for word in facts["one_of"])] if facts.get("one_of") else []
    words = {"at_least": "at least", "above": "above", "below": "below"}
    texts += [f"{words[key]} {facts[key]:g}" for key in words if facts.get(key) is not None]
    return ", ".join(texts)


def table(rows: list[tuple[str, ...]], first: str = "setting") -> str:
    """A Markdown table; the column of permitted values only where there are some."""
    heads = [first, "default", "meaning", "permitted"] if any(row[3] for row in rows) else [first, "default", "meaning"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for name, default, meaning, limit in rows:
        cells = [f"`{name}`", default, escaped(meaning), limit][: len(heads)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def escaped(text: str) -> str:
    """A sentence without signs that Markdown takes for markup, code in it as it is."""
    pieces = re.split(r"(`[^`]*`)", text)
    pieces[::2] = [re.sub(r"([*_<|\[\]])", r"\\\1", piece) for piece in pieces[::2]]
    return "".join(pieces)


SECTIONS: dict[str, Section] = {
    section.__name__: section for section in (settings, parts, methods, rules, attacks, site, presets, commands)
}


def filled(markdown: str) -> str:
    """A page with every generated section in its place; an unknown name is an error."""
    return re.sub(r"<!-- generated: (\w+) -->", lambda match: SECTIONS[match[1]](), markdown)
