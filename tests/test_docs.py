"""What the documents say is true: their code runs, their links lead somewhere."""

import re
import runpy
import shlex
from dataclasses import fields, is_dataclass
from inspect import getdoc, isfunction, signature
from io import StringIO
from itertools import pairwise
from pathlib import Path
from pkgutil import resolve_name

import pandas as pd
import pytest

import consilience
from consilience.base import toml
from consilience.base.options import Options
from consilience.cli.runs import split_names
from consilience.methods import method_named
from consilience.settings.presets import preset_names, read_settings
from consilience.settings.settings import Settings, parse_change, settings_from

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("research/*.md")]


def test_the_readme_is_short_and_prints_what_it_shows(tmp_path, monkeypatch, capsys):
    text = (ROOT / "README.md").read_text()
    assert len(text.encode()) <= 6000
    [code], [shown] = (
        re.findall(r"```python\n(.*?)```", text, re.DOTALL),
        re.findall(r"```text\n(.*?)```", text, re.DOTALL),
    )
    assert len(code.splitlines()) <= 12
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(code)
    runpy.run_path("mine.py")
    table = pd.read_fwf(StringIO(shown)).set_index("agent")[["alone", "together", "gain", "low", "high"]]
    printed = pd.read_fwf(StringIO(capsys.readouterr().out)).set_index("agent")[table.columns]
    pd.testing.assert_frame_equal(printed, table, atol=0.03)
    assert Path("report.html").exists()


def test_the_table_and_the_texts_of_the_documents_are_read():
    import torch
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
    from transformers import BertConfig, BertForSequenceClassification

    page = ROOT / "docs" / "how-to" / "own-data.md"
    [code] = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    names = {
        "cs": consilience,
        "make_column_transformer": make_column_transformer,
        "OneHotEncoder": OneHotEncoder,
        "make_pipeline": make_pipeline,
        "LogisticRegression": LogisticRegression,
        "patients": pd.DataFrame({"age": [50, 61], "pain": ["none", None], "diagnosis": ["ill", "well"]}),
        "bert": BertForSequenceClassification(config),
        "tokenizer": lambda rows, return_tensors: {"input_ids": torch.ones(len(rows), 3, dtype=torch.long)},
        "texts": ["one text", "another"],
        "topics": ["garden", "kitchen"],
    }
    made = [eval(line, exec(code.splitlines()[0], names) or names) for line in code.splitlines()[1:]]
    assert [agent.class_names for agent in made] == [("ill", "well"), ("garden", "kitchen")]
    assert all(
        agent.predict(names[rows]).shape == (2, 2) for agent, rows in zip(made, ("patients", "texts"), strict=True)
    )


QUICK = ("bring_your_own.py", "mixed_table.py", "take_home.py")
"""Examples that `make test` runs; `make slow` runs the others."""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=() if path.name in QUICK else pytest.mark.slow)
        for path in sorted((ROOT / "examples").glob("*.py"))
    ],
    ids=lambda path: path.name,
)
def test_examples_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    real = [folder / "shared" / "data" for folder in ROOT.parents if (folder / "shared" / "data").is_dir()]
    if real:
        monkeypatch.setenv("CONSILIENCE_DATA", str(real[0]))
    names = runpy.run_path(str(path))
    if "gains" in names:
        assert (names["gains"]["gain"] > 0).all(), "every agent ends better than after equal training alone"
        return
    scores = names.get("scores")
    if scores is None:  # it checks itself
        return
    if path.name == "mixed_table.py" and not real:
        return  # made-up patients: not every one of them gains
    better = -1 if names["scores"].columns.name and "rmse" in names["alone"].name else 1
    assert better * (scores.iloc[-1] - names["alone"]).mean() > 0, "together they are better than alone, in the mean"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_to_a_heading_lead_to_one(path):
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text()):
        page = path.parent / target if target else path
        headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
        known = [re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings]
        assert anchor in known, f"{path.name} links to {target}#{anchor}"


PAGES = sorted((ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_says_first_for_whom_it_is_and_what_they_have_at_its_end(path):
    title, paragraph = path.read_text().split("\n\n")[:2]
    assert title.startswith("# ")
    assert paragraph.startswith("For everybody"), paragraph
    assert re.search(r"\b(you|will|each takes)\b", paragraph, re.IGNORECASE)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_have_no_words_of_a_laboratory(path):
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    assert re.findall(r"\b(goals?|anew|liars?|aim(?:ed)? for|earlier version)\b", text) == []


@pytest.mark.parametrize("path", [path for path in PAGES if path.parent.name == "results"], ids=lambda path: path.name)
def test_pages_of_results_are_short_and_have_the_command_of_their_numbers(path):
    text = path.read_text()
    tables = r"^\|.*\n" if path.name == "speed.md" else r"(?!)"
    assert len(re.sub(tables, "", text, flags=re.MULTILINE).split()) <= 800
    assert re.search(r"consilience |python -m benchmarks|make bench", text)


def test_every_function_that_notation_names_exists():
    """docs/reference/notation.md maps equations to functions: each must be there."""
    names = re.findall(
        r"`((?:core|tasks|agents|methods)\.[\w.]+)`", (ROOT / "docs" / "reference" / "notation.md").read_text()
    )
    assert len(names) > 30
    for name in names:
        assert callable(resolve_name(f"consilience.{name}")), name


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_source_file_that_is_named_exists(path):
    """Names such as `methods/consensus.py`, from src/consilience or from the top."""
    for name in re.findall(r"`((?:\w+/)+\w+\.py)`", path.read_text()):
        assert any((place / name).exists() for place in (ROOT, ROOT / "src" / "consilience")), name


def public_names() -> list[tuple[str, str]]:
    """The home module and the name of everything that the stubs of the public modules import."""
    stubs = [ROOT / "src" / "consilience" / file for file in ("__init__.pyi", "extend.pyi", "loggers.pyi")]
    stubs.append(ROOT / "src" / "consilience" / "core" / "__init__.pyi")
    text = "".join(stub.read_text() for stub in stubs)
    return re.findall(r"^from (consilience\.\S+) import (\w+) as ", text, re.MULTILINE)


def test_every_public_name_is_documented():
    """docs/reference/api.md has an entry for each, or for its module; registries are in the text."""
    text = (ROOT / "docs" / "reference" / "api.md").read_text()
    entries = set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))
    for entry in entries:
        resolve_name(entry)
    missing = [
        name
        for home, name in public_names()
        if home not in entries and f"{home}.{name}" not in entries and f"`{name}`" not in text
    ]
    assert missing == []


def parameters(thing: object) -> list[str]:
    """Of a function or a class; fields of dataclasses without options are described where they are declared."""
    if isinstance(thing, type) and issubclass(thing, Options):
        return [field.name for field in fields(thing)]
    called = vars(thing).get("__init__") if isinstance(thing, type) and not is_dataclass(thing) else thing
    known = signature(called).parameters.values() if isfunction(called) else ()
    return [known.name for known in known if known.name != "self" and known.kind.name[:3] != "VAR"]


def test_public_classes_and_functions_list_their_parameters():
    for home, name in public_names():
        thing = resolve_name(f"{home}.{name}")
        lacking = [parameter for parameter in parameters(thing) if f"    {parameter}: " not in (getdoc(thing) or "")]
        assert lacking == [], name


def test_every_package_is_in_contributing():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for package in (ROOT / "src" / "consilience").glob("*/__init__.py"):
        assert f"| `{package.parent.name}/`" in text


def commands(path: Path) -> list[list[str]]:
    """The words of every `consilience run` and `consilience compare` in a document."""
    text = path.read_text().replace("\\\n", " ")
    found = re.findall(r"\bconsilience ((?:run|compare) [^`\n]*)", text)
    return [shlex.split(line, comments=True) for line in found]


COMMANDS = [(path.name, words) for path in DOCUMENTS for words in commands(path)]


@pytest.mark.parametrize(
    ("page", "words"), [(p, w) for p, w in COMMANDS if "plugins=" not in " ".join(w)], ids=" ".join
)
def test_settings_and_methods_of_commands_are_known(page, words):
    """They are read as the program would read them; those with plugins are run by others."""
    source = words[1] if len(words) > 1 and words[1] in preset_names() else "digits"
    after = dict(pairwise(words))
    changes = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
    settings = read_settings(source, dict(parse_change(text) for text in changes))
    for method in split_names(after.get("--methods", "")):
        method_named(method, settings.method)


def test_there_are_commands_to_check():
    assert len(COMMANDS) > 15


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_settings_in_toml_are_known(path):
    for text in re.findall(r"```toml\n(.*?)```", path.read_text(), re.DOTALL):
        tables = toml.parse(text, path.name)
        if set(tables) <= {"data", "agents", "training", "method", "run"}:
            assert settings_from(tables, path.name) != Settings()


def test_contributing_agrees_with_the_makefile():
    """Every target is in the table, and takes as long as the Makefile says."""
    makefile, table = (ROOT / "Makefile").read_text(), (ROOT / "CONTRIBUTING.md").read_text()
    for target, meaning in re.findall(r"^([a-z]+):.*?## (.*)$", makefile, re.MULTILINE):
        [line] = [line for line in table.splitlines() if line.endswith(f"`make {target}` |")]
        for minutes in re.findall(r"about \w+ minutes", meaning):
            assert minutes in line


def test_the_drawing_of_the_layout_is_that_of_the_imports():
    """If it is not: python docs/layout.py."""
    layout = runpy.run_path(str(ROOT / "docs" / "layout.py"))
    found = layout["imports"]()
    assert {path.parent.name for path in (ROOT / "src" / "consilience").glob("*/__init__.py")} <= set(found)
    assert (ROOT / "docs" / "layout.svg").read_text() == layout["drawing"](found)


def test_versions_agree():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == consilience.__version__
    assert f"version: {consilience.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {consilience.__version__}" in (ROOT / "CHANGELOG.md").read_text()
