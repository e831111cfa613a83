"""Ready-made experiments that come with the package, and settings read from files."""

from dataclasses import fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from consilience.base import toml
from consilience.base.errors import ConsilienceError
from consilience.base.files import write_atomically
from consilience.base.options import differences, flat, from_table, hint, to_table
from consilience.data.files import KINDS
from consilience.data.loading import is_path
from consilience.data.options import Data
from consilience.settings.heads import tables_for_heads
from consilience.settings.own_data import tables_for
from consilience.settings.settings import (
    Agents,
    Settings,
    changed,
    changed_tables,
    load_plugins,
    setting_advice,
    settings_from,
    where_it_is,
    whole_keys,
)

DEFAULT = "digits"
_TABLES = [one.name for one in fields(Settings)]


def preset_names() -> list[str]:
    """Presets that come with the package, the default first."""
    names = sorted(path.name.removesuffix(".toml") for path in _presets().iterdir() if path.name.endswith(".toml"))
    return sorted(names, key=lambda name: name != DEFAULT)


def preset_text(name: str) -> str:
    """The TOML of a preset; its first comment says what it is."""
    return str(_presets().joinpath(f"{name}.toml").read_text())


def read_settings(source: str = "", changes: dict[str, Any] | None = None) -> Settings:
    """Settings from a preset's name or a TOML file, with `changes` on top; without either from the default preset.

    Where the dataset is the path of a file or folder, what neither `changes` nor a TOML file set follows from these
    data (`settings/own_data.py`), and of a preset what `left_out` names does not apply: it is for other data.
    """
    changes, where = changes or {}, source or DEFAULT
    tables = _tables_of(where)
    load_plugins(tables)
    unchecked = {
        key: value
        for key, value in tables.get("data", {}).items()
        if key not in ("low_quality", "attackers", "concept_shift")
    }
    asked = changed_tables(to_table(settings_from(tables | {"data": unchecked}, where)), changes)
    tables = _with_defaults(tables, tables_for_heads(asked))
    if not is_path(str(asked["data"]["dataset"])):
        return changed(settings_from(tables, where), changes)
    if where in preset_names():
        agents = {key: value for key, value in tables.get("agents", {}).items() if key != "count"}
        tables = {key: value for key, value in tables.items() if key != "data"} | {"agents": agents}
        asked["data"] = changed_tables(to_table(Settings()), _of_data(asked, changes))["data"]
    chosen = "count" in tables.get("agents", {}) or "agents.count" in whole_keys(asked, changes)
    base = tables_for(
        from_table(Data, asked["data"], "settings.data"),
        from_table(Agents, asked["agents"], "settings.agents").privacy,
        asked["agents"]["count"] if chosen else 0,
    )
    tables = _with_defaults(tables, base)
    if chosen:  # before names of agents are checked
        tables["agents"]["count"] = asked["agents"]["count"]
    return changed(settings_from(tables, where), changes)


def _with_defaults(tables: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """The tables, with defaults for what they do not set. A method that is named by a word alone has its own."""
    more = {key: values for key, values in defaults.items() if isinstance(tables.get(key, {}), dict)}
    return tables | {key: values | tables.get(key, {}) for key, values in more.items()}


def left_out(source: str, settings: Settings) -> str:
    """A sentence on settings of the preset that do not apply to the user's own data; empty if all of them apply."""
    if source not in preset_names() or not is_path(settings.data.dataset):
        return ""
    tables = toml.parse(preset_text(source), source)
    gone = flat({"data": tables.get("data", {})})
    gone |= {key: value for key, value in flat({"agents": tables.get("agents", {})}).items() if key == "agents.count"}
    gone.pop("data.dataset", None)
    told = ", ".join(f"{key}={toml.value_text(value)}" for key, value in gone.items())
    return told and f"The preset {source} is for other data; of it {told} does not apply to {settings.data.dataset}."


def run_name(source: str, dataset: str) -> str:
    """The name of a run: that of the TOML file, of the user's file or folder, or of the preset."""
    if (not source or source in preset_names()) and is_path(dataset):
        return Path(dataset).resolve().stem
    return Path(source or DEFAULT).stem


def _of_data(asked: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The changes of the table [data], by whole keys."""
    whole = dict(zip(whole_keys(asked, changes), changes.values(), strict=True))
    return {key: value for key, value in whole.items() if key.split(".")[0] == "data"}


def _tables_of(source: str) -> dict[str, Any]:
    """The tables of a preset or a TOML file, all of them known."""
    if source in preset_names():
        tables = toml.parse(preset_text(source), source)
    elif Path(source).suffix.lower() in KINDS and Path(source).is_file():
        raise ConsilienceError(
            f"{source} holds data, and here stands a preset or a TOML file. Name data by the setting dataset: "
            f"--set dataset={source} --set label=COLUMN."
        )
    elif Path(source).is_file():
        tables = toml.read(Path(source))
    else:
        guess = "" if Path(source).suffix else hint(source, preset_names())
        raise ConsilienceError(
            f"{source!r} is neither a preset nor a file. {guess}Presets: {', '.join(preset_names())}. "
            "A file is TOML with the settings to change."
        )
    for key, value in tables.items():
        if key not in _TABLES:
            known = to_table(Settings())
            is_table = isinstance(value, dict) and not where_it_is(key, known)
            advice = hint(key, _TABLES) if is_table else setting_advice(key, known)
            raise ConsilienceError(
                f"{source}: unknown setting {key!r}. {advice}Settings are in the tables {', '.join(_TABLES)}."
            )
        if key != "method" and not isinstance(value, dict):
            raise ConsilienceError(f"{source}: {key} is {value!r}; it must be a table.")
    return tables


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
                f"{folder} was made with other settings: {'; '.join(differing.values())}. "
                "Resume it with the same settings (there may be more rounds), or choose another folder."
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())


def _presets() -> Any:
    return resources.files("consilience.settings").joinpath("presets")
