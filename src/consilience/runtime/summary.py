"""The facts of a run beside its numbers: one dataclass, which is the file summary.json."""

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import version
from math import isfinite
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from consilience.agents.protocol import Agent
from consilience.base.errors import ConsilienceError
from consilience.privacy.mechanism import Spent
from consilience.tasks import task_named
from consilience.tasks.protocol import Score, Task


@dataclass(frozen=True)
class AgentSummary:
    """The facts of an agent. Little is known of agents at other sites."""

    name: str
    model: str = "unknown"
    samples: int | None = None
    low_quality: bool = False
    """Whether its training labels are known to be wrong."""
    parameters: int | None = None
    class_counts: list[int] = field(default_factory=list)
    attacker: bool = False
    """Whether it is an attacker in the simulation."""
    privacy: dict[str, Any] = field(default_factory=dict)
    """What a private agent has spent (`privacy.mechanism.Spent`); empty for the others."""

    @property
    def good(self) -> bool:
        """Whether it is honest and its labels are not known to be wrong."""
        return not (self.low_quality or self.attacker)


@dataclass(frozen=True)
class Summary:
    """The facts of a run."""

    method: str
    """Its label, such as consensus."""
    title: str
    """How the method is called in text."""
    task: str
    rounds: int
    warmup: int
    shared_samples: int
    agents: list[AgentSummary] = field(default_factory=list)
    """In the order of the trust matrices."""
    classes: list[str] = field(default_factory=list)
    """Names of classes or labels; empty for regression."""
    dataset: str = ""
    seed: int | None = None
    data: str = ""
    """Fingerprint of the data."""
    crossed: int = 0
    """Rows that were crossed from the shared ones."""
    attack: str = ""
    """The name of the attack, if there are attackers."""
    federation: str = ""
    """Identity of the federation file."""
    notes: list[str] = field(default_factory=list)
    """How user data were read: sentences, and a line for each column."""
    warnings: list[str] = field(default_factory=list)
    """What may make results wrong, as far as the data show it."""
    suspicions: list[str] = field(default_factory=list)
    """Sentences on peers that may not say what their own models predict."""
    incidents: list[str] = field(default_factory=list)
    """At a site: sentences on peers that were absent or late, and on what was rejected."""
    sent: int | None = None
    """At a site: bytes sent, from its audit log."""
    seconds: float | None = None
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Agents in the order of the trust matrices."""
        return [agent.name for agent in self.agents]

    @property
    def shared_text(self) -> str:
        """How many samples are shared, and how many rows are crossed from them."""
        more = f" and {self.crossed} crossed from them" if self.crossed else ""
        return f"{self.shared_samples} samples{more}"

    @property
    def wrong_on_purpose(self) -> list[str]:
        """Sentences on what the experiment makes wrong: labels and attackers' predictions."""
        low = [agent.name for agent in self.agents if agent.low_quality]
        lying = [agent.name for agent in self.agents if agent.attacker]
        sentences = []
        if low:
            sentences.append(f"On purpose, all training labels of {_agents(low)} are wrong (data.low_quality).")
        if lying:
            does = "lie to their peers" if len(lying) > 1 else "lies to its peers"
            sentences.append(f"On purpose, {_agents(lying)} {does}: {self.attack} (data.attackers).")
        return sentences

    @property
    def opening(self) -> list[str]:
        """The first lines on a run: what is wrong on purpose, how the data were read, and warnings."""
        return [*self.wrong_on_purpose, *self.notes, *(f"Warning: {text}" for text in self.warnings)]

    @property
    def scores(self) -> Sequence[Score]:
        """The scores of the task; the first is the one that tables show."""
        task: Task = task_named(self.task)
        return task.scores

    def to_json(self) -> str:
        """The text of summary.json."""
        return json.dumps(asdict(self), indent=2, allow_nan=False)


def all_of(summaries: Iterable[Summary], what: str) -> list[str]:
    """The sentences of several runs, such as their `notes`, each once."""
    return list(dict.fromkeys(sentence for summary in summaries for sentence in getattr(summary, what)))


def _agents(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    return f"agent{'s' if len(names) > 1 else ''} {shown}"


def summary_from(text: str) -> Summary:
    """The summary in the text of a summary.json; a ConsilienceError if the text is something else."""
    try:
        values: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConsilienceError(f"summary.json is not JSON ({error})") from None
    try:
        agents = [AgentSummary(**agent) for agent in values.pop("agents")]
        summary = Summary(**values, agents=agents)
    except (TypeError, KeyError, AttributeError) as error:
        raise ConsilienceError(f"summary.json does not have the fields of a summary ({error})") from None
    for table in (summary, *agents):
        for name, kind in get_type_hints(type(table)).items():
            if not _fits(getattr(table, name), kind):
                raise ConsilienceError(f"summary.json: {name} is {getattr(table, name)!r:.60}, which it cannot be")
    if len(set(summary.names)) != len(agents):
        raise ConsilienceError("summary.json: two agents have one name")
    for agent in agents:
        if agent.privacy and not _fits_hints(agent.privacy, get_type_hints(Spent)):
            raise ConsilienceError(f"summary.json: privacy of agent {agent.name!r:.60} does not have its fields")
    return summary


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value from a JSON file has the type of a field."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or isinstance(value, AgentSummary):
        return True
    if origin is UnionType:
        return any(_fits(value, choice) for choice in inner)
    if origin is list:
        return isinstance(value, list) and all(_fits(item, inner[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(item, inner[1]) for item in value.values())
    if kind is float:
        return type(value) in (int, float) and abs(value) < 2**63 and isfinite(value)
    if kind is int:
        return type(value) is int and abs(value) < 2**63
    return type(value) is (type(None) if kind is None else kind)


def _fits_hints(values: Mapping[str, Any], hints: Mapping[str, Any]) -> bool:
    """Whether a table has every field, with a value of its type."""
    return all(name in values and _fits(values[name], kind) for name, kind in hints.items())


def summarised(
    agents: Iterable[Agent], low_quality: Sequence[str] = (), attackers: Sequence[str] = ()
) -> list[AgentSummary]:
    """The facts of each agent; those of a private one do not include its numbers of samples per class."""
    return [
        AgentSummary(
            agent.name,
            agent.kind,
            agent.samples,
            agent.name in low_quality,
            agent.parameters,
            [] if getattr(agent, "mechanism", None) is not None else _class_counts(agent),
            agent.name in attackers,
        )
        for agent in agents
    ]


def _class_counts(agent: Agent) -> list[int]:
    """Private samples of each class, also of classes without samples."""
    return agent.class_counts + [0] * (agent.outputs - len(agent.class_counts)) if agent.class_counts else []


def known_elsewhere(local: Sequence[AgentSummary], roster: Iterable[str], classes: int) -> list[AgentSummary]:
    """All agents of the roster: the `local` ones, and of the others the name alone."""
    known = {agent.name: agent for agent in local}
    return [known.get(name, AgentSummary(name, class_counts=[0] * classes)) for name in roster]


def versions() -> dict[str, str]:
    """Versions of all software that the numbers depend on."""
    packages = ("consilience", "numpy", "pandas", "scikit-learn", "scipy", "torch")
    return {"python": platform.python_version()} | {name: _version(name) for name in packages}


_version = cache(version)  # a run of small networks would spend two hundredths on it
