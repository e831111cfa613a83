"""Modules whose names are loaded when they are first used. A stub beside the module lists each name once."""

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_names(module: str, file: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` of a module, from the imports in its stub (the same path with .pyi).

    Args:
        module: The module's name, for messages.
        file: The module's `__file__`.
    """
    stub = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    homes = {name: home for home, name in re.findall(r"^from (\S+) import (\w+) as \2$", stub, re.MULTILINE)}
    names = sorted(homes)

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if homes[name] == module:
            return import_module(f"{module}.{name}")
        return getattr(import_module(homes[name]), name)

    return names, load, lambda: names
