"""Readers of folders, of which one file is damaged: it must be refused, unless it says the same."""

import json
import random
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from consilience.agents.sklearn_agent import SklearnAgent
from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows
from consilience.data.columns import read_columns
from consilience.data.preprocess import table_preprocessing
from consilience.export.folder import export_agent, load_model
from consilience.export.manifest import checksum
from consilience.federation.peers.folder_carrier import FolderCarrier, FolderRequest, WatchedPeer
from consilience.federation.peers.frame import NONCE, Format
from consilience.federation.peers.outbox import Outbox
from consilience.federation.peers.sealing import Kind
from consilience.federation.run_lock import lock_run_folder
from consilience.report.page import audit_of
from consilience.runtime import checkpoint
from consilience.runtime.checkpoint import write_sums
from consilience.runtime.run import Run, load_run
from tests.federation.peers.conftest import SHARED, SITE_KEYS, F, federation_of, sealer
from tests.fuzz.files import summary
from tests.fuzz.target import Target, damaged, resealed, with_file


def run_folders(scratch: Path) -> dict[str, Target]:
    folder, old = scratch / "run", scratch / "old"
    metrics = pd.DataFrame({"round": [1, 1, 2, 2], "agent": list("abab"), "accuracy_target": [0.5, 0.6, 0.7, 0.8]})
    run = Run(metrics, np.ones((1, 2, 2)) / 2, np.array([2]), summary())
    for one in (folder, old):
        run.save(one)
    (old / "SHA256SUMS").unlink()
    checkpoint.write(folder / "checkpoint", 2, {"a": np.arange(5.0)})
    saved = next((folder / "checkpoint").iterdir())
    found = {"checkpoint of a run": damaged(saved, lambda: checkpoint.read(folder / "checkpoint"))}
    for name in ("metrics.parquet", "trust.npz", "summary.json"):
        found[f"{name} of a run"] = damaged(folder / name, lambda: load_run(folder))
        found[f"{name} of a run without checksums"] = damaged(old / name, lambda: load_run(old), _any)
        found[f"{name} of a run, sealed again"] = resealed(folder / name, lambda: _shown(folder), lambda: _seal(folder))
    found["SHA256SUMS of a run"] = damaged(folder / "SHA256SUMS", lambda: load_run(folder), _any)
    audit = {"attacks": [], "bound": 0.5, "claimed": None, "canaries": {}}
    found["audit.json of a run"] = Target(
        [json.dumps(audit).encode()],
        with_file(old / "audit.json", lambda path: json.dumps(audit_of(path.parent), allow_nan=False)),
    )
    return found


def site_folders(scratch: Path) -> dict[str, Target]:
    """What a site has published, and whose run its folder is."""
    agreed, published, claimed = federation_of(), scratch / "published", scratch / "claimed"
    outbox = Outbox(agreed, "a", SITE_KEYS[0], published)
    frame, _ = outbox.publish(1, F, {})
    outbox.keep_receipts(1, {0: frame.receipt})
    outbox.flush()
    key = scratch / "keys" / "signing.key"
    key.parent.mkdir()
    lock_run_folder(claimed, agreed, key)

    def resumed() -> None:
        Outbox(agreed, "a", SITE_KEYS[0], published).kept_receipts()

    return {
        "frame that a site published": damaged(published / "1.frame", resumed),
        "receipts that a site kept": damaged(published / "receipts", resumed),
        "federation.toml of a run": damaged(
            claimed / "federation.toml", lambda: lock_run_folder(claimed, agreed, key), _same_federation
        ),
        "claim of a run": damaged(
            claimed / "claim",
            lambda: lock_run_folder(claimed, agreed, key),
            lambda data, good: data.strip()[:64] == good,
        ),
    }


def shared_folders(scratch: Path) -> dict[str, Target]:
    """What a member, or whoever has the folder, may make of a file through which sites exchange messages."""
    agreed = replace(federation_of(), deadline=86400.0)
    boxes = [Outbox(agreed, name, SITE_KEYS[index], scratch / name) for index, name in enumerate("ab")]
    watched = {"b": ("agent",)}
    carrier = FolderCarrier(
        str(scratch / "shared"), agreed, "a", "agent", boxes[0], sealer(agreed, "a"), watched, lambda *_: None
    )
    carrier.close()  # its thread ends; what it would do is called here
    home = scratch / "shared" / "1" / "1" / "b" / "agent"
    home.mkdir(parents=True)
    sender = sealer(agreed, "b")
    status = sender.seal(Kind.STATUS, Format(agreed).pack_status(time.time(), bytes(NONCE)), ["a"], 9)
    (home / "status").write_bytes(status)

    def look() -> None:
        peer = WatchedPeer()
        carrier._look("b", "agent", peer)
        if peer.status is None:
            raise ConsilienceError("not accepted")

    def ended(data: bytes) -> None:
        (home / "finished").write_bytes(data)
        boxes[0].finished.clear()
        carrier._try(FolderRequest("b", "agent", "finished", 0, 0.0, lambda data: True))
        assert not boxes[0].finished or data == status, "a damaged file was believed"

    def sealed(data: bytes, draw: random.Random) -> bytes:
        return sender.seal(draw.choice([Kind.STATUS, Kind.FRAME]), data, ["a"], draw.randrange(9))

    return {
        "status in a shared folder": damaged(home / "status", look),
        "word of the end in a shared folder": Target([status], ended),
        "word of the end in a shared folder, sealed by its sender": Target([b"", bytes(56)], ended, sealed),
    }


def exported_folders(scratch: Path) -> dict[str, Target]:
    estimator = LogisticRegression()
    agent = SklearnAgent(estimator, SHARED, np.array([0, 1, 0, 1, 0, 1]), "a", classes=2)
    agent.train(SHARED, F, 0.5)
    folder = scratch / "model"
    export_agent(agent, folder, SHARED, onnx=False)
    found: dict[str, Target] = {}
    for path in sorted(folder.iterdir()):
        if path.name != "README.md":
            same = _same_json if path.suffix == ".json" else bytes.__eq__
            found[f"{path.name} of a model"] = damaged(path, lambda: load_model(folder), same)
    return found | _sealed_models(scratch)


def _sealed_models(scratch: Path) -> dict[str, Target]:
    """Model folders that somebody made to do harm, loaded and asked to predict."""
    labels = np.array([0, 1, 0, 1, 0, 1])
    estimators: dict[str, Any] = {
        "logistic": LogisticRegression(),
        "forest": RandomForestClassifier(2, random_state=0),
        "histogram": HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=1),
        "boosted": GradientBoostingClassifier(n_estimators=2),
        "vectors": CalibratedClassifierCV(SVC(), cv=2),
        "neighbours": KNeighborsClassifier(2),
    }
    with suppress(ImportError):
        import lightgbm
        import xgboost

        estimators["xgboost"] = xgboost.XGBClassifier(n_estimators=2, max_depth=2, n_jobs=1)
        estimators["lightgbm"] = lightgbm.LGBMClassifier(n_estimators=2, verbose=-1, min_child_samples=1, n_jobs=1)
    found: dict[str, Target] = {}
    for kind, estimator in estimators.items():
        agent = SklearnAgent(estimator, np.tile(SHARED, (3, 1)), np.tile(labels, 3), "a", classes=2)
        agent.train(SHARED, F, 0.5)
        folder = scratch / kind
        export_agent(agent, folder, SHARED, onnx=False)
        found |= _sealed_model(folder, kind, SHARED)
    table = pd.DataFrame(
        {
            "age": [40.0, np.nan, 60.0, 45.0, 70.0, 80.0],
            "ward": ["a", "b", None, "a", "b", "a"],
            "admitted": ["2021-03-04", "2021-03-05", "2021-04-04", "2021-05-04", "2020-03-04", "2019-03-04"],
            "note": ["coughs badly and often", "sleeps well today", "coughs a little", "well again", "fever", "x-ray"],
        }
    )
    types = {"age": "number", "ward": "category", "admitted": "date", "note": "text"}
    agent = SklearnAgent(
        LogisticRegression(), table, labels, "a", transform=table_preprocessing(table, read_columns(table, types))
    )
    export_agent(agent, scratch / "table", table)
    return found | _sealed_model(scratch / "table", "table", table)


def _sealed_model(folder: Path, kind: str, rows: Rows) -> dict[str, Target]:
    """A target for each file of a model folder, whose checksums are made right after the damage."""
    found: dict[str, Target] = {}
    for path in sorted(folder.iterdir()):
        if path.name == "README.md":
            continue
        read, seal = partial(_predicted, folder, rows), partial(_seal_model, folder)
        good = _unpacked(path) if path.suffix == ".skops" else path.read_bytes()
        target = resealed(path, read, seal, good)
        found[f"{path.name} of a model ({kind}), sealed again"] = (
            replace(target, remake=_packed) if path.suffix == ".skops" else target
        )
    return found


def _unpacked(path: Path) -> bytes:
    """A zip file without compression, so that damage reaches what is in it."""
    out = BytesIO()
    with ZipFile(path) as old, ZipFile(out, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return out.getvalue()


def _packed(data: bytes, draw: random.Random) -> bytes:
    """The same zip file with right checksums of what is in it; as it is where it is none any more."""
    out = BytesIO()
    try:
        with ZipFile(BytesIO(data)) as old, ZipFile(out, "w") as new:
            for info in old.infolist():
                start = info.header_offset
                skip = 30 + int.from_bytes(data[start + 26 : start + 28], "little")
                skip += int.from_bytes(data[start + 28 : start + 30], "little")
                if info.file_size > len(data) or info.filename in new.namelist():
                    return data
                new.writestr(info.filename, data[start + skip : start + skip + info.file_size])
    except (BadZipFile, ValueError, NotImplementedError, OSError, IndexError):
        return data
    return out.getvalue()


def _predicted(folder: Path, rows: Rows) -> None:
    load_model(folder).predict(rows)


def _seal_model(folder: Path) -> None:
    """Makes the checksums of a model folder right, if its manifest can be read."""
    path = folder / "model.json"
    try:
        table = json.loads(path.read_text())
        for name in table["files"]:
            table["files"][name] = sha256((folder / name).read_bytes()).hexdigest()
        path.write_text(json.dumps(table | {"checksum": checksum(table)}))
    except (ValueError, TypeError, KeyError, OSError, RecursionError):
        return


def _seal(folder: Path) -> None:
    """Makes the checksums of a run folder right."""
    names = [line.split()[1] for line in (folder / "SHA256SUMS").read_text().splitlines()]
    write_sums(folder, {name: (folder / name).read_bytes() for name in names})


def _shown(folder: Path) -> None:
    load_run(folder)


def _any(data: bytes, good: bytes) -> bool:
    """For what cannot be told: nobody says what the file was."""
    return True


def _same_json(data: bytes, good: bytes) -> bool:
    return bool(json.loads(data) == json.loads(good))


def _same_federation(data: bytes, good: bytes) -> bool:
    from consilience.federation.peers.federation import Federation
    from consilience.federation.peers.untrusted_input import table_from

    return table_from(Federation, data, "it").identity() == table_from(Federation, good, "it").identity()
