"""For `make mutants`: what mutmut left alive, file by file, and an error if that is more than a tenth.

It is a plugin of pytest as well: mutmut 3.8 reads an attribute of tests that pytest 9.2 no longer has.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from difflib import ndiff
from pathlib import Path

import pytest

ENOUGH = 0.9
SURVIVED, NOT_RUN = 0, None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Gives the test its former attribute back."""
    if not hasattr(item, "_nodeid"):
        item._nodeid = item.nodeid


def changes(source: Path, mutant: str) -> Iterator[str]:
    """The lines in which a mutant differs from the original."""
    text = source.read_text()
    functions = {node.name: node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
    name = mutant.rpartition(".")[2]
    before, after = (
        [line.strip() for line in text.splitlines()[functions[one].lineno : functions[one].end_lineno]]
        for one in (re.sub(r"__mutmut_\d+$", "__mutmut_orig", name), name)
    )
    return (line for line in ndiff(before, after) if line[0] in "+-")


def main() -> int:
    """Prints the share of mutants that a test noticed, and all others; 1 if the share is too small."""
    killed = total = 0
    for meta in sorted(Path("mutants/src").rglob("*.meta")):
        source = meta.with_suffix("")
        found = {k: v for k, v in json.loads(meta.read_text())["exit_code_by_key"].items() if v is not NOT_RUN}
        alive = [mutant for mutant, code in found.items() if code == SURVIVED]
        if found:
            print(f"{source.relative_to('mutants/src')}: {len(found) - len(alive)} of {len(found)} killed")
        for mutant in alive:
            print(f"  {mutant}", *changes(source, mutant), sep="\n    ")
        killed, total = killed + len(found) - len(alive), total + len(found)
    print(f"{killed} of {total} mutants killed ({killed / max(1, total):.1%}).")
    return int(killed < ENOUGH * total)


if __name__ == "__main__":
    sys.exit(main())
