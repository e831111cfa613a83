"""The loop that FedAvg, FedProx, SCAFFOLD, FedDyn and FedDF share. Their equations are in `core/federated.py`.

A method is a subclass that changes some of the steps `gradient`, `own_update`, `server_update` and `refined`, which
read like the lines of its pseudocode. `x` is the server's model, `y` that of an agent after its local training.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Agent, Averageable, Correction, Losses, Weights, implements
from consilience.base.errors import ConsilienceError
from consilience.base.options import Options, option
from consilience.base.rows import Rows, count
from consilience.core.federated import average, shares
from consilience.core.wire import Wire
from consilience.methods.protocol import Exchange, Memory, NamedByClass, Record, Round, SharesArrays, Start
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
    """One agent's local training in a round, seen from its end."""

    x: Weights
    """The server's model, from which it began."""
    y: Weights
    common: Weights
    """What the server keeps."""
    own: Weights
    """What the agent keeps."""
    agent: Averageable
    gradients: dict[str, Any] = field(default_factory=dict)
    """The sum of the gradients that the agent saw, by parameter."""


@dataclass(frozen=True)
class RoundEnd:
    """What the server has at the end of a round. Lists are in the order of the roster."""

    p: list[float]
    """The agents' shares of the samples."""
    x: Weights
    """The server's model, from which all began."""
    common: Weights
    """What the server keeps."""
    y: list[Weights]
    """The agents' models."""
    before: list[Weights]
    """What each agent kept at the beginning of the round."""
    own: list[Weights]
    """What each agent keeps now."""

    def average(self) -> Weights:
        """sum_i p_i y_i."""
        return each(lambda *y: average(y, self.p), *self.y)


@dataclass(frozen=True)
class ServerMethod(NamedByClass, Options):
    """A server sends its model, everyone trains it on private data, and the server averages.

    All agents start from the first one's weights, and hold the server's model after every round, or what `held` makes
    of it. In a warm-up they train alone; then the server averages their models, and the first round begins from there.
    The order of the roster is the order of summation. Every process plays the server, with the same numbers. The
    shared data are for measuring only.
    """

    keep_optimizer: bool = option(False, "keep the local optimizer's state across rounds")
    warmup: int = option(0, "rounds of training alone before the first averaging", at_least=0)
    server_ema: float = option(
        0.0, "agents hold an average of the server's models; so much of it stays in a round", at_least=0, below=1
    )

    uses_shared, wire = False, Wire()
    remembers = False
    """Whether server and agents keep a tensor for every parameter from round to round, at first zeros."""
    sends_memory = False
    """Whether what the server keeps travels to the agents, and their changes back."""

    def gradient(self, g: Any, y: Any, x: Any, common: Any, own: Any) -> Any:
        """The gradient that an agent uses instead of `g`, tensor by tensor, before every optimizer step."""
        return g

    def own_update(self, local: Local) -> Weights:
        """What an agent keeps of a round."""
        return local.own

    def server_update(self, end: RoundEnd) -> tuple[Weights, Weights]:
        """The server's next model, buffers included, and what it keeps."""
        return end.average(), end.common

    def refined(self, x: Weights, members: Sequence[Averageable], shared: Rows, share: ShareArrays) -> Weights:
        """What the server makes of its next model before it sends it; the agents still hold theirs."""
        return x

    def counted(self, losses: Losses, first: bool, samples: int) -> Losses:
        """With what the server did for an agent, given the shared samples; the `first` has what it did for all."""
        return losses

    def held(self, end: RoundEnd, x: Weights) -> Weights:
        """The model that agents hold, and are measured with, after a round that left the server with `x`."""
        return x

    def rounds(self, agents: LocalAgents, shared: Array, exchange: Exchange, start: Start) -> Iterator[Round]:
        """Rounds of local training and averaging."""
        share = sharing(exchange, f"{self.title} averages models")
        members = [_averageable(agent) for agent in agents]
        roster = exchange.roster
        here = {agent.name: agent for agent in members}
        samples = share({agent.name: {"samples": np.array(agent.samples)} for agent in members})
        missing = [name for name in roster if name not in samples]
        if missing:
            raise ConsilienceError(
                f"agents {', '.join(missing)} live in another process, but {self.title} averages all models in one. "
                "Put all agents into one process, or use consensus."
            )
        x = share({name: agent.weights() for name, agent in here.items() if name == roster[0]})[roster[0]]
        for agent in members:
            _check_architecture(agent, roster[0], x)
        p = shares([int(samples[name]["samples"]) for name in roster])
        common, own = self._memory(x, members[0].trained_names, roster, start)
        if not start.done:
            _spread(x, members)
        for t in range(start.done + 1, min(self.warmup, start.rounds) + 1):
            losses = agents.train(shared, {}, lam=0.0)
            memory = self._remembered(common, own, here, {}, {})
            yield Round(t, Record(agents.published(shared), losses, dict.fromkeys(here, 0)), memory)
        x, held = self._server(x, start)
        for t in range(max(start.done, self.warmup) + 1, start.rounds + 1):
            begins = self.warmup > 0 and t == self.warmup + 1
            if begins:
                ys = share({name: agent.weights() for name, agent in here.items()})
                x = each(lambda *y: average(y, p), *ys.values())
            _spread(x, members)
            trained: dict[str, Weights] = {}
            kept: dict[str, Weights] = {}
            losses = agents.each(partial(self._local_round, here, x, common, own, trained, kept))
            sent = {name: self._bytes(x, y, common) + begins * _size(y) for name, y in trained.items()}
            ys, after = share(trained), share(kept)
            after = {name: after.get(name, {}) for name in roster}
            end = RoundEnd(p, x, common, list(ys.values()), list(own.values()), list(after.values()))
            (x, common), own = self.server_update(end), after
            x = self.refined(x, members, shared, share)
            losses = {name: self.counted(one, name == roster[0], count(shared)) for name, one in losses.items()}
            held = self._averaged(held, self.held(end, x))
            _spread(held, members)
            memory = self._remembered(common, own, here, x, held)
            yield Round(t, Record(agents.published(shared), losses, sent, roster), memory)

    def _local_round(
        self,
        here: dict[str, Averageable],
        x: Weights,
        common: Weights,
        own: dict[str, Weights],
        trained: dict[str, Weights],
        kept: dict[str, Weights],
        one: Agent,
    ) -> Losses:
        """Local training of one agent, which leaves its weights in `trained` and what it keeps in `kept`."""
        agent = here[one.name]
        if not self.keep_optimizer:
            agent.reset_optimizer()
        local = Local(x, {}, common, own[one.name], agent)
        losses = agent.train_alone(self._correction(local))
        trained[one.name] = local.y = agent.weights()
        kept[one.name] = self.own_update(local)
        return losses

    def _correction(self, local: Local) -> Correction | None:
        """The method's change to the gradient; under Adam, before it is normalised."""
        if type(self).gradient is ServerMethod.gradient and not self.remembers:
            return None
        beside: dict[str, tuple[Any, Any, Any]] = {}

        def correct(name: str, g: Any, y: Any) -> Any:
            if name not in beside:
                parts = (local.x, local.common, local.own)
                beside[name] = tuple(_like(y, part[name]) if name in part else None for part in parts)  # type: ignore[assignment]
            if self.remembers:
                local.gradients[name] = local.gradients[name] + g if name in local.gradients else g
            return self.gradient(g, y, *beside[name])

        return correct

    def _memory(
        self, x: Weights, parameters: list[str], roster: tuple[str, ...], start: Start
    ) -> tuple[Weights, dict[str, Weights]]:
        """Zeros before the first round, afterwards what `start` holds: the server's, and each agent's."""
        names = [name for name in parameters if name in x] if self.remembers else []
        common = {name: np.zeros_like(x[name]) for name in names}
        own = {agent: {name: np.zeros_like(x[name]) for name in names} for agent in roster}
        if not start.done:
            return common, own
        found = start.memory
        kept = {name: value for name, value in found.common.items() if not name.startswith(_SERVER)}
        if kept.keys() != common.keys() or any(found.own.get(a, {}).keys() != own[a].keys() for a in roster):
            raise ConsilienceError(
                f"the checkpoint of round {start.done} does not hold what {self.title} keeps for these agents. "
                "Was it made by another method? Resume with the same one, or start again in another folder."
            )
        return kept, {name: found.own.get(name, {}) for name in roster}

    def _averaged(self, before: Weights, held: Weights) -> Weights:
        """d a + (1 - d) x with d = `server_ema`; x itself where nothing is averaged, or nothing was before."""
        d = self.server_ema
        return each(lambda a, x: d * a + (1 - d) * x, before, held) if d and before else held

    def _remembered(
        self, common: Weights, own: dict[str, Weights], here: Collection[str], x: Weights, held: Weights
    ) -> Memory:
        """What a later round needs: the server's model only where agents hold another one."""
        server = {f"{_SERVER}{name}": value for name, value in x.items()} if held is not x else {}
        return Memory(common | server, {name: own[name] for name in here})

    def _server(self, x: Weights, start: Start) -> tuple[Weights, Weights]:
        """The server's model and the one that agents hold, before the next round, from `x`, which agents hold."""
        if start.done <= self.warmup:
            return x, {}
        return {n.removeprefix(_SERVER): v for n, v in start.memory.common.items() if n.startswith(_SERVER)} or x, x

    def _bytes(self, x: Weights, y: Weights, common: Weights) -> int:
        """To and from one agent in one round: the model down and up, and where it travels the memory down and up."""
        return _size(x) + _size(y) + (2 * _size(common) if self.sends_memory else 0)


def sharing(exchange: Exchange, what: str) -> ShareArrays:
    """How arrays travel to all; refused where only predictions do. `what` the method does stands in the error."""
    if not implements(exchange, SharesArrays):
        raise ConsilienceError(f"{what}, but between organisations only predictions travel. Use consensus.")
    return cast(SharesArrays, exchange).share


def each(rule: Callable[..., Any], *parts: Weights) -> Weights:
    """`rule` on every tensor that the first part names, in double precision, rounded to the precision of that part."""
    first = parts[0]
    return {
        key: np.asarray(rule(*(w[key].astype(np.float64) for w in parts))).astype(first[key].dtype) for key in first
    }


def as_array(tensor: Any) -> Array:
    """A torch tensor, on whatever device, or an array, as an array in single precision."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().float().cpu().numpy()
    return np.asarray(tensor, dtype=np.float32)


def _like(tensor: Any, array: Array) -> Any:
    """`array` as the same kind of thing as `tensor`: of its type, and on its device."""
    if not hasattr(tensor, "detach"):
        return array
    import torch

    return torch.from_numpy(array).to(tensor)


def _spread(weights: Weights, members: Sequence[Averageable]) -> None:
    for agent in members:
        agent.set_weights(weights)


def _averageable(agent: Agent) -> Averageable:
    if not implements(agent, Averageable):
        raise ConsilienceError(f"agent {agent.name!r} ({agent.kind}) has no weights that can be averaged. {_ADVICE}")
    return cast(Averageable, agent)


def _check_architecture(agent: Averageable, first: str, x: Weights) -> None:
    """Refuses an agent whose weights do not have the shapes of `x`, which are those of the `first` agent."""
    weights = agent.weights()
    for key in [*x, *weights]:
        ours, theirs = (getattr(part.get(key), "shape", "missing") for part in (x, weights))
        if ours != theirs:
            raise ConsilienceError(
                f"agent {agent.name!r} ({agent.kind}) differs from agent {first!r} in {key}: "
                f"{theirs} against {ours}. {_ADVICE}"
            )


def _size(weights: Weights) -> int:
    return sum(value.nbytes for value in weights.values())
