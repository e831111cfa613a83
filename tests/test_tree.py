"""Tests of `src/consilience/a/b.py` are in `tests/a/test_b.py`, and in `tests/a/test_b_more.py` where they are many."""

import ast
from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "consilience"
WHOLE = {
    "accessible": "pages of every kind in a browser",
    "benchmarks": "make bench",
    "commands": "commands of the documents",
    "containers": "recipes for containers",
    "docs": "README and documents",
    "machines": "runs over several machines",
    "own_table": "a comparison on a user's table, from file to page",
    "package": "the wheel",
    "pretrained": "presets on pretrained backbones",
    "same_everywhere": "numbers of runs, on any number of workers",
    "security_promises": "docs/explanation/security.md",
    "sentences": "mistakes of a first hour in a notebook",
    "site": "the documentation site",
    "sparse_runs": "runs with sparse exchange, from settings to report",
    "supply_chain": "lock files",
    "tutorials": "the tutorials, followed word by word",
    "theorems": "theorems of the paper",
    "tree": "this file",
    "what_leaves": "what private agents leave in any file",
}
"""Tests of no module, but of the whole."""

SHARED = {"federation/test_history.py": "history.py beside it", "fuzz/test_crashes.py": "what fuzzing found"}
"""Tests of what tests share."""


def test_every_file_of_tests_has_the_name_of_what_it_tests():
    for path in sorted(TESTS.rglob("test_*.py")):
        folder, name = path.relative_to(TESTS).parent, path.stem.removeprefix("test_")
        if (folder == Path() and name in WHOLE) or path.relative_to(TESTS).as_posix() in SHARED:
            continue
        modules = {module.stem for module in (PACKAGE / folder).glob("*.py")}
        modules |= {package.parent.name for package in (PACKAGE / folder).glob("*/__init__.py")}
        assert any(f"{name}_".startswith(f"{module}_") for module in modules), f"{path} is named after no module"


def test_files_that_are_excused_exist():
    assert all((TESTS / f"test_{name}.py").is_file() for name in WHOLE)
    assert all((TESTS / path).is_file() for path in SHARED)


def test_no_two_tests_share_a_name_in_a_file_and_all_are_short():
    for path in TESTS.rglob("test_*.py"):
        names = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
        assert len(names) == len(set(names)), path
        assert all(len(name) < 80 for name in names), path
