"""Places on this machine. They are no settings of an experiment: where data are comes from the environment."""

import os
from pathlib import Path

DATA_VARIABLE = "CONSILIENCE_DATA"
"""Names the folder of real data."""


def data_folder() -> Path | None:
    """The folder of real data, if one is named."""
    folder = os.environ.get(DATA_VARIABLE)
    return Path(folder) if folder else None


def sync_folder(folder: Path) -> None:
    """Brings the names in a folder to the disk: what was put into place is there after a power cut, too."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
