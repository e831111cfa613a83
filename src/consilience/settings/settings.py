"""The settings of an experiment: five tables, each one dataclass. TOML, `--set` and help follow from their fields."""

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from consilience import toml
from consilience.agents.training import Training
from consilience.data.options import Data
from consilience.errors import ConsilienceError
from consilience.methods import METHODS, method_from, method_named, method_table
from consilience.methods.consensus import Consensus
from consilience.methods.protocol import Method
from consilience.methods.trust import DEFAULT, TRUST
from consilience.options import check_options, flat, from_table, hint, option, to_table
from consilience.plugins import load_plugin


@dataclass(frozen=True)
class Agents:
    """Who learns."""

    count: int = option(10, "how many", at_least=2)
    models: tuple[str, ...] = option(("forest", "boosting", "cnn", "logistic", "mlp"), "dealt out in turn")

    def __post_init__(self) -> None:
        check_options(self)
        if not self.models:
            raise ConsilienceError("models is empty. Name at least one model.")


@dataclass(frozen=True)
class RunOptions:
    """How long, how often, and where."""

    rounds: int = option(15, "with the warm-up", at_least=1)
    seed: int = option(0, "of everything random", at_least=0)
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

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class Settings:
    """Every setting there is."""

    data: Data = option(Data(), "what the agents hold, and what is shared")
    agents: Agents = option(Agents(), "who learns")
    training: Training = option(Training(), "local training of torch models")
    method: Method = option(Consensus(), "how they learn together", parse=method_from, show=method_table)
    run: RunOptions = option(RunOptions(), "how long, how often, and where")

    def __post_init__(self) -> None:
        for number in self.data.low_quality:
            if not 0 <= number < self.agents.count:
                raise ConsilienceError(
                    f"low_quality names agent {number}, but agents are 0 to {self.agents.count - 1}."
                )

    def with_method(self, name: str) -> "Settings":
        """The same under another method, whose options are those of this one where it is of the same kind."""
        return replace(self, method=method_named(name, self.method))

    def with_seed(self, seed: int) -> "Settings":
        """The same with another seed."""
        return replace(self, run=replace(self.run, seed=seed))

    def to_toml(self) -> str:
        """All settings as TOML, each with its meaning."""
        names = {
            "method.name": " | ".join(METHODS.names()),
            "method.trust.name": " | ".join([f"{DEFAULT} (the task's own)", *TRUST.names()]),
        }
        return toml.dump(to_table(self), meanings(self) | names)


def settings_from(tables: dict[str, Any], where: str) -> Settings:
    """Settings from TOML tables. Plugins come first: they may bring what other settings name."""
    load_plugins(tables)
    return from_table(Settings, tables, where)


def load_plugins(tables: dict[str, Any]) -> None:
    """Loads the plugins that TOML tables name."""
    run = tables.get("run")
    if isinstance(run, dict) and run.get("plugins"):
        for plugin in from_table(RunOptions, run, "run").plugins:
            load_plugin(plugin)


def changed(settings: Settings, changes: dict[str, Any], where: str = "--set") -> Settings:
    """`settings` with some values in place of its own. Keys are dotted; a unique last part suffices."""
    if not changes:
        return settings
    tables = to_table(settings)
    plugins = [key for key in changes if key.rpartition(".")[2] == "plugins"]
    for key in plugins:
        for plugin in [changes[key]] if isinstance(changes[key], str) else changes[key]:
            load_plugin(plugin)
    for key, value in changes.items():
        _put(tables, key, value, where)
    return settings_from(tables, where)


def parse_change(text: str) -> tuple[str, Any]:
    """`key=value` with the value in TOML; a bare word is a string.

    >>> parse_change("rounds=5"), parse_change("method=naive"), parse_change("data.low_quality=[1]")
    (('rounds', 5), ('method', 'naive'), ('data.low_quality', [1]))
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConsilienceError(f"--set {text}: write it as key=value, such as --set rounds=5.")
    return key.strip(), toml.value(value)


def meanings(options: Any, before: str = "") -> dict[str, str]:
    """What every option means, by dotted key."""
    found: dict[str, str] = {}
    for one in fields(options):
        value = getattr(options, one.name)
        if is_dataclass(value) and not isinstance(value, type):
            found |= meanings(value, f"{before}{one.name}.")
        else:
            found[f"{before}{one.name}"] = one.metadata.get("meaning", "")
    return found


def agreed(settings: Settings) -> dict[str, Any]:
    """The tables on which a federation agrees: method, training, and of [run] what is not each machine's own."""
    tables = to_table(settings)
    local = [one.name for one in fields(RunOptions) if one.metadata["local"]]
    run = {key: value for key, value in tables["run"].items() if key not in local}
    return {"method": tables["method"], "training": tables["training"], "run": run}


def settings_agreed(tables: dict[str, Any], where: str) -> Settings:
    """Settings from the tables on which a federation agreed; anything else in them is an error."""
    known = agreed(Settings())
    for table, values in tables.items():
        if table not in known or not isinstance(values, dict):
            raise ConsilienceError(f"{where}: {table!r} is not for a federation to agree on, but {', '.join(known)}.")
        local = [key for key in values if table == "run" and key not in known["run"]]
        if local:
            raise ConsilienceError(
                f"{where}: run.{local[0]} is not for a federation to agree on. It has {', '.join(known['run'])}."
            )
    return from_table(Settings, tables, where)


def where_it_is(key: str, tables: dict[str, Any]) -> list[str]:
    """Dotted keys of values and tables that end with `key`."""
    paths = set(flat(tables))
    paths |= {".".join(path.split(".")[:depth]) for path in paths for depth in range(1, path.count(".") + 1)}
    return [path for path in sorted(paths, key=lambda p: (p.count("."), p)) if path == key or path.endswith(f".{key}")]


_MOVED = {
    "agents": "agents.count",
    "similarity": "method.trust",
    "entropy_offset": "method.trust.offset",
    "entropy_floor": "method.trust.floor",
    "wire": "method.wire.form",
    "wire_top": "method.wire.top",
    "fedprox_mu": "method.mu, with method=fedprox",
    "feddyn_alpha": "method.alpha, with method=feddyn",
    "scaffold_variates": "method.variates, with method=scaffold",
    "keep_optimizer": "method.keep_optimizer, with a method that has a server",
}
"""Settings that once had another name."""


def moved(key: str, tables: dict[str, Any]) -> str:
    """A sentence that says where a setting is, if the key alone does not lead there."""
    found = where_it_is(key, tables)
    if key in _MOVED:
        return f"It is {_MOVED[key]} now. "
    if not found:
        return hint(key, flat(tables))
    table, _, name = found[0].rpartition(".")
    return f"It is {found[0]} now: write {name} under [{table}]. "


def _put(tables: dict[str, Any], key: str, value: Any, where: str) -> None:
    """Sets one value in the tables."""
    paths = [key] if "." in key and key.split(".")[0] in tables else where_it_is(key, tables)
    paths = [path for path in paths if path.endswith(key) and path.count(".") == paths[0].count(".")]
    if key in _MOVED and (not paths or isinstance(tables.get(key), dict)):
        raise ConsilienceError(f"{where}: unknown setting {key!r}. {moved(key, tables)}")
    if len(paths) != 1:
        problem = f"ambiguous; write {' or '.join(paths)}" if paths else f"unknown. {hint(key, flat(tables))}Known: "
        known = "" if paths else ", ".join(flat(tables))
        raise ConsilienceError(f"{where}: the setting {key!r} is {problem}{known}.")
    if paths[0] == "method" and isinstance(value, str):
        tables["method"] = method_table(method_named(value, method_from(tables["method"], "method")))
        return
    *parents, last = paths[0].split(".")
    table = tables
    for parent in parents:
        if not isinstance(table.get(parent), dict):
            raise ConsilienceError(f"{where}: unknown setting {key!r}. {hint(key, flat(tables))}")
        table = table[parent]
    named = isinstance(value, str) and isinstance(table.get(last), dict)
    table[last] = value
    if named and parents[:1] == ["method"]:  # a name stands for a table, whose options later changes may name
        tables["method"] = method_table(method_from(tables["method"], "method"))
