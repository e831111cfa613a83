"""The files of a site and of a federation, before a run."""

import tomllib
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import tomli_w

from consilience.base.errors import ConsilienceError
from consilience.base.options import to_table
from consilience.federation import membership
from consilience.federation.membership import make_keys, new_federation, write_site
from consilience.federation.outgoing import Outgoing
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.untrusted_input import read_member, table_from
from consilience.federation.site import Site, load_site, read_site
from consilience.methods.consensus import Consensus
from consilience.privacy.options import Privacy
from consilience.settings.settings import Settings, changed
from tests.federation.conftest import change

pytest.importorskip("zenoh", reason="needs consilience[peers]")


def test_members_on_one_backbone_have_the_method_of_heads(site: Path, monkeypatch) -> None:
    monkeypatch.setattr(membership, "backbone_named", lambda name: SimpleNamespace(fingerprint="f" * 64))
    members = [site.parent.parent / name / "member.toml" for name in "abc"]
    arguments = ("t", site.parent / "shared.csv", ["x", "y"], members)
    made = new_federation(*arguments, {}, 5.0, crossed=9, backbone="minilm")
    assert made.settings["method"] == to_table(Settings(method=Consensus.for_heads()))["method"]
    assert made.settings["training"]["epochs"] == 1
    kept = new_federation(*arguments, {"duals": 0.0, "rounds": 7}, 5.0, backbone="minilm").settings
    assert (kept["method"]["duals"], kept["method"]["mean"], kept["run"]["rounds"]) == (0.0, "geometric", 7)
    others = new_federation(*arguments, {}, 5.0, task="regression", backbone="minilm").settings
    assert others["method"]["duals"] == new_federation(*arguments, {}, 5.0).settings["method"]["duals"] == 0.0


def test_private_keys_are_their_owners_alone_and_never_overwritten(site: Path) -> None:
    secret = site.parent / "keys" / "signing.key"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert (site.parent / "keys" / "tls.key").stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConsilienceError, match="never overwritten"):
        make_keys(site.parent, "a", "127.0.0.1:7000")
    secret.chmod(0o640)
    with pytest.raises(ConsilienceError, match="chmod 600"):
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
    own = [field.name for field in fields(Site) if field.name not in ("types", "privacy", "outgoing")]
    assert [line.split(" = ")[0] for line in lines] == [
        *own,
        *(field.name for kind in (Privacy, Outgoing) for field in fields(kind)),
    ]
    assert all("  # " in line for line in lines)
