"""Readers of folders, of which one file is damaged: it must be refused, unless it says the same."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from consilience.agents.sklearn_agent import SklearnAgent
from consilience.export.folder import export_agent, load_model
from consilience.federation.claim import claim
from consilience.federation.peers.outbox import Outbox
from consilience.report.page import audit_of
from consilience.runtime import checkpoint
from consilience.runtime.run import Run, load_run
from tests.fuzz.files import summary
from tests.fuzz.peers import SHARED, SIGNING, F, federation
from tests.fuzz.target import Target, damaged, with_file


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
    found["SHA256SUMS of a run"] = damaged(folder / "SHA256SUMS", lambda: load_run(folder), _any)
    audit = {"attacks": [], "bound": 0.5, "claimed": None, "canaries": {}}
    found["audit.json of a run"] = Target(
        [json.dumps(audit).encode()],
        with_file(old / "audit.json", lambda path: json.dumps(audit_of(path.parent), allow_nan=False)),
    )
    return found


def site_folders(scratch: Path) -> dict[str, Target]:
    """What a site has published, and whose run its folder is."""
    agreed, published, claimed = federation(), scratch / "published", scratch / "claimed"
    outbox = Outbox(agreed, "a", SIGNING[0], published)
    frame, _ = outbox.publish(1, F, {})
    outbox.heard(1, {0: frame.receipt})
    outbox.settle()
    key = scratch / "keys" / "signing.key"
    key.parent.mkdir()
    claim(claimed, agreed, key)

    def resumed() -> None:
        Outbox(agreed, "a", SIGNING[0], published).heard_before()

    return {
        "frame that a site published": damaged(published / "1.frame", resumed),
        "receipts that a site kept": damaged(published / "receipts", resumed),
        "federation.toml of a run": damaged(
            claimed / "federation.toml", lambda: claim(claimed, agreed, key), _same_federation
        ),
        "claim of a run": damaged(
            claimed / "claim", lambda: claim(claimed, agreed, key), lambda data, good: data.strip()[:64] == good
        ),
    }


def exported_folders(scratch: Path) -> dict[str, Target]:
    estimator = LogisticRegression()
    agent = SklearnAgent(estimator, SHARED, np.array([0, 1, 0, 1, 0, 1]), "a", classes=2)
    agent.train(SHARED, F, 0.5)
    folder = scratch / "model"
    export_agent(agent, folder, SHARED, onnx=False)
    found = {}
    for path in sorted(folder.iterdir()):
        if path.name != "README.md":
            same = _same_json if path.suffix == ".json" else bytes.__eq__
            found[f"{path.name} of a model"] = damaged(path, lambda: load_model(folder), same)
    return {name: replace(target, weight=1) for name, target in found.items()}


def _any(data: bytes, good: bytes) -> bool:
    """For what cannot be told: nobody says what the file was."""
    return True


def _same_json(data: bytes, good: bytes) -> bool:
    return bool(json.loads(data) == json.loads(good))


def _same_federation(data: bytes, good: bytes) -> bool:
    from consilience.federation.peers.outside import federation_from

    return federation_from(data, "it").identity() == federation_from(good, "it").identity()
