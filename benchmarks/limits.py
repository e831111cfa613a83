"""What this machine can do at most, and how near parts of a round are."""

import datetime
import os
import socket
import ssl
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.timing import TURNS, ranged, table, turns
from consilience.agents import networks
from consilience.agents.local_agents import LocalAgents
from consilience.agents.torch_agent import TorchAgent
from consilience.base.files import write_atomically
from consilience.core.labels import pseudo_labels
from consilience.core.trust import entropy_trust

SIDE, MEGABYTES = 1024, 256
AGENTS, SAMPLES, EPOCHS = 16, 128, 5
TRUST = (100, 1000, 100)
CHECKPOINT = 1_000_000


def run() -> str:
    """The section on limits."""
    torch.set_num_threads(1)
    with threadpool_limits(1):
        rates = {
            "matrix products, one core (1024 x 1024)": (_products(), 1e-9, "GFLOP/s"),
            "memory, one core (copies of 256 MB, read and written)": (_memory(), 1e-9, "GB/s"),
            "`fsync` of a file of 4 kB": (_fsync(4096), 1e3, "ms"),
            "TLS 1.3, encrypted, sent over loopback and decrypted by one core": (tls_rates(), 1e-6, "MB/s"),
        }
        products, memory, fsync, _ = (median(values) for values, _, _ in rates.values())
        training, trust, writing = _training(), _trust(), _writing()
    rows = [[name, ranged(values, scale, unit)] for name, (values, scale, unit) in rates.items()]
    agents, samples, classes = TRUST
    parts = [
        ["training, 16 networks 64-64-10 together", "matrix products", *_share(training, products, 1e-9, "GFLOP/s")],
        [
            f"trust and pseudo-labels, {agents} agents x {samples} samples x {classes} classes",
            "matrix products",
            *_share(trust, products, 1e-9, "GFLOP/s"),
        ],
        [
            f"a checkpoint of {CHECKPOINT / 1e6:.0f} MB",
            "two `fsync`, and its bytes through memory",
            ranged(writing, 1e3, "ms"),
            f"{(2 * fsync + 2 * CHECKPOINT / memory) / median(writing):.0%}",
        ],
    ]
    return (
        "## Limits of this machine\n\n"
        + table(["limit", "measured"], rows)
        + "\nHow near parts of a round are, in one thread. What sites reach of TLS is in The exchange.\n\n"
        + table(["part", "limit", "measured", "of the limit"], parts)
    )


def _share(rates: list[float], limit: float, scale: float, unit: str) -> list[str]:
    return [ranged(rates, scale, unit), f"{median(rates) / limit:.0%}"]


def _products() -> list[float]:
    """Operations a second."""
    one, two = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)
    return [2 * SIDE**3 / seconds for seconds in turns({"": lambda: one @ two}, 15)[""]]


def _memory() -> list[float]:
    """Bytes a second."""
    one = np.ones(MEGABYTES * 2**17)
    two = np.empty_like(one)
    return [2 * one.nbytes / seconds for seconds in turns({"": lambda: np.copyto(two, one)}, 5)[""]]


def _fsync(size: int) -> list[float]:
    """Seconds."""
    with tempfile.TemporaryDirectory(dir=".") as folder, (Path(folder) / "file").open("wb", buffering=0) as file:

        def write() -> None:
            file.write(b"x" * size)
            os.fsync(file.fileno())

        return turns({"": write}, 15, time.perf_counter)[""]


def tls_rates(size: int = 2**26) -> list[float]:
    """Bytes in a second of CPU time of a thread that encrypts and one that decrypts."""
    with tempfile.TemporaryDirectory() as folder:
        path = _certificate(Path(folder))
        server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        server.load_cert_chain(path)
        client.load_verify_locations(path)
        rates = []
        for _ in range(TURNS):
            with socket.create_server(("127.0.0.1", 0)) as listening:
                thread = threading.Thread(target=_send, args=(listening, server, size), daemon=True)
                thread.start()
                plain = socket.create_connection(listening.getsockname())
                with plain, client.wrap_socket(plain, server_hostname="localhost") as connection:
                    room, left, began = bytearray(2**20), size, time.process_time()
                    while left:
                        left -= connection.recv_into(room)
                    rates.append(size / (time.process_time() - began))
                thread.join()
        return rates


def _send(listening: socket.socket, context: ssl.SSLContext, size: int) -> None:
    plain, _ = listening.accept()
    block = b"x" * 2**20
    with plain, context.wrap_socket(plain, server_side=True) as connection:
        for _ in range(size // len(block)):
            connection.sendall(block)


def _certificate(folder: Path) -> Path:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "certificate.pem"
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path


def _training() -> list[float]:
    """Operations a second of local training: three products for each layer but the first, which needs two."""
    draw = np.random.default_rng(0)
    agents = [
        TorchAgent(
            networks.mlp((64,), 10),
            draw.normal(size=(SAMPLES, 64)).astype(np.float32),
            draw.integers(0, 10, SAMPLES),
            str(number),
        )
        for number in range(AGENTS)
    ]
    team, shared = LocalAgents(agents), np.zeros((1, 64), np.float32)
    operations = 2 * (2 * 64 * 64 + 3 * 64 * 10) * SAMPLES * EPOCHS * AGENTS
    return [operations / seconds for seconds in turns({"": lambda: team.train(shared, {}, 0.0)}, 15)[""]]


def _trust() -> list[float]:
    """Operations a second of the two products G F^T and W F."""
    agents, samples, classes = TRUST
    f = np.random.default_rng(0).dirichlet(np.ones(classes), (agents, samples)).astype(np.float32)
    mixed = np.empty_like(f)
    operations = 4 * agents**2 * samples * classes
    seconds = turns({"": lambda: pseudo_labels(entropy_trust(f), f, out=mixed)}, 3)[""]
    return [operations / taken for taken in seconds]


def _writing() -> list[float]:
    """Seconds of writing a checkpoint's bytes."""
    data = bytes(CHECKPOINT)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        return turns({"": lambda: write_atomically(Path(folder) / "file", data)}, 15, time.perf_counter)[""]
