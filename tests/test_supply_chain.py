"""What a site installs: the lock file has all of it, and the list in CycloneDX what the lock file has."""

import re
import runpy
import sys
import tarfile
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
LOCKS = ["requirements.lock", "deploy/build.lock"]
VULNERABLE = {
    "lightgbm": ("4.5.0", "CVE-2024-43598"),
    "onnx": ("1.16.1", "CVE-2024-7776"),
    "pillow": ("12.1.0", "CVE-2023-50447, CVE-2026-25990"),
    "pyarrow": ("14.0.0", "CVE-2023-47248"),
    "skops": ("0.12.0", "CVE-2025-54412, CVE-2025-54413, CVE-2025-54886"),
    "torch": ("2.5.1", "CVE-2025-32434"),
}
"""The last release in which files of others are known to run code or to overwrite memory or files, and its numbers."""

lock = runpy.run_path(str(ROOT / "deploy" / "lock.py"))
sbom = runpy.run_path(str(ROOT / "deploy" / "sbom.py"))
locked, plain, only_locked = sbom["locked"], sbom["plain"], sbom["only_locked"]


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_lock_file_has_what_the_package_and_its_sites_need_as_it_was_tested():
    packages = locked((ROOT / "requirements.lock").read_text())
    extras = project()["optional-dependencies"]
    assert lock["SITE"] == {"export", "metrics", "peers", "privacy"}
    needed = [*project()["dependencies"], *(one for extra in lock["SITE"] for one in extras[extra])]
    for one in map(Requirement, needed):
        assert plain(one.name) in packages, f"{one.name} is not in requirements.lock: run make lock"
        assert one.specifier.contains(packages[plain(one.name)][0].partition("+")[0])
    pins = [line.split("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
    tested = {plain(name): version for name, _, version in (pin.partition("==") for pin in pins if "==" in pin)}
    both = packages | locked((ROOT / "deploy" / "build.lock").read_text())
    differing = {
        name: (version, tested[name])
        for name, (version, _) in both.items()
        if name in tested and tested[name].partition("+")[0] != version.partition("+")[0]
    }
    assert not differing


@pytest.mark.parametrize("name", LOCKS)
def test_every_line_of_a_lock_file_has_a_hash(name):
    """One line without would make pip refuse the file; one that is read over would be missing in the lists."""
    text = (ROOT / name).read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) == len(locked(text)) > 5


def test_the_lock_files_have_all_that_is_needed_in_turn():
    """Where the environment is that of the lock file, so that its markers and packages are the same."""
    text = (ROOT / "requirements.lock").read_text()
    if f"Python {sys.version_info.major}.{sys.version_info.minor} on {sys.platform} " not in text.splitlines()[0]:
        pytest.skip(f"{text.splitlines()[0]} is for another Python or platform")
    try:
        site = lock["closure"]([f"consilience[{','.join(sorted(lock['SITE']))}]"]) - {"consilience"}
        build = lock["closure"](["build", "hatchling"])
    except PackageNotFoundError as missing:
        pytest.skip(f"{missing.name} is not installed here")
    assert set(locked(text)) == site
    assert set(locked((ROOT / "deploy" / "build.lock").read_text())) == build


def test_no_lower_bound_admits_a_release_that_files_of_others_can_take_over():
    lists = [project()["dependencies"], *project()["optional-dependencies"].values()]
    seen = set()
    for one in (Requirement(text) for texts in lists for text in texts):
        version, numbers = VULNERABLE.get(one.name, (None, ""))
        if version:
            seen.add(one.name)
            assert not one.specifier.contains(version), f"{one} admits {version}: {numbers}"
    assert seen == set(VULNERABLE)


def test_the_source_distribution_holds_what_an_image_is_built_from(tmp_path, monkeypatch):
    from hatchling.build import build_sdist

    monkeypatch.chdir(ROOT)
    with tarfile.open(tmp_path / build_sdist(str(tmp_path))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    expected = {*LOCKS, "Dockerfile", ".dockerignore", "compose.yaml", "constraints.txt", "deploy/kubernetes.yaml"}
    expected |= {"deploy/kubernetes-site.yaml", "deploy/four-sites.sh", ".github/workflows/test.yml", "SECURITY.md"}
    assert expected <= names
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    for word in " ".join(copied).split():
        assert any(name == word or name.startswith(f"{word}/") for name in names), f"{word} is not in the sdist"


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
