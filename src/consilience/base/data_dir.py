"""Machine-specific paths, read from environment variables."""

import os
from pathlib import Path

DATA_VARIABLE = "CONSILIENCE_DATA"
"""Names the folder of real data."""
CACHE_VARIABLE = "CONSILIENCE_CACHE"
"""Names the folder of what is costly to make again."""


def data_folder() -> Path | None:
    """The folder of real data, if one is named."""
    folder = os.environ.get(DATA_VARIABLE)
    return Path(folder) if folder else None


def cache_folder() -> Path:
    """Where decoded images and features are kept."""
    return Path(os.environ.get(CACHE_VARIABLE) or "~/.cache/consilience").expanduser()
