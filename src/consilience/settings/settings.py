"""The settings of an experiment: five tables, each one dataclass. TOML, changes and help follow from their fields."""

from copy import deepcopy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from consilience.agents.models import own_agents
from consilience.agents.training import Training
from consilience.base import toml
from consilience.base.errors import ConsilienceError
from consilience.base.options import Options, flat, from_table, hint, meanings, option, to_table
from consilience.base.registry import load_plugin, was_loaded
from consilience.data.options import Data
from consilience.methods import method_named
from consilience.methods.consensus import Consensus
from consilience.methods.protocol import Method
from consilience.privacy.options import Privacy


@dataclass(frozen=True)
class Agents(Options):
    """Who learns."""

    count: int = option(10, "how many", at_least=2)
    models: tuple[str, ...] = option(("forest", "boosting", "cnn", "logistic", "mlp"), "dealt out in turn", at_least=1)
    privacy: Privacy = option(Privacy(), "what every agent promises its private rows")


@dataclass(frozen=True)
class RunOptions(Options):
    """How long, how often, and where."""

    rounds: int = option(15, "with the warm-up", at_least=1)
    seed: int = option(0, "of everything random", at_least=0)
    evaluate_every: int = option(
        1, "rounds from one scoring to the next; the last one is always scored", at_least=1, local=True
    )
    evaluate_sample: int = option(
        0, "samples of the target domain that agents are scored on; 0 for all", at_least=0, local=True
    )
    references: tuple[str, ...] = option(("alone", "naive"), "methods run beside it, on the same split", local=True)
    threads: int = option(
        1, "of each numerical library; the numbers may depend on it in the last bits", at_least=1, local=True
    )
    device: str = option(
        "cpu",
        "where torch models train: cpu | cuda (workers take the machine's GPUs in turn)",
        one_of=("cpu", "cuda"),
        local=True,
    )
    plugins: tuple[str, ...] = option((), "Python files that bring datasets, models, methods, rules, tasks", local=True)


@dataclass(frozen=True)
class Settings(Options):
    """Every setting there is."""

    data: Data = option(Data(), "what the agents hold, and what is shared")
    agents: Agents = option(Agents(), "who learns")
    training: Training = option(Training(), "local training of torch models")
    method: Method = option(
        Consensus(),
        "consensus | alone | fedmd | ds-fl | fedct | cronus | fd | fedavg | feddf | fedprox | scaffold | feddyn | ...",
        resolve=method_named,
    )
    run: RunOptions = option(RunOptions(), "how long, how often, and where")

    def __post_init__(self) -> None:
        for option_name in ("low_quality", "attackers", "concept_shift"):
            for number in getattr(self.data, option_name):
                if not 0 <= number < self.agents.count:
                    raise ConsilienceError(
                        f"{option_name} names agent {number}, but agents are 0 to {self.agents.count - 1}."
                    )
        if len(set(self.data.attackers)) == self.agents.count:
            raise ConsilienceError("all agents are attackers. Leave some of them honest.")

    @property
    def data_key(self) -> tuple[object, ...]:
        """Equal for settings with the same data, dealt out in the same way."""
        return self.data, self.agents.count, self.agents.models, self.run.seed

    def with_method(self, name: str) -> "Settings":
        """The same under another method, whose options are those of this one where it is of the same kind."""
        return replace(self, method=method_named(name, self.method))

    def with_seed(self, seed: int) -> "Settings":
        """The same with another seed."""
        return replace(self, run=replace(self.run, seed=seed))

    def to_toml(self) -> str:
        """All settings as TOML, each with its meaning."""
        return toml.dump(to_table(self), meanings(self))


def settings_from(tables: dict[str, Any], where: str) -> Settings:
    """Settings from TOML tables. Plugins that they name are not loaded."""
    return from_table(Settings, tables, where)


def load_plugins(tables: dict[str, Any]) -> None:
    """Loads the plugins that tables or changes name, before anything that these bring is looked for.

    One with a function make_agent(name, x, y, classes, seed) is a model, which is called as the file is.

    Only what the user asks to run may do so: never what is found in a folder of a run, or comes from a peer.
    """
    for plugin in _named_plugins(tables):
        module = load_plugin(plugin)
        if hasattr(module, "make_agent"):
            own_agents(Path(plugin).stem, module.make_agent, str(plugin))


def given_plugins(settings: Settings) -> list[str]:
    """The plugins that settings name and that the user gave this process: what its workers may run as well."""
    return [plugin for plugin in _named_plugins(to_table(settings)) if was_loaded(plugin)]


def _named_plugins(tables: dict[str, Any]) -> list[str]:
    named = [value for key, value in flat(tables).items() if key.rpartition(".")[2] == "plugins"]
    return [plugin for value in named for plugin in ([value] if isinstance(value, str) else value)]


def changed(settings: Settings, changes: dict[str, Any], where: str = "settings") -> Settings:
    """`settings` with some values in place of its own. Keys are dotted; a unique last part suffices.

    In whatever order they are given, a method, or another thing with a name, is chosen before its options are set.
    """
    return settings_from(changed_tables(to_table(settings), changes, where), where) if changes else settings


def changed_tables(tables: dict[str, Any], changes: dict[str, Any], where: str = "settings") -> dict[str, Any]:
    """Complete tables with some values in place of their own, as `changed` does it; values are not checked."""
    load_plugins(changes)
    tables = deepcopy(tables)
    for key in sorted(changes, key=lambda key: (key != "method", not isinstance(changes[key], str), key.count("."))):
        _put(tables, key, changes[key], where)
    return tables


def whole_keys(tables: dict[str, Any], changes: dict[str, Any], where: str = "settings") -> list[str]:
    """The whole dotted key of each change."""
    return [_path(tables, key, where) for key in changes]


def parse_change(text: str) -> tuple[str, Any]:
    """`key=value` with the value in TOML; a bare word is a string.

    >>> parse_change("rounds=5"), parse_change("method=naive"), parse_change("data.low_quality=[1]")
    (('rounds', 5), ('method', 'naive'), ('data.low_quality', [1]))
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConsilienceError(f"the change {text!r} has no value. Write it as key=value, such as rounds=5.")
    return key.strip(), toml.value(value)


def agreed(settings: Settings) -> dict[str, Any]:
    """The tables on which a federation agrees: method, training, and of [run] what is not each machine's own."""
    tables = to_table(settings)
    local = [option_field.name for option_field in fields(RunOptions) if option_field.metadata["local"]]
    run = {key: value for key, value in tables["run"].items() if key not in local}
    return {"method": tables["method"], "training": tables["training"], "run": run}


def settings_agreed(tables: dict[str, Any], where: str) -> Settings:
    """Settings from the tables on which a federation agreed; anything else in them is an error."""
    known = agreed(Settings())
    for table, values in tables.items():
        if table not in known:
            raise ConsilienceError(f"{where}: {table!r} is not for a federation to agree on, but {', '.join(known)}.")
        if not isinstance(values, dict):
            raise ConsilienceError(f"{where}: {table} is {values!r}; it must be a table.")
        local = [key for key in values if table == "run" and key not in known["run"]]
        if local:
            raise ConsilienceError(
                f"{where}: run.{local[0]} is not for a federation to agree on. It has {', '.join(known['run'])}."
            )
    return from_table(Settings, tables, where)


def where_it_is(key: str, tables: dict[str, Any]) -> list[str]:
    """Dotted keys of values and tables that end with `key`, or the only value that has its ends: agents.epsilon."""
    return _ending(_inner(tables, key), tables)


def _ending(key: str, tables: dict[str, Any]) -> list[str]:
    paths = set(flat(tables))
    paths |= {".".join(path.split(".")[:depth]) for path in paths for depth in range(1, path.count(".") + 1)}
    return [path for path in sorted(paths, key=lambda p: (p.count("."), p)) if path == key or path.endswith(f".{key}")]


def setting_advice(key: str, tables: dict[str, Any]) -> str:
    """A sentence that says which setting was probably meant; empty if none is near."""
    paths = where_it_is(key, tables)
    if not paths:
        return hint(key, flat(tables))
    table, _, name = paths[0].rpartition(".")
    return f"It is {paths[0]}: write {name} under [{table}]. "


def _put(tables: dict[str, Any], key: str, value: Any, where: str) -> None:
    """Sets one value in the tables. Where a thing of some kind stands, its name alone stands for it with defaults."""
    path = _path(tables, key, where)
    *parents, last = path.split(".")
    table = tables
    for parent in parents:
        table = table.get(parent, {})
        if not isinstance(table, dict):
            raise ConsilienceError(f"{where}: unknown setting {key!r}. {parent} holds no settings.")
    before = table.get(last)
    if path == "method" and isinstance(value, str):
        table[last] = to_table(from_table(Settings, {"method": before}, where).with_method(value))["method"]
    elif isinstance(before, dict) and isinstance(value, str):
        table[last] = {"name": value}
        if parents == ["method"]:  # with the options of the part that was chosen
            tables["method"] = to_table(from_table(Settings, {"method": tables["method"]}, where))["method"]
    else:
        table[last] = value


def _inner(tables: dict[str, Any], key: str) -> str:
    """`key` itself, or where its table lacks it, the only longer one with the same ends: agents.privacy.epsilon."""
    first, _, last = key.rpartition(".")
    paths = [path for path in flat(tables) if path.startswith(f"{first}.") and path.endswith(f".{last}")]
    return paths[0] if len(paths) == 1 and key not in _ending(key, tables) else key


def _path(tables: dict[str, Any], key: str, where: str) -> str:
    """The whole dotted key for `key`, which is the whole or a unique last part of it."""
    if key.split(".")[0] in tables:
        return _inner(tables, key)
    paths = where_it_is(key, tables)
    if not paths and "." in key:  # an option that another thing of the same kind has
        table, _, last = key.rpartition(".")
        paths = [f"{path}.{last}" for path in where_it_is(table, tables)]
    nearest = [path for path in paths if path.count(".") == paths[0].count(".")]
    if len(nearest) > 1:
        raise ConsilienceError(f"{where}: the setting {key!r} is ambiguous; write {' or '.join(nearest)}.")
    if not nearest:
        advice = hint(key, flat(tables)) or f"Known: {', '.join(flat(tables))}."
        raise ConsilienceError(f"{where}: unknown setting {key!r}. {advice.strip()}")
    return nearest[0]
