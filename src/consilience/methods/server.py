"""The loop that FedAvg, FedProx, SCAFFOLD, FedDyn and FedDF share. Their equations are in `core/federated.py`.

A method is a subclass that overrides some of the steps `gradient`, `own_update`, `server_update` and `after_average`,
which read like the lines of its pseudocode. `x` is the server's model, `y` that of an agent after local training.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Agent, Averageable, GradientCorrection, Losses, Weights, implements
from consilience.base.errors import ConsilienceError
from consilience.base.options import Options, option
from consilience.base.rows import Rows, count
from consilience.core.federated import average, shares
from consilience.core.wire import Wire
from consilience.methods.protocol import (
    Exchange,
    Memory,
    Record,
    Round,
    SharesArrays,
    Start,
    wrong_checkpoint,
)
from consilience.tasks.protocol import Array

ShareArrays = Callable[[dict[str, Weights]], dict[str, Weights]]
"""The arrays of all agents, in the order of the roster, from those of this process's agents."""

_SERVER = "server/"
"""Before the tensors of the server's model, where agents hold another one."""
_ADVICE = (
    "Averaging models needs the same torch architecture everywhere; consensus works for agents with different models."
)


@dataclass
class Local:
    """One agent's local training in a round, when it has ended."""

    x: Weights
    """The server's model, from which training started."""
    y: Weights
    common: Weights
    """State of the server."""
    own: Weights
    """State of the agent."""
    agent: Averageable
    gradients: dict[str, Any] = field(default_factory=dict)
    """Sum of the agent's gradients, by parameter."""


@dataclass(frozen=True)
class RoundEnd:
    """What the server knows at the end of a round. Lists are in the order of the roster."""

    p: list[float]
    """The agents' shares of the samples."""
    x: Weights
    """The server's model, from which all agents started."""
    common: Weights
    """State of the server."""
    y: list[Weights]
    """The agents' models."""
    before: list[Weights]
    """State of each agent at the beginning of the round."""
    own: list[Weights]
    """State of each agent now."""

    def average(self) -> Weights:
        """sum_i p_i y_i."""
        return each(lambda *y: average(y, self.p), *self.y)


@dataclass(frozen=True)
class ServerMethod(Options):
    """A server sends its model, everyone trains it on private data, and the server averages.

    All agents start from the first one's weights, and after every round hold the server's model, or the one that
    `published_model` returns. In a warm-up they train alone; then the server averages their models, and the first
    round starts from there. Sums are in the order of the roster. Every process plays the server, with the same numbers.
    The shared data are used for evaluation only.
    """

    keep_optimizer: bool = option(False, "keep the local optimizer's state across rounds")
    warmup: int = option(0, "rounds of training alone before the first averaging", at_least=0)
    server_ema: float = option(
        0.0, "agents hold a moving average of the server's models with this decay; 0 = none", at_least=0, below=1
    )

    uses_shared, wire = False, Wire()
    elementwise = False
    """Whether `gradient` treats every number by itself, so that agents of one architecture can train together."""
    keeps_state = False
    """Whether server and agents have a state: a tensor for every parameter, at first zeros."""
    sends_memory = False
    """Whether the server's state travels to the agents, and their changes back."""

    @property
    def label(self) -> str:
        """The class name in small letters."""
        return type(self).__name__.lower()

    @property
    def title(self) -> str:
        """The class name."""
        return type(self).__name__

    def gradient(self, g: Any, y: Any, x: Any, common: Any, own: Any) -> Any:
        """The gradient that an agent uses instead of `g`, tensor by tensor, before every optimizer step."""
        return g

    def own_update(self, local: Local) -> Weights:
        """The agent's next state."""
        return local.own

    def server_update(self, end: RoundEnd) -> tuple[Weights, Weights]:
        """The server's next model, buffers included, and its next state."""
        return end.average(), end.common

    def after_average(self, x: Weights, agents: LocalAgents, shared: Rows, share: ShareArrays) -> Weights:
        """The server's next model after further training, before it is sent; agents still hold their own models."""
        return x

    def add_cost(self, losses: Losses, first: bool, samples: int) -> Losses:
        """Adds the server's computation for an agent; the `first` agent gets what the server did once for all."""
        return losses

    def published_model(self, end: RoundEnd, x: Weights) -> Weights:
        """The model that agents hold and are evaluated with after a round; `x` is the server's."""
        return x

    def rounds(self, agents: LocalAgents, shared: Array, exchange: Exchange, start: Start) -> Iterator[Round]:
        """Rounds of local training and averaging."""
        share = sharing(exchange, f"{self.title} averages models")
        members = {agent.name: _averageable(agent) for agent in agents}
        roster = exchange.roster
        samples = share({name: {"samples": np.array(agent.samples)} for name, agent in members.items()})
        missing = [name for name in roster if name not in samples]
        if missing:
            raise ConsilienceError(
                f"agents {', '.join(missing)} live in another process, but {self.title} averages all models in one. "
                "Put all agents into one process, or use consensus."
            )
        x = share({name: agent.weights() for name, agent in members.items() if name == roster[0]})[roster[0]]
        for agent in members.values():
            _check_architecture(agent, roster[0], x)
        p = shares([int(samples[name]["samples"]) for name in roster])
        common, own = self._state(x, next(iter(members.values())).trained_names, roster, start)
        if not start.done:
            _set_weights(members, x)
        for t in range(start.done + 1, min(self.warmup, start.rounds) + 1):
            losses = agents.train(shared, {}, lam=0.0)
            memory = self._memory(common, own, members, {}, {})
            yield Round(t, Record(agents.published(shared), losses, dict.fromkeys(members, 0)), memory)
        x, published = self._server_model(x, start)
        held: Weights | None = None  # by all agents
        for t in range(max(start.done, self.warmup) + 1, start.rounds + 1):
            first_average = self.warmup > 0 and t == self.warmup + 1
            if first_average:
                ys = share({name: agent.weights() for name, agent in members.items()})
                x = each(lambda *y: average(y, p), *ys.values())
            if x is not held:
                _set_weights(members, x)
            if not self.keep_optimizer:
                for member in members.values():
                    member.reset_optimizer()
            corrections = {name: self._correction(x, common, own[name]) for name in members}
            losses = agents.train_alone(corrections)
            trained = {name: member.weights() for name, member in members.items()}
            states = {
                name: self.own_update(_local(x, trained[name], common, own[name], member, corrections[name]))
                for name, member in members.items()
            }
            sent = {name: self._bytes(x, y, common) + first_average * _size(y) for name, y in trained.items()}
            ys, after = share(trained), share(states)
            after = {name: after.get(name, {}) for name in roster}
            end = RoundEnd(p, x, common, list(ys.values()), list(own.values()), list(after.values()))
            (x, common), own = self.server_update(end), after
            x = self.after_average(x, agents, shared, share)
            losses = {name: self.add_cost(loss, name == roster[0], count(shared)) for name, loss in losses.items()}
            published = self._moving_average(published, self.published_model(end, x))
            _set_weights(members, held := published)
            memory = self._memory(common, own, members, x, published)
            yield Round(t, Record(agents.published(shared), losses, sent, roster), memory)

    def _correction(self, x: Weights, common: Weights, own: Weights) -> GradientCorrection | None:
        """The method's change to an agent's gradient in a round; under Adam, before it is normalised."""
        if type(self).gradient is ServerMethod.gradient and not self.keeps_state:
            return None
        return GradientCorrection(self.gradient, x, common, own, self.elementwise, self.keeps_state)

    def _state(
        self, x: Weights, parameters: list[str], roster: tuple[str, ...], start: Start
    ) -> tuple[Weights, dict[str, Weights]]:
        """State of the server and of each agent: zeros before the first round, afterwards from `start`."""
        names = [name for name in parameters if name in x] if self.keeps_state else []
        common = {name: np.zeros_like(x[name]) for name in names}
        own = {agent: {name: np.zeros_like(x[name]) for name in names} for agent in roster}
        if not start.done:
            return common, own
        memory = start.memory
        saved = {name: value for name, value in memory.common.items() if not name.startswith(_SERVER)}
        if saved.keys() != common.keys() or any(memory.own.get(a, {}).keys() != own[a].keys() for a in roster):
            raise wrong_checkpoint(start.done, self.title)
        return saved, {name: memory.own.get(name, {}) for name in roster}

    def _moving_average(self, before: Weights, x: Weights) -> Weights:
        """d a + (1 - d) x with d = `server_ema`; x itself without an average, or in the first round."""
        d = self.server_ema
        return each(lambda a, x: d * a + (1 - d) * x, before, x) if d and before else x

    def _memory(
        self, common: Weights, own: dict[str, Weights], names: Collection[str], x: Weights, published: Weights
    ) -> Memory:
        """What a later round needs: the server's model only where agents hold another one."""
        server = {f"{_SERVER}{name}": value for name, value in x.items()} if published is not x else {}
        return Memory(common | server, {name: own[name] for name in names})

    def _server_model(self, x: Weights, start: Start) -> tuple[Weights, Weights]:
        """The server's model and the one that agents hold, `x`, before the next round."""
        if start.done <= self.warmup:
            return x, {}
        return {n.removeprefix(_SERVER): v for n, v in start.memory.common.items() if n.startswith(_SERVER)} or x, x

    def _bytes(self, x: Weights, y: Weights, common: Weights) -> int:
        """To and from one agent in one round: the model, and if it is sent the state, down and up."""
        return _size(x) + _size(y) + (2 * _size(common) if self.sends_memory else 0)


def sharing(exchange: Exchange, what: str) -> ShareArrays:
    """The exchange's way to share arrays; an error, which says `what` the method needs, if it has none."""
    if not implements(exchange, SharesArrays):
        raise ConsilienceError(f"{what}, but between organisations only predictions travel. Use consensus.")
    return cast(SharesArrays, exchange).share


def each(rule: Callable[..., Any], *weights: Weights) -> Weights:
    """`rule` on every tensor of the first weights, in double precision, rounded to the precision of that tensor."""
    first = weights[0]
    return {
        key: np.asarray(rule(*(w[key].astype(np.float64) for w in weights))).astype(first[key].dtype) for key in first
    }


def as_array(tensor: Any) -> Array:
    """A torch tensor (on any device) or an array as an array in single precision."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().float().cpu().numpy()
    return np.asarray(tensor, dtype=np.float32)


def _local(
    x: Weights, y: Weights, common: Weights, own: Weights, agent: Averageable, correction: GradientCorrection | None
) -> Local:
    return Local(x, y, common, own, agent, {} if correction is None else correction.sums)


def _set_weights(members: dict[str, Averageable], weights: Weights) -> None:
    for agent in members.values():
        agent.set_weights(weights)


def _averageable(agent: Agent) -> Averageable:
    if not implements(agent, Averageable):
        raise ConsilienceError(f"agent {agent.name!r} ({agent.kind}) has no weights that can be averaged. {_ADVICE}")
    return cast(Averageable, agent)


def _check_architecture(agent: Averageable, first: str, x: Weights) -> None:
    """Refuses an agent whose weights do not have the shapes of `x`, which are those of the `first` agent."""
    weights = agent.weights()
    for key in [*x, *weights]:
        ours, theirs = (getattr(tensors.get(key), "shape", "missing") for tensors in (x, weights))
        if ours != theirs:
            raise ConsilienceError(
                f"agent {agent.name!r} ({agent.kind}) differs from agent {first!r} in {key}: "
                f"{theirs} against {ours}. {_ADVICE}"
            )


def _size(weights: Weights) -> int:
    return sum(value.nbytes for value in weights.values())
