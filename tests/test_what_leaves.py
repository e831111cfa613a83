"""What an agent that promises privacy leaves behind for others: nothing exact of its private rows.

Each row of the table in docs/explanation/privacy.md, What leaves, names a test; most of them are here.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import consilience as cs
from consilience import ConsilienceError
from consilience.audit.audit import audit_run
from consilience.base.rows import fingerprint
from consilience.cli.main import app
from consilience.experiments.run import export_run, run_experiment
from consilience.export.manifest import read_manifest
from consilience.privacy.ledger import LedgerFile
from consilience.report.page import write_page
from consilience.runtime.run import load_run
from consilience.settings.presets import read_settings
from consilience.settings.wiring import build_agents, build_scenario

PRIVATE = cs.Privacy(epsilon=4, delta=1e-3)


def agents(seed=0, privacy=PRIVATE):
    """Two agents; one private row of the first is the only one of its class."""
    draw = np.random.default_rng(seed)
    made = []
    for name in "ab":
        x, y = draw.normal(size=(31, 4)).astype(np.float32), np.r_[np.arange(30) % 2, 2]
        torch.manual_seed(0)
        made.append(cs.TorchAgent(nn.Linear(4, 3), x, y, name, training=cs.Training(epochs=1), privacy=privacy))
    return made


def measured(**more):
    draw = np.random.default_rng(9)
    x, y = draw.normal(size=(20, 4)).astype(np.float32), draw.integers(0, 3, 20)
    shared = draw.normal(size=(25, 4)).astype(np.float32)
    return {"shared": shared, "own": {"a": (x, y), "b": (x, y)}, "rounds": 5, "progress": False, **more}


def texts_in(folder: Path) -> str:
    """Everything in a folder, as text."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and "checkpoint" not in path.parts]
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in files)


@pytest.mark.parametrize("privacy", [PRIVATE, None])
def test_a_model_folder_has_no_counts_no_own_scores_and_no_hash_of_private_rows(tmp_path, privacy):
    result = cs.collaborate(agents(privacy=privacy), **measured())
    result.export(tmp_path / "model", "a")
    manifest, text = read_manifest(tmp_path / "model"), texts_in(tmp_path / "model")
    told = [
        "class_counts" in manifest.training,
        "samples" in manifest.training,
        any(name.endswith("_own") for name in manifest.scores),
        result.agents[0].fingerprint() in text,
        "private samples of each class" in text,
    ]
    assert told == [privacy is None] * 5
    if privacy is not None:
        assert "for each private row" in text and "scores on an organisation's own rows are exact" in text


def test_no_hash_picks_the_right_row_when_all_others_are_known(tmp_path):
    """The attack: try every candidate for the last row, and compare hashes."""
    result = cs.collaborate(agents(), **measured())
    result.export(tmp_path / "model", "a")
    found = set(re.findall(r"[0-9a-f]{16,}", texts_in(tmp_path / "model")))
    one = result.agents[0]
    x, y = one.x.numpy(), one.y.numpy()
    for row in (x[-1], x[-1] + 1):
        guess = np.vstack([x[:-1], row])
        for parts in ((guess, y), (torch.from_numpy(guess), torch.from_numpy(y)), (guess,), (row,)):
            assert not any(fingerprint(*parts).startswith(known[:16]) for known in found)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of an experiment with private agents, and its settings."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    changes = {"agents.count": 3, "models": ["linear"], "limit": 40, "shared_per_agent": 12, "rounds": 2, "warmup": 1}
    settings = read_settings("digits", changes | {"low_quality": [], "agents.epsilon": 4.0, "delta": 1e-3})
    run_experiment(settings, folder)
    write_page(load_run(folder), folder / "report.html")
    return folder, settings


def test_summaries_metrics_and_pages_have_no_counts_and_no_hash_of_private_rows(run):
    folder, settings = run
    scenario = build_scenario(settings)
    text = texts_in(folder)
    assert all(agent.class_counts == [] and agent.privacy for agent in load_run(folder).summary.agents)
    assert '"epsilon"' in text and '"classes":null' in re.sub(r"\s", "", (folder / "report.html").read_text())
    hashes = [scenario.fingerprint(), *(agent.fingerprint() for agent in build_agents(settings, scenario))]
    hashes += [fingerprint(share.x, share.y) for share in scenario.shares.values()]
    assert not any(each[:16] in text for each in hashes)
    assert load_run(folder).summary.data == fingerprint(scenario.shared)


def test_an_exported_agent_of_an_experiment_has_none_either(run, tmp_path):
    folder, settings = run
    export_run(folder, load_run(folder).names[0], tmp_path / "model")
    manifest = read_manifest(tmp_path / "model")
    assert {"class_counts", "samples", "private_data"}.isdisjoint(manifest.training)
    assert manifest.training["data"] == fingerprint(build_scenario(settings).shared)
    assert {name.rpartition("_")[2] for name in manifest.scores} == {"shared", "target"}


def test_an_audit_of_private_agents_says_nothing_of_single_rows(run):
    folder, _ = run
    audit_run(folder)
    found = json.loads((folder / "audit.json").read_text())
    assert set(found) == {"attacks", "classes", "canaries", "bound", "claimed", "delta", "broken"}
    assert all(set(one) == {"agent", "distance", "blind"} for one in found["classes"])
    lists = [value for one in found["attacks"] for value in one.values() if isinstance(value, list)]
    assert not lists


@pytest.mark.parametrize("read", [audit_run, lambda folder: export_run(folder, "0", folder / "model")])
def test_other_private_rows_than_those_of_the_run_are_refused(run, monkeypatch, read):
    """Though the hash in summary.json is of the shared data alone."""
    from consilience.agents.torch_agent import TorchAgent

    right = TorchAgent.fingerprint
    monkeypatch.setattr(TorchAgent, "fingerprint", lambda agent: "0" + right(agent)[1:] + "0")
    with pytest.raises(ConsilienceError, match=r"the private data of agent .* are not those of the run"):
        read(run[0])


def test_the_message_about_other_rows_has_no_hash(tmp_path):
    cs.collaborate(agents(), out=tmp_path / "run", **measured())
    with pytest.raises(ConsilienceError, match=r"what differs is the private data of agent a; ") as refused:
        cs.collaborate(agents(seed=1), out=tmp_path / "run", resume=True, **measured(rounds=6))
    assert not re.search(r"[0-9a-f]{12}", str(refused.value).replace(str(tmp_path), ""))


def test_a_ledger_has_no_row_and_no_plain_hash_of_one(tmp_path):
    x = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    file = LedgerFile(tmp_path / "one", x)
    file.close()
    other = LedgerFile(tmp_path / "two", x)
    other.close()
    one, two = (json.loads(each.path.read_text().splitlines()[0]) for each in (file, other))
    assert file.name != other.name and all(one[key] != two[key] for key in ("rows", "without_one", "shapes", "secret"))


def test_means_of_classes_and_rows_of_a_private_agent_go_to_no_method(tmp_path):
    for method in ("fd", "feddf"):
        try:
            cs.collaborate(agents(), method=method, **measured())
        except ConsilienceError as refused:
            assert "is private, and what the method makes of its private rows would not be" in str(refused)
            assert method == "fd"
        else:
            assert method == "feddf", "it exchanges weights, which are private already"


def test_a_site_has_no_logger():
    """The loggers of experiments send metrics to other programs; what a site runs has no such option."""
    from typer.main import get_command

    commands = get_command(app).commands
    options = {name for parameter in commands["site"].commands["run"].params for name in parameter.opts}
    assert "--log" not in options
    assert any("--log" in parameter.opts for parameter in commands["run"].params)


def test_every_test_that_the_docs_name_exists():
    root = Path(__file__).parents[1]
    named = set(re.findall(r"`(test_\w+)`", (root / "docs" / "explanation" / "privacy.md").read_text()))
    defined = {
        name for path in (root / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    assert len(named) >= 10 and named <= defined
