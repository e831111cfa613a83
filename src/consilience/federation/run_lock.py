"""A run folder belongs to one run, with one federation file in one epoch, which this site runs nowhere else."""

import json
import secrets
from pathlib import Path

from consilience.base.errors import ConsilienceError
from consilience.base.files import write_atomically
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.untrusted_input import read_federation

USED = "used-epochs.json"
"""A file beside the signing key, with the identity of each federation file with which this key has begun a run."""


def lock_run_folder(out: Path, federation: Federation, signing_key: Path) -> None:
    """Makes `out` the folder of this run, or checks that it is.

    Signatures of a run are valid as long as the federation file is the same. So a key begins only one run with a file;
    the next run needs another epoch, in which earlier signatures are not valid.
    """
    begun = out / "federation.toml"
    if begun.is_file():
        differing = read_federation(begun).differences(federation)
        if differing:
            raise ConsilienceError(
                f"{out} was begun with another federation file; it differs in {'; '.join(differing)}. "
                "Go on with the old file, or set `out` in site.toml to a new folder."
            )
    elif out.is_dir() and any(path.name != "claim" and not path.name.endswith(".part") for path in out.iterdir()):
        raise ConsilienceError(f"{out} holds something else. Set `out` in site.toml to a new folder.")
    out.mkdir(parents=True, exist_ok=True)
    mark = out / "claim"
    token = mark.read_bytes().decode("utf-8", "replace").strip()[:64] if mark.is_file() else secrets.token_hex(16)
    used, identity = _used(signing_key.parent / USED), federation.identity().hex()
    if used.get(identity, token) != token:
        raise ConsilienceError(
            f"this site has begun a run with this federation file (epoch {federation.epoch}) in another folder. Go on "
            "there; or, for a new run, let every site write the next epoch into its file: consilience federation next."
        )
    if not mark.is_file():
        write_atomically(mark, token.encode())
    if identity not in used:
        write_atomically(signing_key.parent / USED, json.dumps(used | {identity: token}, indent=1).encode())
    if not begun.is_file():
        write_atomically(begun, federation.to_toml().encode())


def _used(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    try:
        used = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        used = None
    if not isinstance(used, dict) or not all(isinstance(token, str) for token in used.values()):
        raise ConsilienceError(f"{path}, which lists the runs this key has signed in, is damaged. Restore it.")
    return used
