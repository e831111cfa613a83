"""Checksums of a finished run: the file SHA256SUMS, which `sha256sum -c` reads as well."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from consilience.base.errors import ConsilienceError
from consilience.base.files import write_atomically

FILE = "SHA256SUMS"


def write_sums(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes the checksums of files by name."""
    lines = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items())]
    write_atomically(folder / FILE, "".join(lines).encode())


def checked_files(folder: Path) -> dict[str, bytes]:
    """The files of a folder that its checksums name, by name; an error if one is not as it was written.

    Empty for a folder without checksums, as earlier versions wrote them.
    """
    path = folder / FILE
    if not path.is_file():
        return {}
    found = {}
    for line in path.read_bytes()[:1_000_000].decode("ascii", "replace").splitlines():
        parts = re.fullmatch(r"([0-9a-f]{64})  ([A-Za-z0-9._-]+)", line)
        if not parts:
            raise ConsilienceError(f"{path} is damaged. Restore it from a backup, or run again.")
        data = (folder / parts[2]).read_bytes() if (folder / parts[2]).is_file() else None
        if data is None or hashlib.sha256(data).hexdigest() != parts[1]:
            raise ConsilienceError(
                f"{folder / parts[2]} is not as the run left it (its checksum in {FILE} differs). "
                "Restore it from a backup, or run again."
            )
        found[parts[2]] = data
    return found
