"""Asks a public database for known vulnerabilities of what is in requirements.lock and deploy/build.lock: make audit.

Ends with 0 if there is none, with 1 if there are some, and with 2 if the database did not answer for every package.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCKS = [ROOT / "requirements.lock", ROOT / "deploy" / "build.lock"]


def main() -> int:
    """What the database says, in sentences."""
    pip_audit = Path(sys.executable).parent / "pip-audit"
    options = ["--format", "json", "--progress-spinner", "off", "--disable-pip", "--require-hashes"]
    files = [word for lock in LOCKS for word in ("-r", str(lock))]
    done = subprocess.run([pip_audit, *options, *files], capture_output=True, text=True)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        why = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        print(f"Nothing is known: the database of vulnerabilities could not be asked ({why[:300]}).")
        return 2
    bad = [(package, vulnerability) for package in packages for vulnerability in package.get("vulns", [])]
    for package, vulnerability in bad:
        mended = ", ".join(vulnerability["fix_versions"]) or "no version yet"
        print(f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in {mended}")
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    if unknown:
        print(
            f"The database has no answer for {len(unknown)} of {len(packages)} packages of the lock files (the first "
            f"is {unknown[0]}). If it is all of them, it cannot be reached from here: run this where the internet is."
        )
    elif not bad:
        print(f"No vulnerability is known in the {len(packages)} packages of the lock files.")
    return 1 if bad else 2 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
