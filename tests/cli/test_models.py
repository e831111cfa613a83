"""A model goes home with everything that the program did to its rows: the very file of a hospital is predicted."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from consilience.base.errors import ConsilienceError
from consilience.cli.main import app
from consilience.data.datasets import Request
from consilience.data.loading import load
from consilience.experiments.run import restore
from consilience.export.folder import load_model
from consilience.export.inputs import read_samples
from consilience.export.manifest import Manifest
from consilience.settings.presets import read_settings
from consilience.workers.work import work

SMALL = {"low_quality": [], "rounds": 3, "warmup": 1, "shared_per_agent": 20, "references": []}
ROWS, NEW = 300, 60


def call(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Predictions without a process of their own, which takes seconds; `export/test_isolated.py` has that process."""

    def predict(folder: Path, samples: Path, seconds: float, memory: float, at: str) -> tuple[np.ndarray, Manifest]:
        model = load_model(folder)
        return model.predict(read_samples(samples, model.manifest.inputs), at), model.manifest

    monkeypatch.setattr("consilience.export.isolated.predict_isolated", predict)


def made_up(rows: int) -> pd.DataFrame:
    """Patients of three hospitals: words, numbers, dates, gaps, free texts, wards called 01, and a number of each."""
    draw = np.random.default_rng(0)
    pain = draw.choice(["none", "typical", "odd"], rows, p=[0.5, 0.3, 0.2])
    ill = (pain == "typical") ^ (draw.random(rows) < 0.1)
    said = np.where(ill, "coughs badly and often", "sleeps rather well today")
    table = pd.DataFrame(
        {
            "patient_id": [f"p{number:04d}" for number in range(rows)],
            "age": draw.normal(60, 10, rows).round(1),
            "pain": pain,
            "ward": draw.choice(["01", "02", "A3"], rows),
            "admitted": [f"{number % 28 + 1:02d}.{number % 12 + 1:02d}.2021" for number in range(rows)],
            "children": draw.integers(0, 4, rows),
            "note": [f"{words} visit {number % 7} seen by nurse {number % 11}" for number, words in enumerate(said)],
            "smoker": draw.random(rows) < 0.4,
            "diagnosis": np.where(ill, "ill", "healthy"),
            "hospital": draw.choice(["north", "south", "east"], rows),
        }
    )
    for column, every in (("age", 6), ("pain", 8), ("note", 9)):
        table.loc[::every, column] = None
    return table


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on patients.csv, three exported models, and new patients in another order of columns."""
    folder = tmp_path_factory.mktemp("home")
    table = made_up(ROWS + NEW)
    table[:ROWS].to_csv(folder / "patients.csv", index=False)
    columns = ["note", "hospital", "children", "smoker", "age", "ward", "admitted", "pain", "diagnosis"]
    table[ROWS:][columns].to_csv(folder / "new.csv", index=False)
    own = {"dataset": str(folder / "patients.csv"), "label": "diagnosis", "data.agent": "hospital"}
    work(read_settings("digits", SMALL | own | {"models": ["forest", "mlp", "logistic"]}), folder / "run")
    for name in ("north", "south", "east"):
        call("export", folder / "run", "--agent", name, "--to", folder / name)
    return folder


@pytest.mark.parametrize("name", ["north", "south", "east"])
def test_a_raw_table_is_predicted_as_the_agent_does(home: Path, tmp_path: Path, name: str) -> None:
    [agent] = restore(home / "run", [name]).agents
    new = made_up(ROWS + NEW)[ROWS:]
    call("predict", home / "new.csv", "--model", home / name, "--out", tmp_path / "p.csv")
    said = pd.read_csv(tmp_path / "p.csv")
    assert list(said.columns) == ["healthy", "ill"]
    np.testing.assert_allclose(said.to_numpy(), agent.predict(new), rtol=0, atol=1e-6)
    assert (np.where(said["ill"] > 0.5, "ill", "healthy") == new["diagnosis"]).mean() > 0.7
    assert not [path for path in (home / name).iterdir() if path.suffix in (".pkl", ".pickle", ".joblib")]


def test_the_training_file_itself_is_predicted(home: Path, tmp_path: Path) -> None:
    call("predict", home / "patients.csv", "--model", home / "east", "--out", tmp_path / "p.csv")
    said, truth = pd.read_csv(tmp_path / "p.csv"), pd.read_csv(home / "patients.csv")["diagnosis"]
    assert (np.where(said["ill"] > 0.5, "ill", "healthy") == truth).mean() > 0.8


@pytest.mark.slow
def test_each_patient_alone_is_predicted_as_among_others(home: Path, tmp_path: Path) -> None:
    """A file of one row has other types: a ward 01 looks like a number there, and a gap like a column of them."""
    texts = pd.read_csv(home / "new.csv", dtype=str)
    call("predict", home / "new.csv", "--model", home / "south", "--out", tmp_path / "all.csv")
    everyone = pd.read_csv(tmp_path / "all.csv").to_numpy()
    for row in (int((texts["ward"] == "01").argmax()), int(texts["note"].isna().argmax()), 5):
        texts[row : row + 1].to_csv(tmp_path / "one.csv", index=False)
        call("predict", tmp_path / "one.csv", "--model", home / "south", "--out", tmp_path / "p.csv")
        np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv").to_numpy(), everyone[row : row + 1], atol=1e-6)


def test_a_column_that_is_missing_is_named_and_so_is_a_word_among_numbers(home: Path, tmp_path: Path) -> None:
    table = pd.read_csv(home / "new.csv", dtype=str)
    table.drop(columns=["age", "note"]).to_csv(tmp_path / "few.csv", index=False)
    with pytest.raises(ConsilienceError, match=r"few\.csv has no column 'age', 'note'\. It has: hospital"):
        call("predict", tmp_path / "few.csv", "--model", home / "east")
    table.loc[3, "age"] = "sixty"
    table.to_csv(tmp_path / "word.csv", index=False)
    with pytest.raises(ConsilienceError, match=r"column 'age' holds numbers, and row 3 has 'sixty'"):
        call("predict", tmp_path / "word.csv", "--model", home / "east")


def test_the_card_says_what_the_model_takes(home: Path) -> None:
    card = (home / "east" / "README.md").read_text()
    assert "A sample is a row with the columns age, pain, ward, admitted, children, note, smoker." in card
    assert "| age | number: scaled; gaps become the median and are marked |" in card
    assert "| pain | category: 0 or 1 for each of 4 values; gaps are one of them (missing, none, odd, typical)" in card
    assert "| admitted | date: days since 1970, scaled (read as day.month.year) |" in card
    assert "| note | text: tf-idf of its words |" in card
    assert "patient_id" not in card


def test_a_table_of_numbers_alone_is_read_by_the_names_of_its_columns(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    table = pd.DataFrame(draw.normal(size=(300, 3)), columns=list("xyz")).assign(site=draw.choice(["a", "b"], 300))
    table["ill"] = np.where(table["x"] > 0, "yes", "no")
    table.to_csv(tmp_path / "numbers.csv", index=False)
    own = {"dataset": str(tmp_path / "numbers.csv"), "label": "ill", "data.agent": "site", "models": ["logistic"]}
    work(read_settings("digits", SMALL | own), tmp_path / "run")
    call("export", tmp_path / "run", "--agent", "b", "--to", tmp_path / "model")
    table[["ill", "z", "site", "y", "x"]].to_csv(tmp_path / "turned.csv", index=False)
    call("predict", tmp_path / "turned.csv", "--model", tmp_path / "model", "--out", tmp_path / "p.csv")
    said = pd.read_csv(tmp_path / "p.csv")
    [agent] = restore(tmp_path / "run", ["b"]).agents
    rows = table[["x", "y", "z"]].to_numpy(np.float32)
    np.testing.assert_allclose(said.to_numpy(), agent.predict(rows), rtol=0, atol=1e-6)
    assert (np.where(said["yes"] > 0.5, "yes", "no") == table["ill"]).mean() > 0.9


def test_people_of_the_census_are_predicted_as_the_census_has_them(tmp_path: Path, monkeypatch) -> None:
    draw, rows = np.random.default_rng(0), 160
    table = pd.DataFrame(
        {
            "age": draw.integers(18, 80, rows),
            "workclass": draw.choice(["Private", "?", "State-gov"], rows),
            "fnlwgt": draw.integers(1, 10**6, rows),
            "education": draw.choice(["HS-grad", "Masters"], rows),
            "education.num": draw.integers(1, 16, rows),
        }
    )
    table["income"] = np.where(table["education.num"] > 8, ">50K", "<=50K")
    (tmp_path / "data" / "adult").mkdir(parents=True)
    table.to_csv(tmp_path / "data" / "adult" / "adult.csv", index=False)
    monkeypatch.setenv("CONSILIENCE_DATA", str(tmp_path / "data"))
    census = SMALL | {"dataset": "adult", "agents.count": 2, "models": ["logistic", "mlp"], "partition": "iid"}
    work(read_settings("digits", census), tmp_path / "run")
    for name in "01":
        call("export", tmp_path / "run", "--agent", name, "--to", tmp_path / name)
        table.iloc[:, ::-1].to_csv(tmp_path / "people.csv", index=False)
        call("predict", tmp_path / "people.csv", "--model", tmp_path / name, "--out", tmp_path / "p.csv")
        [agent] = restore(tmp_path / "run", [name]).agents
        expected = agent.predict(load("adult", Request(tmp_path / "data")).x)
        np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv").to_numpy(), expected, rtol=0, atol=1e-6)
    card = (tmp_path / "0" / "README.md").read_text()
    assert "as consilience loads it" not in card and "| workclass | category" in card and "fnlwgt" not in card


def test_news_are_predicted_from_their_texts(tmp_path: Path, monkeypatch) -> None:
    draw = np.random.default_rng(0)
    words = [["war", "election"], ["goal", "match"], ["stocks", "profit"], ["robot", "software"]]
    labels = np.arange(160) % 4
    texts = [" ".join([*draw.choice(words[label], 2), *draw.choice(["today", "again", "said"], 3)]) for label in labels]
    table = pd.DataFrame({"text": texts, "label": labels})
    for part in ("train", "test"):
        path = tmp_path / "data" / "ag-news" / "data" / f"{part}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        table.to_parquet(path, index=False)
    monkeypatch.setenv("CONSILIENCE_DATA", str(tmp_path / "data"))
    news = SMALL | {"dataset": "ag-news", "side": 64, "agents.count": 2, "partition": "iid"}
    work(read_settings("digits", news | {"models": ["logistic", "mlp"]}), tmp_path / "run")
    table[["label", "text"]].to_csv(tmp_path / "news.csv", index=False)
    for name in "01":
        call("export", tmp_path / "run", "--agent", name, "--to", tmp_path / name)
        call("predict", tmp_path / "news.csv", "--model", tmp_path / name, "--out", tmp_path / "p.csv")
        [agent] = restore(tmp_path / "run", [name]).agents
        x = load("ag-news", Request(tmp_path / "data", side=64)).x[: len(texts)]
        said = pd.read_csv(tmp_path / "p.csv")
        np.testing.assert_allclose(said.to_numpy(), agent.predict(x), rtol=0, atol=1e-6)
        np.testing.assert_array_equal(load_model(tmp_path / name).predict(texts), agent.predict(x))
        assert list(said.columns) == ["World", "Sports", "Business", "Sci/Tech"]
    assert "Samples are the texts of news items" in (tmp_path / "0" / "README.md").read_text()


def test_raw_pixels_of_digits_and_raw_features_of_patients(tmp_path: Path) -> None:
    from sklearn.datasets import load_breast_cancer, load_digits

    digits, labels = load_digits(return_X_y=True)
    small = SMALL | {"agents.count": 2, "models": ["forest"]}
    work(read_settings("digits", small | {"limit": 60}), tmp_path / "digits")
    call("export", tmp_path / "digits", "--agent", "0", "--to", tmp_path / "reader")
    model, [agent] = load_model(tmp_path / "reader"), restore(tmp_path / "digits", ["0"]).agents
    scaled = (digits / 8 - 1).astype(np.float32).reshape(-1, 1, 8, 8)
    np.testing.assert_allclose(model.predict(digits), agent.predict(scaled), rtol=0, atol=1e-6)
    assert (model.predict(digits).argmax(axis=1) == labels).mean() > 0.7
    bunch = load_breast_cancer(as_frame=True)
    work(read_settings("digits", small | {"dataset": "breast-cancer"}), tmp_path / "cells")
    call("export", tmp_path / "cells", "--agent", "0", "--to", tmp_path / "doctor")
    bunch.data.iloc[:, ::-1].to_csv(tmp_path / "cells.csv", index=False)
    call("predict", tmp_path / "cells.csv", "--model", tmp_path / "doctor", "--out", tmp_path / "p.csv")
    [agent] = restore(tmp_path / "cells", ["0"]).agents
    scaled = load("breast-cancer").x
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv").to_numpy(), agent.predict(scaled), rtol=0, atol=1e-6)


def test_image_files_are_brought_to_the_size_and_the_scale_of_training(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    draw = np.random.default_rng(0)
    for number in range(150):
        ill = number % 2 == 1
        pixels = draw.integers(0, 60, (12, 12, 3)).astype(np.uint8)
        pixels[3:9, 3:9, 0] += 150 * ill
        for place in (("own", "ill" if ill else "well"), ("new",))[: 2 if number < 20 else 1]:
            (tmp_path / Path(*place)).mkdir(parents=True, exist_ok=True)
            image.fromarray(pixels).save(tmp_path / Path(*place) / f"{number:03}.png")
    own = {"dataset": str(tmp_path / "own"), "side": 8, "agents.count": 2, "models": ["cnn"], "partition": "iid"}
    work(read_settings("digits", SMALL | own), tmp_path / "run")
    call("export", tmp_path / "run", "--agent", "0", "--to", tmp_path / "model")
    call("predict", tmp_path / "new", "--model", tmp_path / "model", "--out", tmp_path / "p.csv")
    said = pd.read_csv(tmp_path / "p.csv")["ill"].to_numpy()
    assert ((said > 0.5) == (np.arange(20) % 2 == 1)).mean() > 0.9
    assert "reads image files as the training images were" in (tmp_path / "model" / "README.md").read_text()
