"""Latency of the exchange per round, in memory and between real processes over Zenoh with mutual TLS on loopback."""

import multiprocessing
import socket
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import numpy as np

from consilience.experiments.membership import make_keys
from consilience.runtime.exchange import InMemory
from consilience.runtime.peers import keys
from consilience.runtime.peers.audit import AuditLog
from consilience.runtime.peers.federation import Federation, fingerprint, parse_member
from consilience.runtime.peers.link import Tls
from consilience.runtime.peers.mesh import Mesh

SIZES = {"40 kB": (1000, 10), "1.2 MB": (3000, 100), "12 MB": (30_000, 100)}
PEERS = (2, 5, 10, 20)


def measure(peers: int, shape: tuple[int, int], rounds: int) -> float:
    """Median seconds of a round, that of the slowest peer, after a first round in which links are warmed."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name:
        federation, folders = lay_out(Path(name), peers, shape)
        processes, pipes = [], []
        for agent, folder in folders.items():
            here, there = context.Pipe()
            processes.append(context.Process(target=take_part, args=(federation, agent, folder, rounds, there)))
            processes[-1].start()
            pipes.append(here)
        seconds = [pipe.recv() for pipe in pipes]
        for process in processes:
            process.join()
    return median(max(of_round) for of_round in zip(*seconds, strict=True))


def lay_out(folder: Path, peers: int, shape: tuple[int, int]) -> tuple[Federation, dict[str, Path]]:
    """A federation of agents on loopback."""
    folders = {f"agent-{number}": folder / f"agent-{number}" for number in range(peers)}
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(peers)]
    for (agent, place), one in zip(folders.items(), sockets, strict=True):
        make_keys(place, agent, f"127.0.0.1:{one.getsockname()[1]}", folder / "ca")
        one.close()
    members = tuple(parse_member((place / "member.toml").read_text(), agent) for agent, place in folders.items())
    classes = tuple(str(number) for number in range(shape[1]))
    return Federation("bench", "0", classes, shape[0], fingerprint(np.zeros(1)), 120.0, peers, {}, members), folders


def take_part(federation: Federation, agent: str, folder: Path, rounds: int, pipe: Connection) -> None:
    """One process: exchanges random predictions, and tells the seconds of each round after the first."""
    place = folder / "keys"
    log = AuditLog(folder / "audit.jsonl")
    tls = Tls(place / "tls.key", place / "tls.crt", place / "ca.crt")
    signing = keys.read_signing_key(place / "signing.key")
    address = federation.member(agent).address
    mesh = Mesh(federation, agent, signing, tls, folder, log, lambda text: None, address)
    draw = np.random.default_rng(0)
    samples, classes = federation.shared_samples, len(federation.classes)
    f = draw.dirichlet(np.ones(classes), samples).astype(np.float32)
    mesh.meet()
    seconds = []
    for number in range(1, rounds + 2):
        began = time.perf_counter()
        mesh.gather(number, {agent: f})
        seconds.append(time.perf_counter() - began)
    pipe.send(seconds[1:])
    mesh.finish()
    mesh.close()


def in_memory(peers: int, shape: tuple[int, int]) -> float:
    """Median seconds of a round within one process."""
    spoken = {str(number): np.zeros(shape, dtype=np.float32) for number in range(peers)}
    exchange, seconds = InMemory(tuple(spoken)), []
    for number in range(1, 6):
        began = time.perf_counter()
        exchange.gather(number, spoken)
        seconds.append(time.perf_counter() - began)
    return median(seconds)


def main() -> None:
    """Prints a table."""
    print("| predictions of an agent | peers | in memory | Zenoh, mutual TLS | all traffic in a round |")
    print("|---|---:|---:|---:|---:|")
    for size, shape in SIZES.items():
        for peers in PEERS:
            total = peers * (peers - 1) * 4 * shape[0] * shape[1]
            rounds = 7 if total < 1e9 else 2
            memory, mesh = in_memory(peers, shape), measure(peers, shape, rounds)
            print(
                f"| {size} | {peers} | {memory * 1e6:.0f} µs | {mesh * 1e3:.0f} ms | {total / 1e6:.1f} MB |", flush=True
            )


if __name__ == "__main__":
    main()
