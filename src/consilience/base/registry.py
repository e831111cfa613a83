"""Names for things that come in kinds: methods, trust rules, tasks, datasets, models.

A kind has one registry. What comes with the package registers itself in its own file; another package brings more
through the entry-point group of the same name, and a plugin (a Python file of the user's) by registering in it.
"""

import importlib
import importlib.util
import pkgutil
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, final

from consilience.base.errors import ConsilienceError

T = TypeVar("T")


@final
@dataclass
class Registry:
    """Things of one kind by name."""

    kind: str
    """What they are called in messages, such as "trust rule"."""
    package: str
    """The package, or module, whose files register themselves."""
    group: str
    """The entry-point group through which other packages bring more."""

    def __post_init__(self) -> None:
        self._found: dict[str, Any] = {}
        self._complete = False

    def add(self, name: str) -> Callable[[T], T]:
        """A decorator that registers a class or a function under `name`. Sets its attribute `name`, too."""

        def register(thing: T) -> T:
            self._found[name] = thing
            with suppress(AttributeError, TypeError):
                thing.name = name  # type: ignore[attr-defined]
            return thing

        return register

    def names(self) -> list[str]:
        """All names, in alphabetical order."""
        return sorted(self._all())

    def all(self) -> list[Any]:
        """All that is registered, in the order of the names."""
        return [thing for _, thing in sorted(self._all().items())]

    def find(self, name: str) -> Any:
        """What is registered under `name`; an error that names the known ones if there is nothing."""
        if name not in self._found and name not in self._all():
            near = get_close_matches(name, self._found, n=1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            raise ConsilienceError(
                f"unknown {self.kind} {name!r}. {hint}Known: {', '.join(self.names())}. "
                "If it comes from a plugin, name the file with plugins=FILE.py."
            )
        return self._found[name]

    def _all(self) -> dict[str, Any]:
        if not self._complete:
            self._complete = True  # a module may ask for names while it is imported
            try:
                self._discover()
            except BaseException:
                self._complete = False
                raise
        return self._found

    def _discover(self) -> None:
        """Imports the package's own modules, then what other packages bring; own names come first."""
        from importlib.metadata import entry_points

        home = importlib.import_module(self.package)
        for module in pkgutil.iter_modules(getattr(home, "__path__", [])):
            importlib.import_module(f"{self.package}.{module.name}")
        for point in entry_points(group=self.group):
            if point.name in self._found:
                continue
            try:
                loaded = point.load()
            except Exception as error:
                raise ConsilienceError(
                    f"the {self.kind} {point.name!r}, which an installed package brings ({point.value}), cannot be "
                    f"loaded: {error}. Fix that package, or uninstall it."
                ) from error
            self._found.setdefault(point.name, loaded)  # the file may have registered it itself while it was loaded


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
