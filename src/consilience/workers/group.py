"""The worker processes of one run: which agents each has, and how arrays travel through torch.distributed.

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
from typing import TYPE_CHECKING, cast, final

import numpy as np

from consilience.agents.protocol import Weights, implements
from consilience.base.errors import ConsilienceError
from consilience.methods.protocol import Exchange, Received, Record, Round, SparseExchange, StatefulExchange
from consilience.runtime.checkpoint import Bytes, by_agent, flat, joined, packed, unpacked
from consilience.runtime.group import Scores
from consilience.tasks.protocol import Array
from consilience.workers import heartbeat
from consilience.workers.message import AgentMessage, messages_of, round_of

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from torch import Tensor

PATIENCE = timedelta(days=2)
"""How long a worker waits for another that is alive, such as one with slower agents. A process that dies is noticed at
once, a machine that vanishes by its silence."""

_SIOCGIFADDR = 0x8915
"""Linux's request for the address of an interface (netdevice(7))."""


class WorkerLost(ConsilienceError):
    """Another worker of the run no longer answers."""


@final
class WorkerGroup:
    """Several workers of one run.

    Args:
        agents_by_worker: names of the agents that each worker trains, in the order of the roster. The first worker has
            the first agent of the roster, and records the run.
        number: the index of this worker.
        roster: all agents.
    """

    def __init__(
        self, agents_by_worker: Sequence[Sequence[str]], number: int = 0, roster: tuple[str, ...] = ()
    ) -> None:
        import torch.distributed as dist

        self.agents_by_worker = tuple(tuple(names) for names in agents_by_worker)
        self.number, self.roster = number, roster
        self.size, self.first = len(agents_by_worker), number == 0
        self._channel = dist.new_group(list(range(self.size))) if self.size < dist.get_world_size() else None

    @property
    def _own(self) -> tuple[str, ...]:
        return self.agents_by_worker[self.number]

    def all_predictions(self, own_predictions: dict[str, Array]) -> dict[str, Array]:
        """The predictions of all agents, in every worker, from those of this worker's."""
        import torch
        import torch.distributed as dist

        most = max(len(names) for names in self.agents_by_worker)
        mine = np.zeros((most, *own_predictions[self._own[0]].shape), dtype=np.float32)
        for row, name in enumerate(self._own):
            mine[row] = own_predictions[name]
        blocks = [torch.empty(mine.shape) for _ in self.agents_by_worker]
        with self._talking_to(None):
            dist.all_gather(blocks, torch.from_numpy(mine), group=self._channel)
        workers = zip(self.agents_by_worker, blocks, strict=True)
        return {name: block[row].numpy() for names, block in workers for row, name in enumerate(names)}

    def to_first(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """The arrays of all workers in the first; nothing in the others."""
        if not self.first:
            self._send(0, joined(packed(arrays)))
            return {}
        everything = dict(arrays)
        for worker in range(1, self.size):
            everything |= unpacked(self._receive(worker))
        return everything

    def from_first(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """The first worker's arrays, in all of them."""
        if not self.first:
            return {name: array.copy() for name, array in unpacked(self._receive(0)).items()}
        data = joined(packed(arrays))
        for worker in range(1, self.size):
            self._send(worker, data)
        return arrays

    def share(self, own: dict[str, Weights]) -> dict[str, Weights]:
        """The arrays of all agents, in every worker and in the order of the roster, from those of this worker's."""
        nested = by_agent(self.from_first(self.to_first(flat(own))))
        return {name: nested[name] for name in self.roster if name in nested}

    def complete(self, done: Round, scores: Scores) -> tuple[Round, Scores]:
        """In the first worker a round and its scores with those of all workers; in the others without trust."""
        record = done.record
        record.received.clear()  # only a site needs it, and of many agents it is large
        own = {name: message.arrays() for name, message in messages_of(done, scores, self._own).items()}
        arrays = by_agent(self.to_first(flat(own)))
        if not self.first:
            return replace(done, record=Record(record.predictions, record.losses, record.sent)), scores
        return round_of(done, {name: AgentMessage.from_arrays(arrays[name]) for name in self.roster})

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
    """The exchange among agents of several workers: as `within` does it once all predictions are in one place.

    Bytes are those of the method, agent to agent, whatever workers send to each other.
    """

    def __init__(self, within: Exchange, group: WorkerGroup) -> None:
        self.roster, self.samples = within.roster, getattr(within, "samples", {})
        self._within, self._group = within, group

    def gather(self, number: int, own_predictions: dict[str, Array]) -> Received:
        """Every agent hears all agents of all workers."""
        received = self._within.gather(number, self._group.all_predictions(own_predictions))
        return replace(received, sent={name: received.sent[name] for name in own_predictions})

    def gather_some(self, number: int, own_predictions: dict[str, Array], wanted: dict[str, Array]) -> Received:
        """Every agent hears the peers that it wants, of all workers."""
        shared = self._group.share({name: {"wanted": peers} for name, peers in wanted.items()})
        all_wanted = {name: arrays["wanted"] for name, arrays in shared.items()}
        everyone, within = self._group.all_predictions(own_predictions), cast(SparseExchange, self._within)
        received = within.gather_some(number, everyone, all_wanted)
        return replace(received, sent={name: received.sent[name] for name in own_predictions})

    def share(self, arrays: dict[str, Weights]) -> dict[str, Weights]:
        """The arrays of all agents."""
        return self._group.share(arrays)

    def state(self) -> dict[str, Array]:
        """What the exchange `within` keeps, which is the same in every worker."""
        return cast(StatefulExchange, self._within).state() if implements(self._within, StatefulExchange) else {}

    def restore(self, state: dict[str, Array]) -> None:
        """Restores what `state` returned."""
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
    """Leaves the group of workers."""
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
    """From now on this process ends when the other end of `lifeline` is closed: when the program is gone.

    A worker cannot watch its parent: that is the server that forked it, which lives as long as any worker does.
    """

    def watch() -> None:
        with suppress(EOFError, OSError):
            lifeline.recv_bytes()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _interface_to(host: str) -> str | None:
    """The network interface whose IPv4 address this machine uses towards `host`; None if it is not known.

    By default gloo uses the address of the machine's own name, which on many is that of the loopback interface.
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
