"""The worker processes of one run, through torch.distributed: who holds which agents, and how arrays travel.

Arrays travel as tensors of known shapes or in the form of safetensors, over gloo, from host memory to host memory.
Nothing is pickled.
"""

import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np

from consilience.agents.protocol import Losses, Weights, implements
from consilience.base.errors import ConsilienceError
from consilience.methods.protocol import Exchange, Memory, Received, Record, Round, SparseExchange, StatefulExchange
from consilience.runtime.checkpoint import with_prefix
from consilience.runtime.group import Scores
from consilience.runtime.packing import Bytes, joined, packed, unpacked
from consilience.tasks.protocol import Array
from consilience.workers import heartbeat

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from torch import Tensor

PATIENCE = timedelta(days=2)
"""How long a worker waits for another that is alive, such as one with slower agents. A process that died is noticed at
once, a machine that vanished by its silence."""

_SIOCGIFADDR = 0x8915
"""Linux's request for the address of an interface (netdevice(7))."""


class WorkerLost(ConsilienceError):
    """Another worker of the run does not answer any more."""


@final
class WorkerGroup:
    """The workers of one run, of which a single one holds all agents and talks to nobody.

    `agents_by_worker` are names in the order of the `roster`; `number` is this worker's place among them. The first
    worker holds the first agent of the roster, and records the run.
    """

    def __init__(
        self, agents_by_worker: Sequence[Sequence[str]] = ((),), number: int = 0, roster: tuple[str, ...] = ()
    ) -> None:
        self.agents_by_worker = tuple(tuple(names) for names in agents_by_worker)
        self.number, self.roster = number, roster
        self.size, self.first = len(agents_by_worker), number == 0
        self._last: tuple[dict[str, Array], dict[str, Array]] | None = None
        self._channel: Any = None
        if self.size > 1:
            import torch.distributed as dist

            self._channel = dist.new_group(list(range(self.size))) if self.size < dist.get_world_size() else None

    def everyone(self, own_predictions: dict[str, Array]) -> dict[str, Array]:
        """The predictions of all agents, from those of this worker's.

        The last answer is kept: what is recorded after a round is what the next round exchanges.
        """
        if self.size == 1:
            return own_predictions
        if self._last is None or self._last[0] is not own_predictions:
            self._last = None  # frees what all agents said before
            self._last = own_predictions, self._all_gather(own_predictions)
        return self._last[1]

    def to_first(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """The arrays of all workers in the first; nothing in the others."""
        if not self.first:
            self._send(0, joined(packed(arrays)))
            return {}
        found = dict(arrays)
        for worker in range(1, self.size):
            found |= unpacked(self._receive(worker))
        return found

    def from_first(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """The first worker's arrays, in all of them."""
        if not self.first:
            return {name: array.copy() for name, array in unpacked(self._receive(0)).items()}
        if self.size > 1:
            data = joined(packed(arrays))
            for worker in range(1, self.size):
                self._send(worker, data)
        return arrays

    def by_agent(self, own: dict[str, Weights]) -> dict[str, Weights]:
        """The arrays of all agents, in the order of the roster, from those of this worker's agents."""
        flat = {f"{name}/{key}": value for name, arrays in own.items() for key, value in arrays.items()}
        parts: dict[str, Weights] = {}
        for path, value in self.from_first(self.to_first(flat)).items():
            name, _, key = path.partition("/")
            parts.setdefault(name, {})[key] = value
        return {name: parts[name] for name in self.roster if name in parts}

    def whole(self, done: Round, scores: Scores) -> tuple[Round, Scores]:
        """A round and its scores as seen by this worker, completed with what the others saw."""
        if self.size == 1:
            return done, scores
        record, own = done.record, dict[str, Weights]()
        for place, name in enumerate(self.agents_by_worker[self.number]):
            losses = record.losses[name]
            cost = [losses.trained, losses.forward, record.sent[name]]
            measured = [losses.local, losses.disagreement, *cost, *scores[name].values()]
            own[name] = {"measured": np.array(measured, dtype=np.float64)}
            if record.trust is not None:
                own[name]["trust"] = record.trust[place]
            if record.peers is not None:
                own[name]["peers"] = record.peers[place]
            if record.by_class:
                own[name]["by_class"] = record.by_class["trust"][place]
            own[name] |= {f"memory/{key}": value for key, value in done.memory.own.get(name, {}).items()}
        record.received.clear()  # what everyone predicts is known now, and of many agents it is large
        found = self.by_agent(own)
        measured_by = {name: arrays["measured"].tolist() for name, arrays in found.items()}
        joined = Record(
            predictions=self.everyone(record.predictions),
            losses={name: Losses(v[0], v[1], int(v[2]), int(v[3])) for name, v in measured_by.items()},
            sent={name: int(values[4]) for name, values in measured_by.items()},
            heard=record.heard,
            trust=None if record.trust is None else np.stack([arrays["trust"] for arrays in found.values()]),
            peers=None if record.peers is None else np.stack([arrays["peers"] for arrays in found.values()]),
            by_class=record.by_class
            and record.by_class | {"trust": np.stack([arrays["by_class"] for arrays in found.values()])},
        )
        kept = {name: with_prefix(arrays, "memory/") for name, arrays in found.items()}
        memory = Memory(done.memory.common, {name: arrays for name, arrays in kept.items() if arrays})
        columns = list(next(iter(scores.values())))
        all_scores = {name: dict(zip(columns, values[5:], strict=True)) for name, values in measured_by.items()}
        return Round(done.number, joined, memory), all_scores

    def _all_gather(self, own_predictions: dict[str, Array]) -> dict[str, Array]:
        import torch
        import torch.distributed as dist

        most = max(len(names) for names in self.agents_by_worker)
        mine = np.zeros((most, *next(iter(own_predictions.values())).shape), dtype=np.float32)
        for place, name in enumerate(self.agents_by_worker[self.number]):
            mine[place] = own_predictions[name]
        parts = [torch.empty(mine.shape) for _ in self.agents_by_worker]
        with self._talking_to(None):
            dist.all_gather(parts, torch.from_numpy(mine), group=self._channel)
        places = zip(self.agents_by_worker, parts, strict=True)
        return {name: part[place].numpy() for names, part in places for place, name in enumerate(names)}

    def _send(self, worker: int, data: Bytes) -> None:
        import torch
        import torch.distributed as dist

        with self._talking_to(worker):
            dist.send(torch.tensor([len(data)]), worker, group=self._channel)
            dist.send(torch.from_numpy(data), worker, group=self._channel)

    def _receive(self, worker: int) -> Bytes:
        import torch
        import torch.distributed as dist

        size: Tensor = torch.zeros(1, dtype=torch.int64)
        with self._talking_to(worker):
            dist.recv(size, worker, group=self._channel)
            data = torch.empty(int(size), dtype=torch.uint8)
            dist.recv(data, worker, group=self._channel)
        return data.numpy()

    @contextmanager
    def _talking_to(self, worker: int | None) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            who = "another worker" if worker is None else f"worker {worker}"
            if worker is not None and self.agents_by_worker[worker]:
                who += f", which trained agents {', '.join(self.agents_by_worker[worker])},"
            raise WorkerLost(
                f"{who} has died or cannot be reached. Finished rounds are saved; resume the run."
            ) from error


@final
class WorkerExchange:
    """The exchange among agents of several workers: as `within` does it once all are in one place.

    Bytes are those of the method, agent to agent, whatever workers send to each other.
    """

    def __init__(self, within: Exchange, group: WorkerGroup) -> None:
        self.roster = within.roster
        self._within, self._group = within, group

    def gather(self, number: int, own_predictions: dict[str, Array]) -> Received:
        """Everyone hears everyone, wherever they live."""
        received = self._within.gather(number, self._group.everyone(own_predictions))
        return replace(received, sent={name: received.sent[name] for name in own_predictions})

    def gather_some(self, number: int, own_predictions: dict[str, Array], wanted: dict[str, Array]) -> Received:
        """Everyone hears whom it wants, wherever they live."""
        everyone, within = self._group.everyone(own_predictions), cast(SparseExchange, self._within)
        if self._group.size > 1:
            found = self._group.by_agent({name: {"wanted": peers} for name, peers in wanted.items()})
            wanted = {name: arrays["wanted"] for name, arrays in found.items()}
        received = within.gather_some(number, everyone, wanted)
        return replace(received, sent={name: received.sent[name] for name in own_predictions})

    def share(self, arrays: dict[str, Weights]) -> dict[str, Weights]:
        """The arrays of all agents."""
        return self._group.by_agent(arrays) if self._group.size > 1 else arrays

    def state(self) -> dict[str, Array]:
        """What the exchange `within` keeps, which is the same in every worker."""
        return cast(StatefulExchange, self._within).state() if implements(self._within, StatefulExchange) else {}

    def restore(self, state: dict[str, Array]) -> None:
        """Gives it back."""
        if implements(self._within, StatefulExchange):
            cast(StatefulExchange, self._within).restore(state)


def join(number: int, size: int, meeting: str = "env://") -> None:
    """Makes this process worker `number` of `size`. They find each other at `meeting`, a file:// address or env://.

    Workers of one machine talk over its loopback interface alone; those of several, unless GLOO_SOCKET_IFNAME names
    another, over the one that leads to the first.
    """
    import torch.distributed as dist

    one_machine = not meeting.startswith("env:") or os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE")
    if one_machine:
        os.environ["GLOO_SOCKET_IFNAME"] = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    elif name := _interface_to(os.environ["MASTER_ADDR"]):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
    try:
        dist.init_process_group("gloo", init_method=meeting, rank=number, world_size=size, timeout=PATIENCE)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise WorkerLost(f"worker {number} of {size} could not meet the others: {reason}.") from error
    if not one_machine:
        heartbeat.end_with_others(number, size)


def leave() -> None:
    """Ends this process's membership."""
    import torch.distributed as dist

    heartbeat.rest()
    dist.destroy_process_group()


def end_with_parent() -> None:
    """From now on this process ends when the program that started it is gone, even if that was killed."""

    def watch(parent: int) -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, args=(os.getppid(),), daemon=True).start()


def end_with(lifeline: "Connection") -> None:
    """From now on this process ends when nobody holds the other end of `lifeline` any more: when the program is gone.

    The parent of a worker is no sign of that: it is the server that forked it, which lives as long as any worker does.
    """

    def watch() -> None:
        with suppress(EOFError, OSError):
            lifeline.recv_bytes()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _interface_to(host: str) -> str | None:
    """The network interface whose IPv4 address this machine uses towards `host`; None if that cannot be told.

    Left to itself, gloo takes the address of the machine's own name, which on many is that of the loopback interface.
    """
    try:
        import fcntl

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))  # sends nothing
            own = socket.inet_aton(probe.getsockname()[0])
            for _, name in socket.if_nameindex():
                request = name.encode().ljust(256, b"\0")
                with suppress(OSError):
                    if fcntl.ioctl(probe, _SIOCGIFADDR, request)[20:24] == own:
                        return name
    except (ImportError, OSError):
        pass
    return None
