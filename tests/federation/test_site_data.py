"""What a site may hold: tables with words and gaps, images, values, several labels; and its own preprocessing."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from consilience import ConsilienceError
from consilience.base.rows import count
from consilience.export.folder import export_agent, load_model
from consilience.federation.membership import make_keys, new_federation, write_site
from consilience.federation.peers.frame import Format
from consilience.federation.site import Site, load_site
from consilience.federation.site_agent import build_site_agent
from consilience.federation.site_notes import site_notes
from tests.federation.conftest import sign

Make = Callable[..., Path]


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The keys of three sites."""
    folder = tmp_path_factory.mktemp("members")
    for number, name in enumerate("abc"):
        make_keys(folder / name, name, f"127.0.0.1:{7000 + number}", folder / "ca")
    return folder


@pytest.fixture
def make(members: Path, tmp_path: Path) -> Make:
    """Writes the site.toml of site a into the folder that holds its data, and the federation file."""

    def write(task: str, classes: list[str], **entries: object) -> Path:
        shared, files = tmp_path / str(entries["shared"]), [members / name / "member.toml" for name in "abc"]
        agreed = new_federation("t", shared, classes, files, {"rounds": 4}, 5.0, task=task)
        (tmp_path / "federation.toml").write_text(agreed.to_toml())
        sign(tmp_path / "federation.toml", *(members / name / "site.toml" for name in "ab"))
        keys = {
            "signing_key": "keys/signing.key",
            "encryption_key": "keys/encryption.key",
            "tls_key": "keys/tls.key",
            "tls_certificate": "keys/tls.crt",
            "ca": "keys/ca.crt",
        }
        own = {entry: str(members / "a" / path) for entry, path in keys.items()}
        write_site(tmp_path / "site.toml", replace(Site("a"), **own, **entries))  # type: ignore[arg-type]
        return tmp_path / "site.toml"

    return write


@pytest.fixture
def table() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    found = pd.DataFrame({"age": draw.normal(55, 9, 60), "pain": draw.choice(["none", "typical"], 60)})
    found.loc[::5, "age"], found.loc[::7, "pain"] = np.nan, None
    ill = found["pain"] == "typical"
    return found.assign(diagnosis=np.where(ill, "ill", "healthy"), ill=ill.astype(int), old=1, cost=ill * 2.5 + 1)


def trained(path: Path) -> np.ndarray:
    """What the site's agent predicts of the shared data after two rounds, one of them with pseudo-labels."""
    prepared = load_site(path)
    agent, evaluation = build_site_agent(prepared)
    shared = prepared.features(prepared.shared)
    agent.train(shared, None, 0.0)
    f = agent.predict(shared)
    agent.train(shared, f, 0.5)
    f = agent.predict(shared)
    assert f.shape == (count(prepared.shared), len(prepared.federation.classes))
    assert np.isfinite(f).all()
    scores = evaluation.scores(agent, f)
    assert any(value == value for key, value in scores.items() if key.endswith("_own"))
    assert Format(prepared.federation).task == agent.task.name == prepared.federation.task
    return np.asarray(f)


@pytest.mark.parametrize("model", ["forest", "logistic", "mlp"])
def test_a_table_with_words_and_gaps(make: Make, table: pd.DataFrame, model: str, tmp_path: Path) -> None:
    table[["age", "pain"]][:20].to_csv(tmp_path / "shared.csv", index=False)
    table[["age", "pain", "diagnosis"]][20:].to_csv(tmp_path / "patients.csv", index=False)
    path = make(
        "classification", ["healthy", "ill"], shared="shared.csv", data="patients.csv", label="diagnosis", model=model
    )
    f = trained(path)
    truth = (table["pain"][:20] == "typical").to_numpy()
    assert ((f[:, 1] > 0.5) == truth).mean() > 0.9


def test_how_a_site_reads_its_table_is_said(make: Make, table: pd.DataFrame, tmp_path: Path) -> None:
    columns = table[["age", "pain"]].assign(row_id=np.arange(60) + 500, weight=np.arange(60) % 9 + 70.0)
    columns[:20].to_csv(tmp_path / "shared.csv", index=False)
    own = columns[20:].assign(diagnosis=table["diagnosis"][20:], ward="b", weight=columns["weight"] * 2.2)
    own.to_csv(tmp_path / "patients.csv", index=False, sep=";")
    entries = {"shared": "shared.csv", "data": "patients.csv", "label": "diagnosis", "model": "logistic"}
    notes, warnings = site_notes(load_site(make("classification", ["healthy", "ill"], **entries)))
    assert "patients.csv: columns are separated by semicolons." in notes
    assert "patients.csv has columns that the shared data lack, which are not used: ward." in notes
    assert any(
        line.startswith("age: number, 4 gaps in shared.csv, 8 in patients.csv: scaled; gaps become") for line in notes
    )
    assert any(line.startswith("row_id: identifier") and "not used" in line for line in notes)
    assert any(text.startswith("weight: 154 to 171.6 at this site, 70 to 78 elsewhere") for text in warnings)
    assert any(text.startswith("pain alone predicts the label almost perfectly") for text in warnings)
    assert any('drop=["pain"]' in text for text in warnings)
    asked = entries | {"drop": ("pain",), "types": {"row_id": "number"}}
    prepared = load_site(make("classification", ["healthy", "ill"], **asked))
    assert prepared.features(prepared.shared).shape[1] == 4, "age, its gaps, row_id and weight"
    notes, warnings = site_notes(prepared)
    assert any(line.startswith("pain: category") and line.endswith("left out by data.drop") for line in notes)
    assert any(text.startswith("row_id has a different value in every row") for text in warnings)
    assert not any(text.startswith("pain") for text in warnings)


def test_gaps_in_the_private_table_alone(make: Make, table: pd.DataFrame, tmp_path: Path) -> None:
    table.assign(age=table["age"].fillna(50.0))[["age", "old"]][:20].to_csv(tmp_path / "shared.csv", index=False)
    table[["age", "old", "ill"]][20:].to_csv(tmp_path / "patients.csv", index=False)
    entries = {"shared": "shared.csv", "data": "patients.csv", "label": "ill", "model": "logistic"}
    with pytest.raises(ConsilienceError, match=r"patients.csv: line 2 has a missing"):
        trained(make("classification", ["no", "yes"], **entries))
    trained(make("classification", ["no", "yes"], **entries, preprocess="table"))


@pytest.mark.parametrize(
    ("task", "label", "model"),
    [("regression", "cost", "forest"), ("regression", "cost", "mlp"), ("multilabel", "ill,old", "logistic")],
)
def test_values_and_several_labels(
    make: Make, table: pd.DataFrame, task: str, label: str, model: str, tmp_path: Path
) -> None:
    table[["age", "pain"]][:20].to_parquet(tmp_path / "shared.parquet")
    table[["age", "pain", *label.split(",")]][20:].to_parquet(tmp_path / "patients.parquet")
    names = label.split(",")
    f = trained(make(task, names, shared="shared.parquet", data="patients.parquet", label=label, model=model))
    if model != "mlp":
        assert np.corrcoef(f[:, 0], table["pain"][:20] == "typical")[0, 1] > 0.8


def test_folders_of_images(make: Make, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for folder, shade in (("train/ill", 220), ("train/well", 30), ("shared", 200)):
        (tmp_path / folder).mkdir(parents=True)
        for number in range(10):
            image.new("RGB", (12, 12), (shade + number, 0, 0)).save(tmp_path / folder / f"{number}.png")
    f = trained(make("classification", ["ill", "well"], shared="shared", data="train", model="cnn", side=8))
    assert (f[:, 0] > 0.5).all()


PIPELINE = """
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder

preprocessing = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["pain"]))
"""
FUNCTION = """
def transform(rows):
    return (rows[["pain"]] == "typical").to_numpy("float32")
"""


@pytest.mark.parametrize(("text", "columns"), [(PIPELINE, 3), (FUNCTION, 1)])
def test_preprocessing_of_ones_own(make: Make, table: pd.DataFrame, text: str, columns: int, tmp_path: Path) -> None:
    table[["age", "pain"]][:20].to_csv(tmp_path / "shared.csv", index=False)
    table[["age", "pain", "diagnosis"]][20:].to_csv(tmp_path / "patients.csv", index=False)
    (tmp_path / "prepare.py").write_text(text)
    entries = {"shared": "shared.csv", "data": "patients.csv", "label": "diagnosis", "model": "logistic"}
    path = make("classification", ["healthy", "ill"], **entries, preprocess="prepare.py")
    prepared = load_site(path)
    assert prepared.features(prepared.shared).shape == (20, columns)
    trained(path)
    agent, _ = build_site_agent(prepared)
    agent.train(prepared.features(prepared.shared), None, 0.0)
    if text == FUNCTION:
        with pytest.raises(ConsilienceError, match=r"`transform` of prepare\.py is a Python function, which cannot be"):
            export_agent(agent, tmp_path / "model", prepared.shared, prepare=prepared.prepare_steps())
    else:
        export_agent(agent, tmp_path / "model", prepared.shared, prepare=prepared.prepare_steps())
        f = agent.predict(prepared.features(table))
        np.testing.assert_allclose(load_model(tmp_path / "model").predict(table), f, rtol=0, atol=1e-6)
    (tmp_path / "nothing.py").write_text("x = 1")
    with pytest.raises(ConsilienceError, match="neither a function transform"):
        load_site(make("classification", ["healthy", "ill"], **entries, preprocess="nothing.py"))


def test_a_federation_for_values_may_have_one_and_others_must_have_two_classes(
    make: Make, table: pd.DataFrame, tmp_path: Path
) -> None:
    table[["age"]].fillna(0).to_csv(tmp_path / "shared.csv", index=False)
    make("regression", ["cost"], shared="shared.csv", data="x.csv", model="forest")
    with pytest.raises(ConsilienceError, match="at least two classes"):
        make("classification", ["cost"], shared="shared.csv", data="x.csv", model="forest")
    with pytest.raises(ConsilienceError, match="task is 'ranking'"):
        make("ranking", ["cost"], shared="shared.csv", data="x.csv", model="forest")
