"""Latency of the exchange per round: in memory, over workers, and between sites over Zenoh with mutual TLS."""

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.limits import tls_rates
from benchmarks.timing import ms, ranged, table
from consilience.federation.peers import keys
from consilience.federation.peers.audit import AuditLog
from consilience.federation.peers.federation import Federation, fingerprint
from consilience.federation.peers.ports import free_addresses
from consilience.federation.peers.site_exchange import SiteExchange
from consilience.federation.peers.untrusted_input import read_member
from consilience.federation.peers.zenoh_config import Tls

SIZES = {"40 kB": (1000, 10), "1.2 MB": (3000, 100), "12 MB": (30_000, 100)}
CASES = [(2, "40 kB"), (2, "12 MB"), (5, "1.2 MB"), (10, "40 kB"), (10, "1.2 MB"), (20, "40 kB")]


def run() -> str:
    """The section on the exchange."""
    rows, tls = [], median(tls_rates())
    for agents, size in CASES:
        shape = SIZES[size]
        traffic = agents * (agents - 1) * 4 * shape[0] * shape[1]
        workers = _over_workers(agents, {size: shape})[size]
        sites, cpu = _between_sites(agents, shape, 7 if traffic < 1e9 else 3)
        rate = ranged([traffic / seconds for seconds in sites], 1e-6, "MB/s")
        share = ranged([traffic / tls / agents / seconds for seconds in cpu], 100, "%")
        rows.append([f"{agents} x {size}", ms(workers), ms(sites), ms(cpu), f"{traffic / 1e6:,.1f} MB", rate, share])
    head = ["agents x predictions", "over workers", "between sites", "CPU of a site", "predictions sent", "a second"]
    return (
        "## The exchange\n\n"
        "Time of one exchange, that of the slowest agent; the range is over rounds after the first. Over workers: one "
        "process an agent, gloo. Between sites: one process a site, Zenoh with mutual TLS on loopback; signing, "
        "checking, the stored frame and the audit log on disk are included. All sites share this machine. The last "
        "column is the share of their CPU time that TLS alone would need for these bytes.\n\n"
        + table([*head, "TLS alone"], rows)
    )


def _over_workers(agents: int, sizes: dict[str, tuple[int, int]]) -> dict[str, list[float]]:
    """Seconds by size of the predictions."""
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{folder}/meeting"
        answers = _in_processes(_worker, [(number, agents, sizes, meeting) for number in range(agents)])
    return {size: [max(times) for times in zip(*(a[size] for a in answers), strict=True)] for size in sizes}


def _worker(number: int, agents: int, sizes: dict[str, tuple[int, int]], meeting: str, pipe: Connection) -> None:
    from consilience.workers.group import WorkerGroup, join, leave

    join(number, agents, meeting)
    roster = tuple(str(agent) for agent in range(agents))
    group = WorkerGroup([[name] for name in roster], number, roster)
    seconds: dict[str, list[float]] = {}
    for size, shape in sizes.items():
        for _ in range(6):
            predictions = {roster[number]: np.zeros(shape, dtype=np.float32)}
            began = time.perf_counter()
            group.all_predictions(predictions)
            seconds.setdefault(size, []).append(time.perf_counter() - began)
    pipe.send({size: times[1:] for size, times in seconds.items()})
    pipe.recv()
    leave()


def _between_sites(agents: int, shape: tuple[int, int], rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of exchanges, and of CPU time that sites need for one."""
    with tempfile.TemporaryDirectory() as name:
        federation, folders = _lay_out(Path(name), agents, shape)
        answers = _in_processes(_site, [(federation, agent, folder, rounds) for agent, folder in folders.items()])
    seconds, cpu = zip(*answers, strict=True)
    return [max(times) for times in zip(*seconds, strict=True)], [one for times in cpu for one in times]


def _lay_out(folder: Path, agents: int, shape: tuple[int, int]) -> tuple[Federation, dict[str, Path]]:
    from consilience.federation.membership import make_keys

    folders = {f"agent-{number}": folder / f"agent-{number}" for number in range(agents)}
    for (agent, place), address in zip(folders.items(), free_addresses(agents), strict=True):
        make_keys(place, agent, address, folder / "ca")
    members = tuple(read_member(place / "member.toml") for place in folders.values())
    classes = tuple(str(number) for number in range(shape[1]))
    return Federation("bench", "0", classes, shape[0], fingerprint(np.zeros(1)), 120.0, agents, {}, members), folders


def _site(federation: Federation, agent: str, folder: Path, rounds: int, pipe: Connection) -> None:
    place = folder / "keys"
    tls = Tls(place / "tls.key", place / "tls.crt", place / "ca.crt")
    signing = keys.read_signing_key(place / "signing.key")
    log = AuditLog(folder / "audit.jsonl", signing)
    address = federation.member(agent).address
    mesh = SiteExchange(federation, agent, signing, tls, folder, log, lambda text: None, address)
    samples, classes = federation.shared_samples, len(federation.classes)
    draw = np.random.default_rng(federation.names.index(agent))  # who says the same as another, or twice, is suspicious
    said = [draw.dirichlet(np.ones(classes), samples).astype(np.float32) for _ in range(rounds + 1)]
    mesh.wait_for_peers()
    seconds, cpu = [], []
    for number, f in enumerate(said, 1):
        began, worked = time.perf_counter(), time.process_time()
        mesh.gather(number, {agent: f})
        seconds.append(time.perf_counter() - began)
        cpu.append(time.process_time() - worked)
    pipe.send((seconds[1:], cpu[1:]))
    pipe.recv()
    mesh.finish()
    mesh.close()


def _in_processes(target: Callable[..., None], arguments: list[tuple[Any, ...]]) -> list[Any]:
    """What each process sends, all of them running at once; none ends before the last has sent it."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for some in arguments:
        here, there = context.Pipe()
        processes.append(context.Process(target=target, args=(*some, there), daemon=True))
        processes[-1].start()
        there.close()
        pipes.append(here)
    answers = [pipe.recv() for pipe in pipes]
    for pipe in pipes:
        pipe.send(None)
    for process in processes:
        process.join()
    return answers
