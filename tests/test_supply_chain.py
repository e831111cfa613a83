"""What a site installs: the lock file has all of it, and the list in CycloneDX what the lock file has."""

import runpy
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
sbom = runpy.run_path(str(ROOT / "deploy" / "sbom.py"))
locked, plain, only_locked = sbom["locked"], sbom["plain"], sbom["only_locked"]


def test_the_lock_file_has_what_the_package_and_its_sites_need_as_it_was_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = locked((ROOT / "requirements.lock").read_text())
    needed = [*project["dependencies"], *project["optional-dependencies"]["peers"]]
    for one in map(Requirement, needed):
        assert plain(one.name) in packages, f"{one.name} is not in requirements.lock: run make lock"
        assert one.specifier.contains(packages[plain(one.name)][0].partition("+")[0])
    pins = [line.split("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
    tested = {plain(name): version for name, _, version in (pin.partition("==") for pin in pins if "==" in pin)}
    differing = {
        name: (version, tested[name])
        for name, (version, _) in packages.items()
        if name in tested and tested[name].partition("+")[0] != version.partition("+")[0]
    }
    assert not differing


def test_the_list_of_packages_has_those_of_the_lock_file_with_their_hashes():
    everything = {
        "components": [
            {"name": name, "version": "1", "bom-ref": f"{name}==1"} for name in ("Needs_Me", "pytest", "consilience")
        ],
        "dependencies": [
            {"ref": "consilience==1", "dependsOn": ["Needs_Me==1", "pytest==1"]},
            {"ref": "Needs_Me==1"},
            {"ref": "pytest==1"},
        ],
        "metadata": {},
    }
    found = only_locked(everything, {"needs-me": ("1", "ab" * 32)})
    (one,) = found["components"]
    assert (one["name"], one["hashes"]) == ("Needs_Me", [{"alg": "SHA-256", "content": "ab" * 32}])
    assert found["dependencies"] == [{"ref": "consilience==1", "dependsOn": ["Needs_Me==1"]}, {"ref": "Needs_Me==1"}]
    assert found["metadata"]["component"]["name"] == "consilience"
    with pytest.raises(SystemExit, match=r"needs-me 2 \(installed: 1\)"):
        only_locked(everything, {"needs-me": ("2", "ab" * 32)})
