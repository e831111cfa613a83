"""Readers of single files: texts, logs, keys and tables."""

import io
from pathlib import Path

import numpy as np
import pandas as pd

from consilience.base import toml
from consilience.base.options import to_table
from consilience.data.files import read_features, read_labelled
from consilience.federation.peers import keys
from consilience.federation.peers.audit import (
    AuditLog,
    broken_at,
    bytes_sent,
    incidents,
    read_audit,
    suspicious_peers,
)
from consilience.federation.peers.change import Change, apply_changes
from consilience.federation.peers.federation import Federation, Member
from consilience.federation.peers.untrusted_input import table_from
from consilience.federation.remote_prediction_server import answered_today
from consilience.federation.run_lock import _used
from consilience.federation.site import Site, read_site
from consilience.privacy.accountants import LedgerEntry, used
from consilience.privacy.ledger import LedgerFile
from consilience.privacy.ledger_files import LedgerOwner
from consilience.runtime.summary import AgentSummary, Summary, summary_from
from consilience.settings.presets import settings_of, write_config
from consilience.settings.settings import Settings
from tests.federation.peers.conftest import SIGNING, federation_of
from tests.fuzz.target import Target, with_file


def texts(scratch: Path) -> dict[str, Target]:
    agreed = federation_of()
    member = toml.dump(to_table(agreed.roster[0])).encode()
    site = toml.dump(to_table(Site("a", model="forest", data="patients.csv"))).encode()
    config = Settings().to_toml().encode()
    folder = scratch / "configured"
    folder.mkdir()
    change = Change(agreed.identity().hex(), ("d",), (), {})
    for name, key in zip("abc", SIGNING, strict=False):
        change = change.with_signature(agreed, name, key)

    def changed(data: bytes) -> None:
        read = table_from(Change, data, "change.toml")
        read.check(agreed)
        assert read.message() == change.message(), "a change that nobody signed was accepted"
        apply_changes([read], agreed)

    def configured(path: Path) -> None:
        settings_of(path.parent)
        write_config(Settings(), path.parent)

    return {
        "member.toml": Target([member], lambda data: table_from(Member, data, "member.toml")),
        "federation.toml": Target([agreed.to_toml().encode()], lambda data: table_from(Federation, data, "it")),
        "change.toml": Target([change.to_toml().encode()], changed),
        "site.toml": Target([site], with_file(scratch / "site.toml", read_site)),
        "config.toml": Target([config], with_file(folder / "config.toml", configured)),
        "summary.json": Target(
            [summary().to_json().encode()], lambda data: summary_from(data.decode("utf-8", "replace"))
        ),
        "used-epochs.json": Target([b'{"00": "11"}'], with_file(scratch / "used.json", _used)),
    }


def summary() -> Summary:
    agents = [AgentSummary(name, "forest", 10, class_counts=[5, 5]) for name in "ab"]
    return Summary("paper", "consensus", "classification", 2, 1, 6, agents, ["no", "yes"], "t", 0, "00", seconds=1.0)


def logs(scratch: Path) -> dict[str, Target]:
    path = scratch / "good.jsonl"
    log = AuditLog(path, SIGNING[0])
    log.add("start", agent="a")
    log.add("sent", round=1, bytes=500, hash="00")
    log.add("round", round=1, heard={"b": "00"}, absent=["c"])
    log.add("late", round=1, agent="c", now=2)
    log.add("rejected", round=2, agent="b", bytes=3, reason="wrong length")
    log.add("suspicious", round=2, agent="b", sign="stale", of="")
    log.add("jump", round=2, to=4)
    log.add("answered", agent="b", samples=3, question="00", bytes=5)
    log.close()
    good = path.read_bytes()

    def audited(path: Path) -> None:
        for read in (read_audit, suspicious_peers, bytes_sent, incidents):
            read(path)
        data = path.read_bytes()
        if broken_at(path, keys.public_key(SIGNING[0])) is None and data.endswith(b"\n"):  # otherwise it is cut
            assert good.startswith(data), "a rewritten log was taken for a whole one"

    rows = np.arange(80.0).reshape(20, 4) ** 2
    owner = LedgerOwner(keys.public_key(SIGNING[0]), SIGNING[0].sign, keys.is_signed)
    ledger = LedgerFile(scratch / "ledger", rows, owner)
    for number in (1, 2):
        ledger.add("run", LedgerEntry(number, 0.5, 2.0, 10))
    ledger.close()

    def spent(path: Path) -> None:
        opened = LedgerFile(path.parent, rows, owner)
        try:
            used(opened.entries)
            opened.attempts("run", 1)
        finally:
            opened.close()

    return {
        "audit.jsonl": Target([good], with_file(scratch / "audit.jsonl", audited)),
        "answered.jsonl": Target([good], with_file(scratch / "answered.jsonl", answered_today)),
        "privacy ledger": Target([ledger.path.read_bytes()], with_file(ledger.path, spent)),
    }


def keyrings(scratch: Path) -> dict[str, Target]:
    keys.new_signing_key(scratch / "signing.key")
    keys.new_authority(scratch / "ca")
    keys.issue_certificate(scratch / "ca", scratch / "site", "a", "localhost")
    return {
        "signing.key": Target(
            [(scratch / "signing.key").read_bytes()], with_file(scratch / "signing.key", keys.read_signing_key)
        ),
        "tls.crt": Target(
            [(scratch / "site" / "tls.crt").read_bytes()], with_file(scratch / "tls.crt", keys.read_certificate)
        ),
    }


def tables(scratch: Path) -> dict[str, Target]:
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
        "data.npz": Target([plain.getvalue()], with_file(scratch / "data.npz", labelled)),
        "packed data.npz": Target([packed.getvalue()], with_file(scratch / "packed.npz", labelled)),
        "data.npy": Target([one.getvalue()], with_file(scratch / "data.npy", read_features)),
        "data.csv": Target([table.to_csv(index=False).encode()], with_file(scratch / "data.csv", labelled)),
        "data.parquet": Target([parquet.getvalue()], with_file(scratch / "data.parquet", labelled)),
    }
