"""The settings of an experiment: one frozen dataclass, read from TOML, complete in every run folder."""

import difflib
import json
import tomllib
from dataclasses import dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from consilience.core.trust import FLOOR, OFFSET
from consilience.errors import ConsilienceError
from consilience.runtime.federated_rounds import FEDERATED, Federated
from consilience.runtime.rounds import Method
from consilience.runtime.wire import Wire

DEFAULT = "digits"
T = TypeVar("T")


def _setting(default: T, meaning: str) -> T:
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True)
class Settings:
    """Every setting there is, with its default and what it means."""

    dataset: str = _setting(
        "digits", "digits | breast-cancer | heart-disease | cifar10 | cifar100 | fed-isic2019 | polynomial"
    )
    limit: int = _setting(0, "samples of each class to use, within each hospital; 0 for all")
    side: int = _setting(0, "height and width that images are brought to; 0 for the dataset's own")
    agents: int = _setting(10, "how many")
    models: tuple[str, ...] = _setting(("forest", "boosting", "cnn", "logistic", "mlp"), "dealt out in turn")
    partition: str = _setting("dirichlet", "dirichlet | iid | natural (one agent per hospital)")
    alpha: float = _setting(1.0, "of the Dirichlet split: small, few classes per agent")
    low_quality: tuple[int, ...] = _setting((), "agents whose training labels are all shifted")
    target_fraction: float = _setting(0.25, "held out to measure on the target domain")
    test_fraction: float = _setting(0.2, "of each agent's data, held out to measure on its own domain")
    shared_per_agent: int = _setting(30, "samples each agent contributes to the shared data")
    shared_balanced: bool = _setting(False, "choose them so that the classes of the shared data are even")
    method: str = _setting(
        "dynamic", "dynamic | static | every-K | naive | alone | fedavg | fedprox | scaffold | feddyn"
    )
    wire: str = _setting(
        "float32", "predictions as published: float32 | float16 | top-k (the largest and their classes)"
    )
    wire_top: int = _setting(3, "top-k: how many of the largest probabilities are published")
    references: tuple[str, ...] = _setting(("alone", "naive"), "methods run beside it, on the same split")
    rounds: int = _setting(15, "with the warm-up")
    warmup: int = _setting(5, "rounds of training alone before the first exchange")
    warmup_shared: bool = _setting(False, "show batch norm the shared data in the warm-up as well; three times slower")
    lam: float = _setting(0.5, "weight of the disagreement with the pseudo-labels")
    similarity: str = _setting("entropy", "entropy (weighted cosine) | cosine")
    entropy_offset: float = _setting(OFFSET, "added to the entropy: 1 as in the authors' code, 0 as in the paper")
    entropy_floor: float = _setting(FLOOR, "the least that is divided by, with an offset of 0")
    labels: str = _setting("soft", "soft | majority")
    epochs: int = _setting(5, "passes over the private data per round (torch models)")
    batch: int = _setting(64, "private samples per step")
    shared_batch: int = _setting(256, "shared samples per step")
    lr: float = _setting(0.005, "of Adam")
    batched: bool = _setting(True, "train small models of one architecture together: faster, equal up to rounding")
    fedprox_mu: float = _setting(0.01, "FedProx: weight of the distance to the server's model")
    feddyn_alpha: float = _setting(0.1, "FedDyn: weight of its dynamic regulariser")
    scaffold_variates: str = _setting("gradients", "SCAFFOLD: gradients | steps (as printed; fails under Adam)")
    keep_optimizer: bool = _setting(False, "methods with a server: keep the local optimizer's state across rounds")
    seed: int = _setting(0, "of everything random")
    threads: int = _setting(1, "of each numerical library; the numbers may depend on it in the last bits")
    device: str = _setting("cpu", "where torch models train: cpu | cuda (workers take the machine's GPUs in turn)")

    def __post_init__(self) -> None:
        if self.agents < 2:
            raise ConsilienceError(f"agents is {self.agents}, but consensus needs at least two agents.")
        for key in ("shared_per_agent", "epochs", "batch", "shared_batch", "threads"):
            if getattr(self, key) < 1:
                raise ConsilienceError(f"{key} is {getattr(self, key)}; it must be at least 1.")
        for key in ("target_fraction", "test_fraction"):
            if not 0 < getattr(self, key) < 1:
                raise ConsilienceError(f"{key} is {getattr(self, key)}; it must lie between 0 and 1.")
        if self.seed < 0 or self.alpha <= 0 or self.lr <= 0:
            raise ConsilienceError("seed must be at least 0; alpha and lr must be above 0.")
        if self.limit < 0 or self.side < 0:
            raise ConsilienceError("limit and side must be at least 0; 0 leaves the dataset as it is.")
        if self.partition not in ("dirichlet", "iid", "natural"):
            raise ConsilienceError(f"unknown partition {self.partition!r}. Known: dirichlet, iid, natural.")
        if self.device not in ("cpu", "cuda"):
            raise ConsilienceError(f"unknown device {self.device!r}. Known: cpu, cuda.")
        if not self.models:
            raise ConsilienceError("models is empty. Name at least one model.")
        for number in self.low_quality:
            if not 0 <= number < self.agents:
                raise ConsilienceError(f"low_quality names agent {number}, but agents are 0 to {self.agents - 1}.")
        for method in (self.method, *self.references):
            self.algorithm(method)

    def algorithm(self, method: str) -> Method | Federated:
        """Algorithm 1 under `method`, in which alone is a warm-up that never ends; or a method with a server."""
        if method in FEDERATED:
            return Federated(
                method,
                self.rounds,
                mu=self.fedprox_mu,
                alpha=self.feddyn_alpha,
                variates=self.scaffold_variates,
                keep_optimizer=self.keep_optimizer,
            )
        alone = method == "alone"
        return Method(
            trust="naive" if alone else method,
            rounds=self.rounds,
            warmup=self.rounds if alone else self.warmup,
            lam=self.lam,
            similarity=self.similarity,
            entropy_offset=self.entropy_offset,
            entropy_floor=self.entropy_floor,
            labels=self.labels,
            wire=Wire(self.wire, self.wire_top),
            warmup_shared=self.warmup_shared and not alone,
            batched=self.batched,
        )

    def to_toml(self) -> str:
        """All settings as TOML, each with its meaning."""
        lines = [f"{f.name} = {json.dumps(getattr(self, f.name))}  # {f.metadata['meaning']}" for f in fields(self)]
        return "\n".join(lines) + "\n"


def preset_names() -> list[str]:
    """Presets that come with the package, the default first."""
    names = sorted(path.name.removesuffix(".toml") for path in _presets().iterdir() if path.name.endswith(".toml"))
    return sorted(names, key=lambda name: name != DEFAULT)


def preset_text(name: str) -> str:
    """The TOML of a preset; its first comment says what it is."""
    return str(_presets().joinpath(f"{name}.toml").read_text())


def read_settings(source: str, changes: dict[str, Any]) -> Settings:
    """Settings from a preset's name or a TOML file, with `changes` on top."""
    if source in preset_names():
        text = preset_text(source)
    elif Path(source).is_file():
        text = Path(source).read_text()
    else:
        raise ConsilienceError(
            f"{source!r} is neither a preset nor a file. Presets: {', '.join(preset_names())}. "
            "A file is TOML with the settings to change."
        )
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConsilienceError(f"{source} is not valid TOML: {error}.") from error
    return changed(changed(Settings(), values, source), changes, "--set")


def parse_change(text: str) -> tuple[str, Any]:
    """`key=value` with the value in TOML; a bare word is a string.

    >>> parse_change("rounds=5"), parse_change("method=naive"), parse_change("low_quality=[1]")
    (('rounds', 5), ('method', 'naive'), ('low_quality', [1]))
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConsilienceError(f"--set {text}: write it as key=value, such as --set rounds=5.")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def changed(settings: Settings, values: dict[str, Any], where: str) -> Settings:
    """`settings` with `values` in place of its own; an unknown key or a wrong type is an error."""
    known = {field.name: getattr(settings, field.name) for field in fields(Settings)}
    new: dict[str, Any] = {}
    for key, value in values.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.4)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            raise ConsilienceError(f"{where}: unknown setting {key!r}. {hint}Known: {', '.join(known)}.")
        new[key] = _as_type_of(known[key], value, f"{where}: {key}")
    return replace(settings, **new)


def _as_type_of(old: Any, value: Any, where: str) -> Any:
    if isinstance(old, tuple):
        items = value if isinstance(value, list | tuple) else [value]
        numbers = where.endswith("low_quality")
        if all(isinstance(item, int if numbers else str) for item in items):
            return tuple(items)
        raise ConsilienceError(f"{where} is {value!r}; it must be a list of {'numbers' if numbers else 'words'}.")
    if isinstance(old, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not type(old):
        raise ConsilienceError(f"{where} is {value!r}; it must be of type {type(old).__name__}.")
    return value


def _presets() -> Any:
    return resources.files("consilience.experiments").joinpath("presets")
