"""A site's folder: keys, federation file, site.toml, and the agent that comes out of it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("zenoh", reason="needs consilience[peers]")

from consilience.experiments.membership import make_keys, new_federation
from consilience.experiments.site import Prepared, build_site_agent, prepare
from consilience.runtime.peers import keys

from consilience.errors import ConsilienceError

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
    path.write_text(path.read_text().replace("shared.npz", "shared.csv"))
    return path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_file_that_keys_writes_needs_only_the_data(site: Path) -> None:
    prepared = prepare(site)
    agent, evaluation = build_site_agent(prepared)
    assert (agent.name, agent.kind, agent.samples, agent.outputs) == ("a", "forest", 20, 2)
    x, y = evaluation.own["a"]
    assert len(x) == len(y) == 5
    assert prepared.federation.quorum == 2 and prepared.settings.rounds == 4


def test_standardising_is_by_the_shared_data(site: Path) -> None:
    prepared = prepare(site)
    scaled = prepared.features(prepared.shared)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.std(axis=0), 1, atol=1e-6)
    change(site, "standardise = true", "standardise = false")
    assert prepare(site).features(prepared.shared) is prepared.shared


def test_a_python_file_may_make_the_agent(site: Path) -> None:
    (site.parent / "agent.py").write_text(OWN_AGENT)
    text = site.read_text().replace('# python = "agent.py"', 'python = "agent.py"').replace('model = "forest"', "")
    site.write_text(text)
    agent, _ = build_site_agent(prepare(site))
    assert (agent.name, agent.kind) == ("a", "LogisticRegression")


def test_private_keys_are_their_owners_alone_and_never_overwritten(site: Path) -> None:
    secret = site.parent / "keys" / "signing.key"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert (site.parent / "keys" / "tls.key").stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConsilienceError, match="never overwritten"):
        make_keys(site.parent, "a", "127.0.0.1:7000")
    secret.chmod(0o640)
    with pytest.raises(ConsilienceError, match="chmod 600"):
        prepare(site)


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
        (lambda site: change(site, 'agent = "a"', 'agent = "d"'), "'d' is not in federation 't'"),
        (lambda site: change(site, 'agent = "a"', ""), "agent is missing"),
        (lambda site: change(site, "label =", "labels ="), "unknown entry 'labels'"),
        (lambda site: change(site, '# python = "agent.py"', 'python = "agent.py"'), "either a file `python`"),
        (lambda site: change(site.parent / "federation.toml", "quorum = 2", "quorum = 1"), "more than half"),
        (lambda site: change(site.parent / "federation.toml", "rounds = 4", "round = 4"), "unknown setting 'round'"),
    ],
)
def test_what_is_wrong_with_a_site_is_said(site: Path, spoil: object, message: str) -> None:
    assert callable(spoil)
    spoil(site)
    with pytest.raises(ConsilienceError, match=message):
        prepare(site)


def test_a_federation_agrees_on_no_setting_of_data_or_models(site: Path) -> None:
    prepared: Prepared = prepare(site)
    member = site.parent / "member.toml"
    for setting in ("agents", "models", "dataset", "workers"):
        with pytest.raises(ConsilienceError, match="not for a federation to agree on"):
            new_federation("t", site.parent / "shared.csv", ["x", "y"], [member], {setting: 1}, 5.0)
    with pytest.raises(ConsilienceError, match="needs a server"):
        new_federation("t", site.parent / "shared.csv", ["x", "y"], [member], {"method": "fedavg"}, 5.0)
    assert prepared.federation.settings["method"] == "dynamic"
