"""The documentation site is built without a warning, its links lead somewhere, and its notebooks run."""

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pytest

from consilience.base.options import flat, to_table
from consilience.settings.settings import Settings
from tests.report.browser import Browser

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "tutorials" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_notebooks_import_is_there(path):
    cells = [cell["source"] for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    lines = [line for source in cells for line in source if line.startswith(("import ", "from "))]
    assert lines
    exec("\n".join(lines), {})


@pytest.mark.slow
def test_the_site_is_built_offline_and_asks_for_nothing_from_outside(tmp_path):
    pytest.importorskip("material", reason="mkdocs-material is not installed: pip install 'consilience[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "-d", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = [page for page in (tmp_path / "site").rglob("*.html") if page.name != "404.html"]
    assert len(pages) > 30
    for page in pages:
        text = page.read_text()
        assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=\"https?://", text), page.name
        for target in re.findall(r'(?:href|src)="([^"#:]+)(?:#[^"]*)?"', text):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
        assert "arithmatex" not in text, "every equation is set"
    settings = (tmp_path / "site" / "reference" / "settings.html").read_text()
    told = {name.rpartition(": ")[2] for name in re.findall(r"<code>(.*?)</code>", settings)}  # also "joint: option"
    assert {key.rpartition(".")[2] for key in flat(to_table(Settings()))} <= told
    commands = (tmp_path / "site" / "reference" / "commands.html").read_text()
    assert all(f">consilience {name}<" in commands for name in ("run", "site check", "federation new", "predict"))
    assert "generated:" not in settings + commands
    api = (tmp_path / "site" / "reference" / "api.html").read_text()
    assert "collaborate" in api
    count = sum(len(functions) for functions in equations().values())
    assert api.count('<div class="equation"') == count, "every function with an equation has it"


@pytest.mark.slow
def test_searching_works_in_pages_opened_from_a_disk(tmp_path):
    pytest.importorskip("material", reason="mkdocs-material is not installed: pip install 'consilience[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "-d", str(tmp_path / "site")]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    browser = Browser(tmp_path / "profile")
    try:
        browser.look(1400)
        browser.open((tmp_path / "site" / "how-to" / "sweeps.html").as_uri() + "?q=temperature")
        browser.until("document.querySelector('.md-search-result__item a') !== null")
        found = browser.value("[...document.querySelectorAll('.md-search-result__item a')].map(link => link.href)")
        assert any("/reference/" in link for link in found)
    finally:
        browser.close()


def equations() -> dict[str, dict[str, str]]:
    return runpy.run_path(str(ROOT / "docs" / "hooks.py"))["EQUATIONS"]


def test_every_equation_is_that_of_a_function_that_is_there():
    for module, functions in equations().items():
        for name in functions:
            assert callable(resolve_name(f"consilience.core.{module}:{name}")), name
    text = (ROOT / "docs" / "reference" / "notation.md").read_text()
    known = set(re.findall(r"`core\.(?:labels|trust|consensus|federated|stratified)\.(\w+)`", text))
    conditions = {"lowest_importance", "lower_importance", "ideal_trust"}  # several lines each, or the same as another
    assert known - conditions <= {name for functions in equations().values() for name in functions}


def test_examples_in_docstrings_are_code_and_mathematics_is_no_markup():
    pytest.importorskip("griffe")
    shown = runpy.run_path(str(ROOT / "docs" / "docstrings.py"))["shown"]
    text = "1/n* of <a, b> in `x < 2 * y`.\n\n>>> 1 + 1\n2"
    assert shown(text) == "1/n\\* of &lt;a, b> in `x < 2 * y`.\n\n```pycon\n>>> 1 + 1\n2\n```"


def test_equations_can_be_set():
    pytest.importorskip("latex2mathml")
    set_ = runpy.run_path(str(ROOT / "docs" / "hooks.py"))["mathml"]
    for functions in equations().values():
        for latex in functions.values():
            assert "\\" not in set_(latex), latex


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output["data"] for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    if path.stem == "between-sites":
        assert shown[-2]["text/plain"] == "[0, 0, 0]"
    else:
        [result] = [one for one in shown if one["text/plain"].startswith("Result(")]
        assert "<table" in result["text/html"] and "<svg" in result["text/html"]
        assert len(result["text/plain"]) < 300
    if path.stem == "first-run":
        [trust] = [one["text/plain"] for one in shown if one["text/plain"].startswith("array")]
        received = np.array(re.findall(r"\d\.\d*", trust), float).reshape(4, 4).mean(axis=0)
        assert received[3] < 0.1 < 0.15 < received[:3].min(), "nobody trusts the agent whose labels are mixed up"
    if path.stem == "own-data":
        assert "NaN" in shown[0]["text/plain"], "the table has gaps"
        together = re.search(r"together +(\S+) +(\S+)", shown[-1]["text/plain"])
        assert float(together[1]) > 0.5, "an old patient with severe pain is ill"


def test_there_are_three_notebooks_without_outputs():
    assert len(NOTEBOOKS) == 3
    for path in NOTEBOOKS:
        assert '"outputs": []' in path.read_text()
