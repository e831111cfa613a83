"""Machine-specific paths, read from environment variables."""

import os
from pathlib import Path

DATA_VARIABLE = "CONSILIENCE_DATA"
"""Names the folder of real data."""


def data_folder() -> Path | None:
    """The folder of real data, if one is named."""
    folder = os.environ.get(DATA_VARIABLE)
    return Path(folder) if folder else None
