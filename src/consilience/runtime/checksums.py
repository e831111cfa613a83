"""Checksums of a finished run: the file SHA256SUMS, which `sha256sum -c` reads as well."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from consilience.base.errors import ConsilienceError
from consilience.base.files import write_atomically

FILE = "SHA256SUMS"


def write_sums(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes the checksums of `files`, contents by name."""
    lines = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items())]
    write_atomically(folder / FILE, "".join(lines).encode())


def checked_files(folder: Path) -> dict[str, bytes]:
    """The files that the checksums of a folder name; an error if one was changed. Empty without checksums."""
    path = folder / FILE
    if not path.is_file():
        return {}
    files = {}
    for line in path.read_bytes()[:1_000_000].decode("ascii", "replace").splitlines():
        fields = re.fullmatch(r"([0-9a-f]{64})  ([A-Za-z0-9._-]+)", line)
        if not fields:
            raise ConsilienceError(f"{path} is damaged. Restore it from a backup, or run again.")
        data = (folder / fields[2]).read_bytes() if (folder / fields[2]).is_file() else None
        if data is None or hashlib.sha256(data).hexdigest() != fields[1]:
            raise ConsilienceError(
                f"{folder / fields[2]} is not as the run left it (its checksum in {FILE} differs). "
                "Restore it from a backup, or run again."
            )
        files[fields[2]] = data
    return files
