"""A site's folder: keys, federation file, site.toml, and the agent that comes out of it."""

import tomllib
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w

pytest.importorskip("zenoh", reason="needs consilience[peers]")

from consilience.base.errors import ConsilienceError
from consilience.federation.membership import make_keys, new_federation, write_site
from consilience.federation.peers import keys
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.untrusted_input import read_member, table_from
from consilience.federation.site import Site, load_site, read_site
from consilience.federation.site_agent import build_site_agent
from consilience.privacy.options import Privacy
from consilience.settings.settings import Settings, changed

OWN_AGENT = """
import numpy as np
from sklearn.linear_model import LogisticRegression
import consilience as cs

def make_agent(name, classes, seed):
    x = np.arange(20, dtype="float32").reshape(10, 2)
    return cs.SklearnAgent(LogisticRegression(), x, np.arange(10) % 2, "any", classes=len(classes), seed=seed)
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site with a forest on a CSV file, in a federation of three."""
    draw = np.random.default_rng(0)
    for number, name in enumerate(("a", "b", "c")):
        make_keys(tmp_path / name, name, f"127.0.0.1:{7000 + number}", tmp_path / "ca")
    table = pd.DataFrame(draw.normal(3, 2, (40, 2)), columns=["age", "pressure"])
    folder = tmp_path / "a"
    table.iloc[:15].to_csv(folder / "shared.csv", index=False)
    table.iloc[15:].assign(label=np.arange(25) % 2).to_csv(folder / "patients.csv", index=False)
    members = [tmp_path / name / "member.toml" for name in "abc"]
    agreed = new_federation("t", folder / "shared.csv", ["healthy", "ill"], members, {"rounds": 4}, 5.0)
    (folder / "federation.toml").write_text(agreed.to_toml())
    path = folder / "site.toml"
    assert 'shared = "shared.csv"' in path.read_text(), "the name that the documents use"
    return path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_file_that_keys_writes_needs_only_the_data(site: Path) -> None:
    prepared = load_site(site)
    agent, evaluation = build_site_agent(prepared)
    assert (agent.name, agent.kind, agent.samples, agent.outputs) == ("a", "forest", 20, 2)
    x, y = evaluation.own["a"]
    assert len(x) == len(y) == 5
    assert prepared.federation.quorum == 2 and prepared.settings.run.rounds == 4


def test_standardising_is_by_the_shared_data(site: Path) -> None:
    prepared = load_site(site)
    scaled = prepared.features(prepared.shared)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.std(axis=0), 1, atol=1e-6)
    change(site, "standardise = true", "standardise = false")
    assert load_site(site).features(prepared.shared) is prepared.shared


def test_a_python_file_may_make_the_agent(site: Path) -> None:
    (site.parent / "agent.py").write_text(OWN_AGENT)
    change(site, 'python = ""', 'python = "agent.py"')
    change(site, 'model = "forest"', 'model = ""')
    agent, _ = build_site_agent(load_site(site))
    assert (agent.name, agent.kind) == ("a", "LogisticRegression")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("return object()", "returned object, which does not implement Agent; missing: name, task"),
        ("agent.task = 'classification'; return agent", "has the task 'classification'. Use consilience.extend.TASKS"),
        ("return cs.SklearnAgent(LogisticRegression(), x, y % 3, name)", "must predict the 2 classes healthy, ill"),
    ],
)
def test_what_is_wrong_with_a_sites_own_agent_is_said(site: Path, line: str, message: str) -> None:
    code = OWN_AGENT.replace("    return ", "    y = np.arange(10)\n    agent = ") + f"    {line}\n"
    (site.parent / "agent.py").write_text(code)
    change(site, 'python = ""', 'python = "agent.py"')
    change(site, 'model = "forest"', 'model = ""')
    with pytest.raises(ConsilienceError, match=message):
        build_site_agent(load_site(site))


def test_private_keys_are_their_owners_alone_and_never_overwritten(site: Path) -> None:
    secret = site.parent / "keys" / "signing.key"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert (site.parent / "keys" / "tls.key").stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConsilienceError, match="never overwritten"):
        make_keys(site.parent, "a", "127.0.0.1:7000")
    secret.chmod(0o640)
    with pytest.raises(ConsilienceError, match="chmod 600"):
        load_site(site)


def _other_key(site: Path) -> None:
    path = site.parent / "keys" / "signing.key"
    path.unlink()
    keys.new_signing_key(path)


def _other_certificate(site: Path) -> None:
    for name in ("tls.key", "tls.crt"):
        (site.parent.parent / "b" / "keys" / name).rename(site.parent / "keys" / name)


def _expired(site: Path) -> None:
    (site.parent / "keys" / "tls.key").unlink()
    keys.issue_certificate(site.parent.parent / "ca", site.parent / "keys", "a", "127.0.0.1", days=-1)


def _other_shared(site: Path) -> None:
    path = site.parent / "shared.csv"
    table = pd.read_csv(path)
    table.iloc[::-1].to_csv(path, index=False)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_other_key, "is not the key that the federation file has for a"),
        (_other_certificate, "is the certificate of 'b'"),
        (_expired, "expired on"),
        (_other_shared, "are not those of the federation file"),
        (lambda site: (site.parent / "shared.csv").unlink(), r"site.toml: `shared` names .*shared.csv, which does not"),
        (lambda site: change(site, 'label = "label"', 'label = "age"'), "shared data must have no labels"),
        (lambda site: change(site, 'agent = "a"', 'agent = "d"'), "'d' is not in federation 't'"),
        (lambda site: change(site, 'agent = "a"', ""), "'agent' is missing"),
        (lambda site: change(site, "label =", "labels ="), "unknown setting 'labels'"),
        (lambda site: change(site, 'python = ""', 'python = "agent.py"'), "either a file `python`"),
        (lambda site: change(site.parent / "federation.toml", "quorum = 2", "quorum = 1"), "more than half"),
        (lambda site: change(site, 'device = "cpu"', 'device = "tpu"'), "be one of cpu, cuda"),
        (lambda site: change(site.parent / "federation.toml", "rounds = 4", "round = 4"), "run.round is not for a"),
        (lambda site: change(site.parent / "federation.toml", "lam = ", "lambda = "), "unknown setting 'lambda'"),
        (lambda site: change(site.parent / "federation.toml", "lam = 0.5", "lam = -1"), "be at least 0"),
    ],
)
def test_what_is_wrong_with_a_site_is_said(site: Path, spoil: object, message: str) -> None:
    assert callable(spoil)
    spoil(site)
    with pytest.raises(ConsilienceError, match=message):
        load_site(site)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('run.plugins = ["evil.py"]', "run.plugins is not for a federation"),
        ('run.device = "cuda"', "run.device is not for a federation"),
        ("run.threads = 2", "run.threads is not for a federation"),
        ('run.references = ["alone"]', "run.references is not for a federation"),
        ('data.dataset = "digits"', "'data' is not for a federation"),
        ("agents.count = 4", "'agents' is not for a federation"),
        ('plugins = ["evil.py"]', "'plugins' is not for a federation"),
        ('method.plugins = ["evil.py"]', "unknown setting 'plugins'"),
        ('method.name = "evil"', "unknown method 'evil'"),
        ('method.trust.name = "evil"', "unknown trust rule 'evil'"),
        ('method = "fedavg"', "method is 'fedavg'; it must be a table"),
    ],
)
def test_a_federation_file_settles_nothing_that_is_a_sites_own_and_runs_no_code(
    site: Path, monkeypatch: pytest.MonkeyPatch, entry: str, message: str
) -> None:
    monkeypatch.chdir(site.parent)
    Path("evil.py").write_text("raise SystemExit('this ran')")
    tables, (table, value) = tomllib.loads(Path("federation.toml").read_text()), tomllib.loads(entry).popitem()
    before = tables["settings"].get(table, {})
    tables["settings"][table] = before | value if isinstance(value, dict) else value
    Path("federation.toml").write_text(tomli_w.dumps(tables))
    with pytest.raises(ConsilienceError, match=message):
        load_site(site)


def test_a_federation_agrees_on_no_setting_of_data_models_or_machines(site: Path) -> None:
    members, shared = [site.parent / "member.toml"], site.parent / "shared.csv"
    for setting in ({"agents.count": 3}, {"models": ["mlp"]}, {"dataset": "wine"}, {"device": "cuda"}, {"threads": 2}):
        with pytest.raises(ConsilienceError, match="not for a federation to agree on"):
            new_federation("t", shared, ["x", "y"], members, setting, 5.0)
    with pytest.raises(ConsilienceError, match="unknown"):
        new_federation("t", shared, ["x", "y"], members, {"workers": 2}, 5.0)


@pytest.mark.parametrize("method", ["alone", "fedavg", "fedprox", "scaffold", "feddyn", "feddf", "fd"])
def test_methods_that_exchange_no_predictions_are_not_for_a_federation(site: Path, method: str) -> None:
    with pytest.raises(ConsilienceError, match="exchanges no predictions"):
        new_federation("t", site.parent / "shared.csv", ["x", "y"], [], {"method": method}, 5.0)
    tables = tomllib.loads((site.parent / "federation.toml").read_text())
    tables["settings"]["method"] = {"name": method}
    (site.parent / "federation.toml").write_text(tomli_w.dumps(tables))
    with pytest.raises(ConsilienceError, match="exchanges no predictions"):
        load_site(site)


def test_the_settings_of_a_federation_file_are_complete_and_read_as_agreed(site: Path) -> None:
    members = [site.parent.parent / name / "member.toml" for name in "abc"]
    changes = {
        "method": "every-3",
        "method.trust": "entropy",
        "method.trust.offset": 0.5,
        "wire.form": "float16",
        "lr": 0.25,
        "seed": 7,
    }
    federation = new_federation("t", site.parent / "shared.csv", ["healthy", "ill"], members, changes, 5.0)
    again = table_from(Federation, federation.to_toml().encode(), "file")
    assert again == federation and list(again.settings) == ["method", "training", "run"]
    assert again.agreed == changed(Settings(), changes)
    assert set(again.settings["run"]) == {"rounds", "seed"}


@pytest.mark.parametrize(
    ("column", "values", "task", "output"),
    [
        ("label", [0, 1, 2, 3], "classification", "'label' is the label of a member"),
        ("diagnosis", [0, 1, 2, 3], "classification", "'diagnosis' is the label of a member"),
        ("state", ["ill", "healthy", None, "ill"], "classification", "'state' holds the class names healthy, ill"),
        ("ill", [0.0, 1.0, 0.5, 0.0], "regression", "'ill' is called like one of `--classes`"),
        ("sex", ["f", "m", "f", None], "classification", ""),
        ("smoker", [0, 1, 0, 1], "classification", ""),
    ],
)
def test_shared_data_with_a_column_of_labels_are_refused(site: Path, column, values, task, output) -> None:
    shared, members = site.parent / "other.csv", [site.parent.parent / name / "member.toml" for name in "abc"]
    change(site.parent.parent / "b" / "site.toml", 'label = "label"', 'label = "diagnosis"')
    pd.DataFrame({"age": [50.0, 61.0, 40.0, 33.0], column: values}).to_csv(shared, index=False)
    arguments = ("t", shared, ["healthy", "ill"], members, {}, 5.0)
    if output:
        with pytest.raises(ConsilienceError, match=f"column {output}.*Shared data have no labels"):
            new_federation(*arguments, task=task)
    else:
        assert new_federation(*arguments, task=task).shared_samples == 4


@pytest.mark.parametrize("address", ['host"x:1', "host", "host:port", "tls/host:7447", "host:7447#a=b:1", "::1:7447"])
def test_an_address_that_cannot_be_one_is_refused_before_anything_is_written(tmp_path: Path, address: str) -> None:
    with pytest.raises(ConsilienceError, match="is not host:port"):
        make_keys(tmp_path / "x", "x", address)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("address", ["localhost:7447", "10.0.0.1:7447", "[2001:db8::1]:7447", "a_b.c-d.example:1"])
def test_the_files_that_keys_writes_read_as_they_were_written(tmp_path: Path, address: str) -> None:
    make_keys(tmp_path / "x", "x.y-z_1", address, tmp_path / "ca")
    member = read_member(tmp_path / "x" / "member.toml")
    assert (member.agent, member.address, f"{member.host}:{member.port}") == ("x.y-z_1", address, address)
    assert read_site(tmp_path / "x" / "site.toml").agent == "x.y-z_1"


def test_a_site_file_shows_every_entry_with_its_meaning_and_reads_as_it_was_written(tmp_path: Path) -> None:
    site = Site('quoted "name" \\ # x', python='a"b.py', data="one\ntwo", standardise=True)
    write_site(tmp_path / "site.toml", site)
    assert read_site(tmp_path / "site.toml") == site
    text = (tmp_path / "site.toml").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("[")]
    assert "\n[types]  # what columns hold" in text and "\n[privacy]" in text
    own = [field.name for field in fields(Site) if field.name not in ("types", "privacy")]
    assert [line.split(" = ")[0] for line in lines] == [*own, *(field.name for field in fields(Privacy))]
    assert all("  # " in line for line in lines)
