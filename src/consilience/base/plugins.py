"""Plugins: Python files of the user's that register datasets, models, methods, trust rules or tasks of their own."""

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from consilience.base.errors import ConsilienceError

_FILES: set[str] = set()
"""Files of the user's that were run."""


def user_file_location(error: BaseException) -> str:
    """If an error came from a file of the user's: its line, and what went wrong there; otherwise empty."""
    if isinstance(error, SyntaxError) and error.filename in _FILES:
        return f"{error.filename}, line {error.lineno}: {error.msg}: {(error.text or '').strip()}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in _FILES]
    if not frames:
        return ""
    last = frames[-1]
    return f"{last.filename}, line {last.lineno}, in {last.name}: {last.line}\n{type(error).__name__}: {error}"


def was_loaded(path: str | Path) -> bool:
    """Whether the user gave this process that file as a plugin."""
    return str(Path(path).resolve()) in _FILES


def load_plugin(path: str | Path) -> ModuleType:
    """Runs a Python file, once in each process, and returns it as a module."""
    file = Path(path).resolve()
    name = f"consilience_plugin_{file.stem}"
    loaded = sys.modules.get(name)
    if loaded is not None and loaded.__file__ == str(file):
        return loaded
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise ConsilienceError(f"{file} is no Python file.")
    _FILES.add(str(file))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
