"""What a run records, round by agent: accuracy, losses, disagreement, bytes, trust."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, final

import numpy as np

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Agent
from consilience.agents.unreadable import refuse_gaps, rows_called
from consilience.base.rows import Rows, count
from consilience.core import bootstrap, metrics
from consilience.core.many_scores import Predictions
from consilience.core.sparse import SparseTrust
from consilience.core.streams import stream
from consilience.methods.protocol import Round
from consilience.runtime.checkpoint import by_agent, flat, with_prefix
from consilience.runtime.group import Scores
from consilience.tasks.protocol import Array, Score

if TYPE_CHECKING:
    import pandas as pd


PLACES = ("shared", "target", "own")
"""Samples on which agents are measured: shared data, a sample of the target domain, each one's own test data."""
BEHIND = "samples behind "
"""Prefix of columns with the number of test samples behind a score, if it is small (`bootstrap.FEW`)."""
AT_ONCE = 32
"""Number of agents that are scored in one pass."""
MOST_DRAWN = 200
"""Up to this number of agents every score is resampled; with more, only the first score of the task."""


@dataclass(frozen=True)
class Evaluation:
    """Labels to measure agents on, which training never uses. Any of them may be missing."""

    shared_y: Array | None = None
    target: tuple[Array, Array] | None = None
    """A held-out sample (x, y) of the target domain."""
    own: dict[str, tuple[Array, Array]] = field(default_factory=dict)
    """Each agent's own test data (x, y)."""
    more: Sequence[Score] = ()
    """Scores beside those of the task."""
    every: int = 1
    """Rounds from one scoring to the next; the last round is always scored."""

    @property
    def measures(self) -> bool:
        """Whether any labels are known."""
        own = any(len(x) for x, _ in self.own.values())
        return own or self.shared_y is not None or self.target is not None

    @property
    def rows(self) -> list[Rows]:
        """All test samples except the shared data."""
        target = [] if self.target is None else [self.target[0]]
        return target + [x for x, _ in self.own.values()]

    def scores_of(self, local: LocalAgents, on_shared: Mapping[str, Array], number: int, last: bool) -> Scores:
        """`scores` of all agents after round `number`; NaN in rounds without scoring."""
        if not last and number % self.every:
            return {agent.name: self._scores([agent], [{}])[agent.name] for agent in local}
        scores: Scores = {}
        for block in _blocks(self._on_target(local)):
            agents = [agent for agent, _ in block]
            pairs = [self._pairs(agent, on_shared.get(agent.name), f) for agent, f in block]
            scores |= self._scores(agents, pairs)
        return {name: scores[name] for name in local.names}

    def _on_target(self, local: LocalAgents) -> Iterator[tuple[Agent, Array | None]]:
        """All agents in any order, with their predictions on the target sample, if there is one."""
        if self.target is None:
            yield from ((agent, None) for agent in local)
            return
        with rows_called("the target data"):
            yield from local.predicted(self.target[0])

    def scores(self, agent: Agent, on_shared: Array | None, on_target: Array | None = None) -> dict[str, float]:
        """Scores of an agent on the shared data, on the target domain and on its own test data; NaN without labels.

        Its predictions are `on_shared` and `on_target`, or for the latter what it predicts now.
        """
        return self._scores([agent], [self._pairs(agent, on_shared, on_target)])[agent.name]

    def _scores(self, agents: Sequence[Agent], pairs: Sequence[Mapping[str, tuple[Array, Array]]]) -> Scores:
        """Scores by agent, from the predictions and labels of each by place: those on the same samples in one pass."""
        measures = (*agents[0].task.scores, *self.more)
        unknown = {f"{score.name}_{where}": float("nan") for where in PLACES for score in measures}
        scores = {agent.name: dict(unknown) for agent in agents}
        for where in PLACES:
            known = [(a.name, *own[where]) for a, own in zip(agents, pairs, strict=True) if where in own]
            for same in [known] if where != "own" and known else [[single] for single in known]:
                predictions = Predictions(np.stack([f for _, f, _ in same]), same[0][2])
                for score in measures:
                    for (name, _, _), value in zip(same, score.of_all(predictions), strict=True):
                        scores[name][f"{score.name}_{where}"] = float(value)
        return scores

    def draws_of(self, local: LocalAgents, on_shared: Mapping[str, Array], agents: int) -> dict[str, dict[str, Array]]:
        """`draws` of all agents; in a run of more than `MOST_DRAWN` agents only for the first score."""
        resamples: dict[tuple[str, ...], list[Array]] = {}
        first_only = agents > MOST_DRAWN
        draws = {
            agent.name: self.draws(agent, on_shared.get(agent.name), f, first_only, resamples)
            for agent, f in self._on_target(local)
        }
        return {name: draws[name] for name in local.names}

    def draws(
        self,
        agent: Agent,
        on_shared: Array | None,
        on_target: Array | None = None,
        first_only: bool = False,
        resamples: dict[tuple[str, ...], list[Array]] | None = None,
    ) -> dict[str, Array]:
        """All known scores on `bootstrap.DRAWS` resamples of the test samples (draws,), by column.

        If few samples are behind a score, `BEHIND` and its column have their number. Agents measured on the same
        samples have the same resamples, so that differences are paired; `resamples` caches those of all agents.
        """
        columns: dict[str, Array] = {}
        resamples = {} if resamples is None else resamples
        scores = agent.task.scores[:1] if first_only else (*agent.task.scores, *self.more)
        for where, (f, y) in self._pairs(agent, on_shared, on_target).items():
            names = ("bootstrap", where, agent.name) if where == "own" else ("bootstrap", where)
            drawn = resamples.get(names) or [*bootstrap.resampled(len(f), stream(0, *names))]
            if where != "own":
                resamples[names] = drawn
            known = [score for score in scores if not np.isnan(score.measure(f, y))]
            of_counts = [_of_counts(score, f, y) for score in known]
            blocks = [[score_of(counts) for score_of in of_counts] for counts in drawn]
            for score, values in zip(known, zip(*blocks, strict=True), strict=True):
                columns[f"{score.name}_{where}"] = np.concatenate(values)
            for score in known:
                if (behind := bootstrap.samples_behind(score.sums, f, y)) < bootstrap.FEW:
                    columns[f"{BEHIND}{score.name}_{where}"] = np.array([float(behind)])
        return columns

    def _pairs(self, agent: Agent, on_shared: Array | None, on_target: Array | None) -> dict[str, tuple[Array, Array]]:
        """Predictions and labels of all samples with labels: shared, target and own."""
        pairs: dict[str, tuple[Array, Array]] = {}
        if self.shared_y is not None and on_shared is not None:
            pairs["shared"] = on_shared, self.shared_y
        if self.target is not None:
            pairs["target"] = _predicted(agent, self.target[0], "the target data", on_target), self.target[1]
        if agent.name in self.own and count(self.own[agent.name][0]):
            x, y = self.own[agent.name]
            pairs["own"] = _predicted(agent, x, f"the own data of {agent.name!r}"), y
        return pairs


def _blocks(agents: Iterable[tuple[Agent, Array | None]]) -> Iterator[list[tuple[Agent, Array | None]]]:
    """Some at a time, so that the predictions of all are never there at once."""
    rest = iter(agents)
    while block := list(islice(rest, AT_ONCE)):
        yield block


def _predicted(agent: Agent, rows: Rows, what: str, known: Array | None = None) -> Array:
    """What an agent predicts for test rows; `known` saves asking."""
    with rows_called(what):
        f = agent.predict(rows) if known is None else known
        refuse_gaps(agent, f, rows)
    return f


def _of_counts(score: Score, f: Array, y: Array) -> Callable[[Array], Array]:
    """The function that gives the score of resamples from how often each sample is in them (draws, samples)."""
    if score.sums is not None:
        terms, of_sums = score.sums.terms(f, y), score.sums.score
        return lambda counts: of_sums(counts @ terms)

    def slowly(counts: Array) -> Array:
        rows = [np.repeat(np.arange(len(f)), row.astype(np.intp)) for row in counts]
        return np.array([score.measure(f[picked], y[picked]) for picked in rows])

    return slowly


@final
class History:
    """One row per round and agent, and one trust matrix per round of collaboration.

    At a site the disagreement after a round is known from the exchange of the next one, and never after the last.
    Columns:

    - NAME_shared, NAME_target, NAME_own for every score of the task
    - loss_local, loss_disagreement: the two terms of the local objective, means over the round
    - disagreement: the agent's with the mean of all; disagreement_all: the largest between any two (`core.metrics`)
    - bytes_sent
    - samples_trained, samples_forward: what passed through the model for training, forward and back, and what passed
      forward only, for peers or to show it to batch norm. Estimators are trained on every sample of a fit once.
    """

    def __init__(self, names: Sequence[str], everyone: bool = True) -> None:
        self._names, self._everyone = names, everyone
        self._columns: dict[str, list[float]] = {}
        self._trust: list[Array] = []
        self._peers: list[Array] = []
        self._trust_rounds: list[int] = []
        self.by_class: dict[str, Array] = {}
        """Trust by class in the last round that had it, with the samples of each class and how unsure they are."""
        self.draws: dict[str, Array] = {}
        """Scores of resamples of the test samples in the last round, by column (agents, draws)."""
        self.held: dict[str, dict[str, Array]] = {}
        """What the run keeps of each agent (`runtime/held_out.py`), after the last round."""

    def add(self, done: Round, scores: dict[str, dict[str, float]]) -> dict[str, float]:
        """Records a round and every agent's `scores` in it. Returns the mean over agents of every measure."""
        record = done.record
        distance, largest = np.full(len(self._names), np.nan), np.nan
        if self._everyone:
            f = np.stack([record.predictions[name] for name in self._names])
            distance, largest = metrics.distances_to_mean(f), metrics.disagreement(f)
        else:
            self._fill_in(done)
        first = len(next(iter(self._columns.values()), []))
        for number, name in enumerate(self._names):
            row = {"round": done.number, "agent": number} | scores[name]
            losses = record.losses[name]
            row |= {"loss_local": losses.local, "loss_disagreement": losses.disagreement}
            row |= {"disagreement": distance[number], "disagreement_all": largest, "bytes_sent": record.sent[name]}
            row |= {"samples_trained": losses.trained, "samples_forward": losses.forward}
            for key, value in row.items():
                self._columns.setdefault(key, [0.0] * first).append(float(value))
        if record.trust is not None:
            self._trust.append(record.trust)
            self._peers += [] if record.peers is None else [record.peers.astype(np.int32)]
            self._trust_rounds.append(done.number)
            self.by_class = record.by_class
        return {key: float(np.mean(values[first:])) for key, values in self._columns.items()}

    def add_draws(self, draws: Mapping[str, Mapping[str, Array]]) -> None:
        """Records the scores of resamples by agent and column. NaN for agents without any."""
        nothing = {column: np.full_like(values, np.nan) for own in draws.values() for column, values in own.items()}
        self.draws = {
            column: np.stack([draws.get(name, {}).get(column, missing) for name in self._names]).astype(np.float32)
            for column, missing in nothing.items()
        }

    def _fill_in(self, done: Round) -> None:
        """Fills in the disagreement after the last round, from what was heard at the start of this one."""
        received = done.record.received
        if not received or done.number - 1 not in self._columns.get("round", [])[-1:]:
            return
        f = np.stack(list(received.values()))
        distance, heard = metrics.distances_to_mean(f), list(received)
        for number, name in enumerate(self._names):
            if name in heard:
                self._columns["disagreement"][number - len(self._names)] = float(distance[heard.index(name)])
                self._columns["disagreement_all"][number - len(self._names)] = metrics.disagreement(f)

    def frame(self) -> "pd.DataFrame":
        """The rows as a DataFrame, sorted by round, agents by name."""
        import pandas as pd

        columns: dict[str, object] = {key: np.array(values) for key, values in self._columns.items()}
        columns["agent"] = np.array(self._names)[np.array(self._columns.get("agent", ()), dtype=int)]
        for key in ("round", "bytes_sent", "samples_trained", "samples_forward"):
            columns[key] = np.array(self._columns.get(key, ()), dtype=np.int64)
        return pd.DataFrame(columns)

    def latest(self) -> dict[str, dict[str, float]]:
        """Every measure of each agent after the last round."""
        measures = {key: values[-len(self._names) :] for key, values in self._columns.items()}
        del measures["round"], measures["agent"]
        return {
            name: {key: values[number] for key, values in measures.items()} for number, name in enumerate(self._names)
        }

    def trust(self) -> tuple[Array, Array]:
        """Trust matrices (rounds, agents, roster) and the numbers of their rounds; see `sparse` for many agents."""
        rounds, heard = np.array(self._trust_rounds, dtype=np.int64), self.sparse()
        if heard is not None:
            return heard.dense(), rounds
        return np.stack(self._trust) if self._trust else np.zeros((0, 0, 0)), rounds

    def sparse(self) -> SparseTrust | None:
        """Trust in the peers that were heard, in sparse exchange."""
        return SparseTrust(np.stack(self._peers), np.stack(self._trust)) if self._peers else None

    def arrays(self) -> dict[str, Array]:
        """All of it as arrays, for a checkpoint."""
        trust = np.stack(self._trust) if self._trust else np.zeros((0, 0, 0))
        rounds = np.array(self._trust_rounds, dtype=np.int64)
        columns = enumerate(self._columns.items())
        saved: dict[str, Array] = {f"column.{index:02d}.{key}": np.array(values) for index, (key, values) in columns}
        saved |= {f"by_class.{key}": value for key, value in self.by_class.items()}
        saved |= {f"draws.{key}": value for key, value in self.draws.items()}
        saved |= flat(self.held, "held.")
        saved |= {"trust_peers": np.stack(self._peers)} if self._peers else {}
        return saved | {"trust": trust, "trust_rounds": rounds}

    def restore(self, saved: dict[str, Array]) -> None:
        """Restores what `arrays` returned."""
        columns = sorted(key for key in saved if key.startswith("column."))
        self._columns = {key.split(".", 2)[2]: saved[key].tolist() for key in columns}
        self._trust = list(saved["trust"])
        self._peers = list(saved.get("trust_peers", ()))
        self._trust_rounds = saved["trust_rounds"].tolist()
        self.by_class = with_prefix(saved, "by_class.")
        self.draws = with_prefix(saved, "draws.")
        self.held = by_agent(saved, "held.")
