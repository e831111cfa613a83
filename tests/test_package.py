"""The package: what is in it, and that it works where there is no clone."""

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
RUN = ["run", "digits", "--set", "rounds=2", "--set", "warmup=1", "--set", "agents.count=3", "--set", "limit=30"]
RUN += ["--set", "models=logistic", "--set", "low_quality=[]", "--workers", "1"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built by hatchling from a copy of what the package is made of, with no network."""
    from hatchling.build import build_wheel

    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    before = Path.cwd()
    os.chdir(source)
    try:
        return out / build_wheel(str(out))
    finally:
        os.chdir(before)


def test_the_wheel_holds_all_files_of_the_package_and_nothing_else(wheel):
    package = ROOT / "src" / "consilience"
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        [about] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        metadata = archive.read(about).decode()
    files = {path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert names == {f"consilience/{path.relative_to(package)}" for path in files}
    assert {"consilience/py.typed", "consilience/report/page.html", "consilience/settings/presets/digits.toml"} < names
    for line in ("License-Expression: Apache-2.0", "Requires-Python: >=3.11", "Provides-Extra: all"):
        assert line in metadata


def test_the_wheel_runs_outside_the_clone(wheel, tmp_path):
    """Unpacked, with the packages of this environment: what `pip install` does, without its minutes."""
    with ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site"), "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    command = [sys.executable, "-P", "-m", "consilience", *RUN, "--out", "mine"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Report: mine/report.html" in done.stdout
    assert "__DATA__" not in (tmp_path / "mine" / "report.html").read_text()
    where = [sys.executable, "-P", "-c", "import consilience; print(consilience.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert found.stdout.startswith(str(tmp_path))


def test_every_extra_is_in_all():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [everything] = extras["all"]
    assert everything == f"consilience[{','.join(sorted(set(extras) - {'all', 'dev', 'docs'}))}]"


def imports(path: Path, modules: dict[str, Path]) -> set[str]:
    """The modules that a file imports at any depth: within functions and for type checkers alone, too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            submodules = {f"{node.module}.{alias.name}" for alias in node.names} & modules.keys()
            names |= submodules or {node.module}
    return names & modules.keys()


def test_no_modules_import_each_other_in_a_circle():
    source = ROOT / "src"
    files = {".".join(path.relative_to(source).with_suffix("").parts): path for path in source.rglob("*.py")}
    modules = {name.removesuffix(".__init__"): path for name, path in files.items()}
    assert "consilience.data.loading" in modules
    assert "consilience.export.folder" in imports(modules["consilience.export.isolated"], modules), "a deferred import"
    try:
        TopologicalSorter({name: imports(path, modules) for name, path in modules.items()}).prepare()
    except CycleError as error:
        pytest.fail(f"modules import each other: {' <- '.join(error.args[1])}")


def test_no_two_classes_share_a_name():
    homes: dict[str, list[str]] = {}
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(path.name)
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def interpreter(version: str) -> str:
    """A Python of that version, on the path or in pyenv."""
    found = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python{version}"))
    for path in [*map(str, found), shutil.which(f"python{version}")]:
        if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return path
    pytest.skip(f"there is no Python {version} here")


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_the_wheel_installs_in_an_empty_environment(wheel, tmp_path, version):
    python = interpreter(version)
    subprocess.run([python, "-m", "venv", "empty"], cwd=tmp_path, check=True)
    programs = tmp_path / "empty" / "bin"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    pip = [str(programs / "pip"), "install", "-q", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, str(wheel)], cwd=tmp_path, env=environment, check=True)
    done = subprocess.run(
        [str(programs / "consilience"), *RUN], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "digits-1" / "report.html").is_file()
