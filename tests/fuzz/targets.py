"""What is fuzzed: every reader of something that a peer, a disk or an editor may have damaged.

A target has good inputs and a function that reads one. The function may return, or raise a ConsilienceError; anything
else is a crash. Where a damaged input can be told from a good one, the function says so by an AssertionError.
"""

import io
import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience import toml
from consilience.data.files import read_features, read_labelled
from consilience.errors import ConsilienceError
from consilience.federation.claim import _used
from consilience.federation.peers import keys
from consilience.federation.peers.audit import AuditLog, broken_at, read_audit, suspicious_peers
from consilience.federation.peers.federation import Federation, Member, fingerprint
from consilience.federation.peers.frame import HEADER, NONCE, STATUS, Format
from consilience.federation.peers.outside import (
    differences_from,
    federation_from,
    frame_from,
    member_from,
    question_from,
    receipts_from,
    shown,
    status_from,
)
from consilience.federation.site import Site, read_site
from consilience.options import to_table
from consilience.runtime import checkpoint
from consilience.runtime.run import Run, load_run
from consilience.runtime.summary import AgentSummary, Summary, summary_from
from consilience.settings.presets import settings_of
from consilience.settings.settings import Settings

SIGNING = [Ed25519PrivateKey.from_private_bytes(bytes([number + 1]) * 32) for number in range(4)]
SHARED = np.arange(12, dtype=np.float32).reshape(6, 2)
F = np.full((6, 2), 0.5, np.float32)
N = bytes(range(NONCE))


@dataclass(frozen=True)
class Target:
    """A reader under test."""

    good: list[bytes]
    read: Callable[[bytes], object]
    weight: int = 1
    """How often it is chosen."""
    remake: Callable[[bytes, random.Random], bytes] = lambda data, draw: data
    """What a hostile member does with a damaged input, such as to sign it."""


def targets(scratch: Path) -> dict[str, Target]:
    """All targets; files are written into the folder `scratch`."""
    found = _from_peers()
    found |= _texts(scratch)
    found |= _tables(scratch)
    found |= _run_folder(scratch)
    return found


def federation() -> Federation:
    roster = tuple(
        Member(name, f"localhost:{7000 + place}", f"cn-{name}", keys.public_key(key))
        for place, (name, key) in enumerate(zip("abcd", SIGNING, strict=True))
    )
    settings = {"run": {"rounds": 9}, "method": {"lam": 0.5}}
    return Federation("trial", "1", ("no", "yes"), 6, fingerprint(SHARED), 4.0, 3, settings, roster)


def _from_peers() -> dict[str, Target]:
    agreed = federation()
    format = Format(agreed)
    receipt = frame_from(format, format.pack(SIGNING[2], 2, 4, 7, {}, F), 2, 4).receipt
    frames = [format.pack(SIGNING[1], 1, 5, 8, {2: receipt}, F), format.pack(SIGNING[1], 1, 5, 9, {}, F)]
    status = format.pack_status(SIGNING[1], 1, 5, 99.5, N)

    def frame(data: bytes) -> None:
        found = frame_from(format, data, 1, 5)
        assert data in frames or found.receipt.signature != data[-64:], "a damaged frame was accepted"

    def signed_frame(data: bytes) -> None:
        found = frame_from(format, data, 1, 5)
        assert np.isfinite(found.predictions).all() and found.predictions.shape == (6, 2)
        for one in found.others:
            format.is_genuine(one)

    def sign_frame(data: bytes, draw: random.Random) -> bytes:
        """A hostile member's frame: whatever content, of the right length and with its signature."""
        body = (data + bytes(format.length))[: format.length - 64]
        if draw.random() < 0.8:
            body = frames[0][: HEADER.size] + body[HEADER.size :]
        parts = body[HEADER.size :]
        from consilience.federation.peers.frame import hash_of

        message = body[: HEADER.size] + hash_of(parts[: format.receipts]) + hash_of(parts[format.receipts :])
        return body + SIGNING[1].sign(message)

    def sign_status(data: bytes, draw: random.Random) -> bytes:
        body = (data + bytes(STATUS.size))[: STATUS.size]
        body = body[:-NONCE] + N if draw.random() < 0.8 else body
        return body + SIGNING[1].sign(body)

    def question(data: bytes) -> None:
        key, _, parameters = data.decode("utf-8", "replace").partition("?")
        question_from(key, parameters, "a", "agent", "abcd")

    def plain_status(data: bytes) -> None:
        status_from(format, data, 1, N)
        assert data == status, "a damaged status was accepted"

    asked = [f"consilience/a/b/agent/{topic}?nonce={N.hex()}".encode() for topic in ("status", "round/5", "receipts/5")]
    return {
        "frame": Target(frames, frame, 24),
        "frame, signed by its sender": Target([one[:-64] for one in frames], signed_frame, 16, sign_frame),
        "status": Target([status], plain_status, 16),
        "status, signed by its sender": Target(
            [status[:-64]], lambda data: status_from(format, data, 1, N), 6, sign_status
        ),
        "receipts": Target([format.pack_receipts({2: receipt})], lambda data: receipts_from(format, data), 24),
        "question": Target(asked, question, 24),
        "text to show": Target([b"5: \x1b[31m", b"x" * 500], lambda data: _plain(shown(data.decode("latin-1"))), 4),
        "federation of a peer": Target(
            [agreed.to_toml().encode(), replace(agreed, deadline=5.0).to_toml().encode()],
            lambda data: differences_from(agreed, data),
            2,
        ),
    }


def _plain(text: str) -> None:
    assert text.isprintable() and len(text) < 4000


def _texts(scratch: Path) -> dict[str, Target]:
    member = toml.dump(to_table(federation().roster[0])).encode()
    site = toml.dump(to_table(Site("a", model="forest", data="patients.csv"))).encode()
    config = Settings().to_toml().encode()
    folder = scratch / "configured"
    folder.mkdir()
    summary = _summary().to_json().encode()
    return {
        "member.toml": Target([member], lambda data: member_from(data, "member.toml"), 3),
        "federation.toml": Target([federation().to_toml().encode()], lambda data: federation_from(data, "it"), 2),
        "site.toml": Target([site], _with_file(scratch / "site.toml", read_site), 1),
        "config.toml": Target([config], _with_file(folder / "config.toml", lambda path: settings_of(path.parent)), 1),
        "summary.json": Target([summary], lambda data: summary_from(data.decode("utf-8", "replace")), 4),
        "used-epochs.json": Target([b'{"00": "11"}'], _with_file(scratch / "used.json", _used), 2),
        "audit.jsonl": Target([_log(scratch)], _with_file(scratch / "audit.jsonl", _audited), 1),
    }


def _log(scratch: Path) -> bytes:
    path = scratch / "good.jsonl"
    log = AuditLog(path, SIGNING[0])
    log.add("start", agent="a")
    log.add("sent", round=1, hash="00")
    log.add("round", round=1, heard={"b": "00"}, absent=["c"])
    log.add("suspicious", round=2, agent="b", sign="stale", of="")
    log.close()
    return path.read_bytes()


def _audited(path: Path) -> None:
    read_audit(path)
    suspicious_peers(path)
    broken_at(path, keys.public_key(SIGNING[0]))


def _tables(scratch: Path) -> dict[str, Target]:
    table = pd.DataFrame({"age": [1.0, 2.0, 3.0], "pressure": [2.0, 3.0, 4.0], "label": [0, 1, 0]})
    x, y = table[["age", "pressure"]].to_numpy(np.float32), table["label"].to_numpy()
    plain, packed, one, parquet = (io.BytesIO() for _ in range(4))
    np.savez(plain, x=x, y=y)
    np.savez_compressed(packed, x=x, y=y)
    np.save(one, x)
    table.to_parquet(parquet, index=False)

    def labelled(path: Path) -> object:
        return read_labelled(path, "label", ("no", "yes"), [])

    return {
        "data.npz": Target([plain.getvalue()], _with_file(scratch / "data.npz", labelled), 2),
        "packed data.npz": Target([packed.getvalue()], _with_file(scratch / "packed.npz", labelled), 2),
        "data.npy": Target([one.getvalue()], _with_file(scratch / "data.npy", read_features), 2),
        "data.csv": Target([table.to_csv(index=False).encode()], _with_file(scratch / "data.csv", labelled), 1),
        "data.parquet": Target([parquet.getvalue()], _with_file(scratch / "data.parquet", labelled), 1),
    }


def _summary() -> Summary:
    agents = [AgentSummary(name, "forest", 10, class_counts=[5, 5]) for name in "ab"]
    return Summary("dynamic", "consensus", "classification", 2, 1, 6, agents, ["no", "yes"], "t", 0, "00", seconds=1.0)


def _run_folder(scratch: Path) -> dict[str, Target]:
    """A finished run, of which one file is damaged: it must be refused, unless nothing was changed."""
    folder = scratch / "run"
    metrics = pd.DataFrame({"round": [1, 1, 2, 2], "agent": list("abab"), "accuracy_target": [0.5, 0.6, 0.7, 0.8]})
    Run(metrics, np.ones((1, 2, 2)) / 2, np.array([2]), _summary()).save(folder)
    checkpoint.write(folder / "checkpoint", 2, {"a": np.arange(5.0)})
    saved = next((folder / "checkpoint").iterdir())
    found = {}
    for path in (
        folder / "metrics.parquet",
        folder / "trust.npz",
        folder / "summary.json",
        folder / "SHA256SUMS",
        saved,
    ):
        good = path.read_bytes()

        def read(data: bytes, path: Path = path, good: bytes = good) -> None:
            path.write_bytes(data)
            try:
                if path == saved:
                    checkpoint.read(folder / "checkpoint")
                else:
                    load_run(folder)
                same = data == good or (path.name == "SHA256SUMS" and data.split() == good.split())
                assert same or path.name == "SHA256SUMS", "a damaged run was accepted"
            finally:
                path.write_bytes(good)

        found[f"{'checkpoint' if path == saved else path.name} of a run"] = Target([good], read, 1)
    return found


def _with_file(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def reading(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return reading


def crash_of(target: Target, data: bytes) -> Exception | None:
    """What a reader does that it must not do with this input; None if all is well."""
    try:
        target.read(data)
    except ConsilienceError:
        return None
    except Exception as error:
        return error
    return None


def with_scratch(use: Callable[[dict[str, Target]], Any]) -> Any:
    """Calls `use` with all targets and a scratch folder of its own, in memory where there is one."""
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        return use(targets(Path(scratch)))


def kept(folder: Path) -> list[tuple[str, bytes]]:
    """The crashes that were found once: the name of the target, and the input."""
    found = []
    for path in sorted(folder.glob("*.json")):
        entry = json.loads(path.read_text())
        found.append((entry["target"], bytes.fromhex(entry["input"])))
    return found
