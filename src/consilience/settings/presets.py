"""Ready-made experiments that come with the package, and settings read from files."""

from dataclasses import fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from consilience import toml
from consilience.errors import ConsilienceError
from consilience.options import differences, hint, to_table
from consilience.runtime.checkpoint import write_atomically
from consilience.settings.settings import Settings, changed, load_plugins, moved, settings_from, where_it_is

DEFAULT = "digits"
_TABLES = [one.name for one in fields(Settings)]


def preset_names() -> list[str]:
    """Presets that come with the package, the default first."""
    names = sorted(path.name.removesuffix(".toml") for path in _presets().iterdir() if path.name.endswith(".toml"))
    return sorted(names, key=lambda name: name != DEFAULT)


def preset_text(name: str) -> str:
    """The TOML of a preset; its first comment says what it is."""
    return str(_presets().joinpath(f"{name}.toml").read_text())


def read_settings(source: str, changes: dict[str, Any] | None = None) -> Settings:
    """Settings from a preset's name or a TOML file, with `changes` on top."""
    if source in preset_names():
        tables = toml.parse(preset_text(source), source)
    elif Path(source).is_file():
        tables = toml.read(Path(source))
    else:
        guess = "" if Path(source).suffix else hint(source, preset_names())
        raise ConsilienceError(
            f"{source!r} is neither a preset nor a file. {guess}Presets: {', '.join(preset_names())}. "
            "A file is TOML with the settings to change."
        )
    for key, value in tables.items():
        if key not in _TABLES or (key != "method" and not isinstance(value, dict)):
            known = to_table(Settings())
            is_table = isinstance(value, dict) and not where_it_is(key, known)
            advice = hint(key, _TABLES) if is_table else moved(key, known)
            raise ConsilienceError(
                f"{source}: unknown setting {key!r}. {advice}Settings are in the tables {', '.join(_TABLES)}."
            )
    load_plugins(tables)
    return changed(settings_from(tables, source), changes or {})


def settings_of(folder: Path) -> Settings:
    """The settings a run folder was made with. Plugins that it names must have been loaded before."""
    path = folder / "config.toml"
    if not path.is_file():
        raise ConsilienceError(f"{folder} holds no run (no config.toml). Give the folder of a run.")
    return settings_from(toml.read(path), str(path))


def write_config(settings: Settings, folder: Path) -> None:
    """Writes config.toml, or checks that the one that is there says the same. More rounds make a run longer."""
    path, text = folder / "config.toml", settings.to_toml()
    if path.is_file():
        if path.read_bytes() == text.encode():
            return
        before = settings_of(folder)
        differing = differences(to_table(before), to_table(settings))
        longer = replace(before, run=replace(before.run, rounds=settings.run.rounds))
        if longer == settings and settings.run.rounds > before.run.rounds:
            (folder / "summary.json").unlink(missing_ok=True)  # it goes on
            write_atomically(path, text.encode())
            return
        if differing:
            raise ConsilienceError(
                f"{folder} was made with other settings: {'; '.join(map(str, differing))}. "
                "Resume it with the same settings (there may be more rounds), or choose another folder."
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())


def _presets() -> Any:
    return resources.files("consilience.settings").joinpath("presets")
