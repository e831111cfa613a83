"""A site's folder: keys, federation file, site.toml, and the agent that comes out of it."""

import tomllib
from pathlib import Path

import pandas as pd
import pytest
import tomli_w

pytest.importorskip("zenoh", reason="needs consilience[peers]")

from consilience.base.errors import ConsilienceError
from consilience.federation.peers import keys
from consilience.federation.site import load_site
from consilience.federation.site_agent import build_site_agent
from tests.federation.conftest import change


def test_the_file_that_keys_writes_needs_only_the_data(site: Path) -> None:
    prepared = load_site(site)
    agent, evaluation = build_site_agent(prepared)
    assert (agent.name, agent.kind, agent.samples, agent.outputs) == ("a", "forest", 20, 2)
    x, y = evaluation.own["a"]
    assert len(x) == len(y) == 5
    assert prepared.federation.quorum == 2 and prepared.settings.run.rounds == 4


def _other_key(site: Path) -> None:
    path = site.parent / "keys" / "signing.key"
    path.unlink()
    keys.new_signing_key(path)


def _other_encryption_key(site: Path) -> None:
    (site.parent.parent / "b" / "keys" / "encryption.key").rename(site.parent / "keys" / "encryption.key")


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
        (_other_encryption_key, "encryption.key is not the key that the federation file has for a"),
        (_expired, "expired on"),
        (_other_shared, "are not those of the federation file"),
        (lambda site: (site.parent / "shared.csv").unlink(), r"site.toml: `shared` names .*shared.csv, which does not"),
        (lambda site: change(site, 'label = "label"', 'label = "age"'), "shared data must have no labels"),
        (lambda site: change(site, 'agent = "a"', 'agent = "d"'), "'d' is not in federation 't'"),
        (lambda site: change(site, 'agent = "a"', ""), "'agent' is missing"),
        (lambda site: change(site, "label =", "labels ="), "unknown setting 'labels'"),
        (
            lambda site: change(site, 'carrier = "direct"', 'carrier = "relay"'),
            'carrier = "relay" needs the option `relay`',
        ),
        (lambda site: change(site, 'carrier = "direct"', 'carrier = "pigeon"'), "be one of direct, relay, folder"),
        (lambda site: change(site, "relay = []", 'relay = ["somewhere"]'), "the relay, 'somewhere', is not host:port"),
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
