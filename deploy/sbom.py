"""Writes sbom.json: the packages of requirements.lock in the CycloneDX format, with licences and hashes: make sbom.

Licences and who needs whom are those of the environment whose Python is given; packages that are only there for
development are left out.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def locked(text: str) -> dict[str, tuple[str, str]]:
    """Version and SHA-256 of every package of a lock file, by name."""
    lines = re.findall(r"^(\S+)==(\S+) --hash=sha256:([0-9a-f]{64})$", text, re.MULTILINE)
    return {plain(name): (version, digest) for name, version, digest in lines}


def plain(name: str) -> str:
    """A package's name in its one spelling."""
    return re.sub(r"[-_.]+", "-", name).lower()


def only_locked(bom: dict[str, Any], packages: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """The list with the packages of the lock file alone, each with its hash; an error if one is not installed."""
    installed = {plain(entry["name"]): entry for entry in bom["components"]}
    differing = [
        f"{name} {version} (installed: {installed.get(name, {}).get('version', 'not at all')})"
        for name, (version, _) in packages.items()
        if installed.get(name, {}).get("version") != version
    ]
    if differing:
        raise SystemExit(
            f"What is installed is not what requirements.lock says: {', '.join(differing)}. Run make lock."
        )
    kept = [installed[name] for name in sorted(packages)]
    for entry in kept:
        entry["hashes"] = [{"alg": "SHA-256", "content": packages[plain(entry["name"])][1]}]
    root = {key: value for key, value in installed["consilience"].items() if key != "externalReferences"}
    known = {entry["bom-ref"] for entry in (root, *kept)}
    graph = [
        entry | {"dependsOn": [ref for ref in entry["dependsOn"] if ref in known]} if "dependsOn" in entry else entry
        for entry in bom["dependencies"]
        if entry["ref"] in known
    ]
    metadata = bom["metadata"] | {"component": root | {"type": "application"}}
    return bom | {"metadata": metadata, "components": kept, "dependencies": graph}


def main(python: str) -> None:
    """Asks for all that is installed, and keeps what a site needs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "all.json"
        command = [Path(sys.executable).parent / "cyclonedx-py", "environment", "--of", "JSON", "-o", path, python]
        subprocess.run(command, check=True)
        everything = json.loads(path.read_text())
    packages = locked((ROOT / "requirements.lock").read_text())
    bom = only_locked(everything, packages)
    (ROOT / "sbom.json").write_text(json.dumps(bom, indent=2) + "\n")
    print(f"sbom.json: {len(bom['components'])} packages, CycloneDX {bom['specVersion']}")


if __name__ == "__main__":
    main(sys.argv[1])
