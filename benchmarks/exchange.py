"""Latency of the exchange per round: over workers, and between sites over direct links or a relay."""

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benchmarks.limits import tls_rates
from benchmarks.timing import ms, over, ranged, table
from consilience.federation.membership import make_keys
from consilience.federation.peers import keys, sealing
from consilience.federation.peers.audit import AuditLog
from consilience.federation.peers.federation import Federation, fingerprint
from consilience.federation.peers.network import Network
from consilience.federation.peers.ports import free_addresses
from consilience.federation.peers.relay import Relay, trial_certificate
from consilience.federation.peers.sealing import Sealer
from consilience.federation.peers.site_exchange import SiteExchange
from consilience.federation.peers.untrusted_input import read_member
from consilience.federation.peers.zenoh_config import Tls

SIZES = {"40 kB": (1000, 10), "1.2 MB": (3000, 100), "12 MB": (30_000, 100)}
CASES = [(2, "40 kB"), (2, "12 MB"), (5, "1.2 MB"), (10, "40 kB"), (10, "1.2 MB"), (20, "40 kB")]
RELAYED = [(10, "40 kB"), (10, "1.2 MB")]
ID = "0"
TURNS, ROUNDS = 3, 7


class Exchanges(NamedTuple):
    """Times of a few exchanges."""

    seconds: list[float]
    """Of each, until the slowest site had closed it."""
    cpu: list[float]
    """CPU seconds of each site in each."""
    sealing: list[float]
    """The share of them in which messages are sealed and opened."""
    checking: list[float]
    """The share in which signatures of messages are checked; those of frames are not among them."""
    relay: float
    """CPU seconds of the relay for each."""

    @property
    def whole(self) -> float:
        """CPU seconds of all processes for one exchange."""
        return sum(self.cpu) / len(self.seconds) + self.relay


def run() -> str:
    """The section on the exchange."""
    rows, tls = [], median(tls_rates())
    for agents, size in CASES:
        shape = SIZES[size]
        traffic = agents * (agents - 1) * 4 * shape[0] * shape[1]
        workers = _over_workers(agents, {size: shape})[size]
        sites = between_sites(agents, shape, ROUNDS if traffic < 1e9 else 3)
        rate = ranged([traffic / seconds for seconds in sites.seconds], 1e-6, "MB/s")
        share = ranged([traffic / tls / agents / seconds for seconds in sites.cpu], 100, "%")
        shares = [share, ranged(sites.sealing, 100, "%"), ranged(sites.checking, 100, "%")]
        times = [ms(workers), ms(sites.seconds), ms(sites.cpu)]
        rows.append([f"{agents} x {size}", *times, f"{traffic / 1e6:,.1f} MB", rate, *shares])
    head = ["agents x predictions", "over workers", "between sites", "CPU of a site", "predictions sent", "a second"]
    relayed = [_relayed(agents, size) for agents, size in RELAYED]
    return (
        "## The exchange\n\n"
        "Time of one exchange, that of the slowest agent; the range is over rounds after the first. Over workers: one "
        "process an agent, gloo. Between sites: one process a site, direct links (Zenoh with mutual TLS) on loopback; "
        "sealing, checking, the stored frame and the audit log on disk are included. All sites share this machine. The "
        "last columns are shares of their CPU time: what TLS alone would need for these bytes, sealing and opening "
        "messages, and checking their signatures.\n\n"
        + table([*head, "TLS alone", "sealing", "signatures"], rows)
        + f"\nThrough a relay, which takes turns with direct links, {TURNS} times. "
        "The relay runs on this machine, too. CPU is that of all processes for one exchange, the relay's included.\n\n"
        + table(["round", "direct", "relay", "relay / direct", "CPU, direct", "CPU, relay", "relay / direct"], relayed)
    )


def _relayed(agents: int, size: str) -> list[str]:
    """A row: both carriers, turn by turn."""
    turns = [
        [between_sites(agents, SIZES[size], ROUNDS, carrier) for carrier in ("direct", "relay")] for _ in range(TURNS)
    ]
    seconds = [[median(exchanges.seconds) for exchanges in each] for each in zip(*turns, strict=True)]
    cpu = [[exchanges.whole for exchanges in each] for each in zip(*turns, strict=True)]
    cells = [[*map(ms, each), ranged(over(each[1], each[0]))] for each in (seconds, cpu)]
    return [f"{agents} x {size}", *cells[0], *cells[1]]


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


def between_sites(agents: int, shape: tuple[int, int], rounds: int, carrier: str = "direct") -> Exchanges:
    """Exchanges between sites, one process each; a relay is in this process."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        federation, folders = _lay_out(Path(name), agents, shape)
        network = Network("direct")
        began = time.process_time()
        if carrier == "relay":
            address = free_addresses(1)[0]
            relay = Relay(address, [ID], *trial_certificate(Path(name) / "ca", "127.0.0.1"))
            stack.callback(relay.close)
            network = Network("relay", relays=(address,))
        sites = [(federation, agent, folder, rounds, network) for agent, folder in folders.items()]
        answers = _in_processes(_site, sites)
        own = (time.process_time() - began) / (rounds + 1) if carrier == "relay" else 0.0
    seconds, *others = ([exchanges[index] for exchanges in answers] for index in range(4))
    slowest = [max(times) for times in zip(*seconds, strict=True)]
    cpu, sealing, checking = ([time for times in each for time in times] for each in others)
    return Exchanges(slowest, cpu, sealing, checking, own)


def _lay_out(folder: Path, agents: int, shape: tuple[int, int]) -> tuple[Federation, dict[str, Path]]:
    folders = {f"agent-{number}": folder / f"agent-{number}" for number in range(agents)}
    for (agent, site), address in zip(folders.items(), free_addresses(agents), strict=True):
        make_keys(site, agent, address, folder / "ca")
    members = tuple(read_member(site / "member.toml") for site in folders.values())
    classes = tuple(str(number) for number in range(shape[1]))
    return Federation("bench", ID, classes, shape[0], fingerprint(np.zeros(1)), 120.0, agents, {}, members), folders


def _site(federation: Federation, agent: str, folder: Path, rounds: int, network: Network, pipe: Connection) -> None:
    keys_folder = folder / "keys"
    own = keys.SiteKeys(
        keys.read_signing_key(keys_folder / "signing.key"), keys.read_encryption_key(keys_folder / "encryption.key")
    )
    tls = Tls(keys_folder / "tls.key", keys_folder / "tls.crt", keys_folder / "ca.crt")
    network = Network(network.carrier, tls, federation.member(agent).address, network.relays)
    in_sealer, in_checks = _count(Sealer, "seal", "open"), _count(sealing, "is_signed")
    log = AuditLog(folder / "audit.jsonl", own.signing)
    exchange = SiteExchange(federation, agent, own, network, folder, log, lambda text: None)
    samples, classes = federation.shared_samples, len(federation.classes)
    draw = np.random.default_rng(federation.names.index(agent))  # equal or repeated predictions are suspicious
    predictions = [draw.dirichlet(np.ones(classes), samples).astype(np.float32) for _ in range(rounds + 1)]
    exchange.wait_for_peers()
    measured = []
    for number, f in enumerate(predictions, 1):
        began, worked = time.perf_counter(), time.process_time()
        in_sealer.clear()
        in_checks.clear()
        exchange.gather(number, {agent: f})
        seconds, cpu, checking = time.perf_counter() - began, time.process_time() - worked, sum(in_checks)
        measured.append((seconds, cpu, (sum(in_sealer) - checking) / cpu, checking / cpu))
    pipe.send(list(zip(*measured[1:], strict=True)))
    pipe.recv()
    exchange.close()


def _count(owner: Any, *names: str) -> list[float]:
    """CPU seconds of each call of these functions in this process, from now on."""
    spent: list[float] = []
    for name in names:
        function = getattr(owner, name)

        def counted(*arguments: Any, function: Callable[..., Any] = function) -> Any:
            began = time.thread_time()
            try:
                return function(*arguments)
            finally:
                spent.append(time.thread_time() - began)

        setattr(owner, name, counted)
    return spent


def _in_processes(target: Callable[..., None], arguments: list[tuple[Any, ...]]) -> list[Any]:
    """What each process sends, all of them running at once; none ends before the last has sent it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
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
