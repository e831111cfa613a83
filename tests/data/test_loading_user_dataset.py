"""The user's own dataset and agents in `run` and `compare`."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from consilience import ConsilienceError
from consilience.data.datasets import Dataset, Request
from consilience.data.loading import load
from consilience.experiments.run import run_experiment
from consilience.settings.presets import read_settings
from consilience.settings.wiring import build_agents, build_scenario


@pytest.fixture(scope="module")
def patients() -> pd.DataFrame:
    """Numbers, words, gaps and a date; the illness follows from age and pain."""
    draw = np.random.default_rng(0)
    age, pain = draw.integers(30, 80, 240), draw.choice(["none", "typical"], 240)
    score = (age - 55) / 10 + 2 * (pain == "typical") - 1 + draw.normal(0, 0.5, 240)
    table = pd.DataFrame({"age": age.astype(float), "pain": pain, "seen": "2024-01-01"})
    table["illness"] = np.where(score > 0, "ill", "well")
    table["score"], table["ill"], table["old"] = score, (score > 0).astype(int), (age > 55).astype(int)
    table["hospital"] = draw.choice(["north", "south", "west"], 240)
    table.loc[::7, "age"] = np.nan
    table.loc[::11, "pain"] = None
    return table


def read(path: Path, **request) -> Dataset:
    found = load(str(path), Request(**request))
    assert isinstance(found, Dataset)
    return found


@pytest.mark.parametrize("kind", ["csv", "CSV", "parquet"])
def test_a_table_with_an_agent_column(patients, kind, tmp_path):
    path = tmp_path / f"patients.{kind}"
    patients.to_parquet(path) if kind == "parquet" else patients.to_csv(path, index=False)
    found = read(path, label="illness", agent="hospital")
    assert found.classes == ("ill", "well")
    assert found.group_names == ("north", "south", "west")
    assert list(found.x.columns) == ["age", "pain", "seen", "score", "ill", "old"], "neither label nor agent"
    assert (np.array(found.group_names)[found.groups] == patients["hospital"]).all()
    assert (np.array(found.classes)[found.y] == patients["illness"]).all()


@pytest.mark.parametrize("kind", ["csv", "folder"])
def test_a_row_that_belongs_to_nobody_is_named(patients, kind, tmp_path):
    path, table = tmp_path / f"patients.{kind}", patients.assign(hospital=patients["hospital"].astype(object))
    table.loc[[3, 9], "hospital"] = None
    if kind == "csv":
        table.to_csv(path, index=False)
    else:
        path.mkdir()
        table.drop(columns="age").to_parquet(path / "train.parquet")
    where = "line 5" if kind == "csv" else "row 3"
    with pytest.raises(ConsilienceError, match=f"'hospital' says whose a row is, and it is empty in {where} and in 1"):
        read(path, label="illness", agent="hospital")
    with pytest.raises(ConsilienceError, match=r"no column 'hospita' .* Did you mean 'hospital'"):
        read(path, label="illness", agent="hospita")


def test_a_folder_with_a_file_for_each_agent(patients, tmp_path):
    for name, rows in patients.astype({"age": object}).groupby("hospital"):
        rows = rows[rows.columns[:: 1 if name == "north" else -1]].drop(columns="hospital")
        rows = rows.drop(columns="pain") if name == "west" else rows
        if name == "south":
            rows.iloc[7, rows.columns.get_loc("age")] = "sixty"
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    scenario = build_scenario(read_settings("", {"data.dataset": str(tmp_path), "data.label": "illness"}))
    assert "3 agents (one for each file): north, south, west" in scenario.notes[0]
    found = read(tmp_path, label="illness")
    assert found.group_names == ("north", "south", "west")
    assert np.bincount(found.groups).tolist() == patients.groupby("hospital").size().tolist()
    assert list(found.x.columns) == ["age", "pain", "seen", "score", "ill", "old"], "as the first file has them"
    west = found.x[found.groups == 2]
    assert west["pain"].isna().all()
    assert (west["score"].to_numpy() == patients.loc[patients["hospital"] == "west", "score"].to_numpy()).all()
    assert "pain has no values at west, but elsewhere it has." in found.warnings
    assert any("line 9 of south.csv has 'sixty'" in text for text in found.warnings)
    (tmp_path / "north.csv").write_text("age\n1\n")
    with pytest.raises(ConsilienceError, match=r"north.csv has no column 'illness' of labels"):
        read(tmp_path, label="illness")
    for name in ("north", "south"):
        (tmp_path / f"{name}.csv").unlink()
    with pytest.raises(ConsilienceError, match="holds one csv file; there must be one for each agent"):
        read(tmp_path, label="illness")


def test_other_tasks_and_labels(patients, tmp_path):
    path = tmp_path / "patients.csv"
    patients[["age", "pain", "score", "ill", "old"]].to_csv(path, index=False)
    values = read(path, label="score", task="regression")
    assert values.classes == ()
    np.testing.assert_allclose(values.y[:, 0], patients["score"], rtol=1e-6)
    several = read(path, label="ill, old", task="multilabel")
    assert several.classes == ("ill", "old")
    assert several.y.shape == (240, 2)
    numbers = read(path, label="ill")
    assert numbers.classes == ("0", "1")
    with pytest.raises(ConsilienceError, match=r"patients.csv: the labels are fractions.*task=regression"):
        read(path, label="score")
    with pytest.raises(ConsilienceError, match=r"has no column 'illness'"):
        read(path, label="illness")
    with pytest.raises(ConsilienceError, match=r"has no column 'clinic' that says whose a row is. .*It has: age, pain"):
        read(path, label="ill", agent="clinic")
    with pytest.raises(ConsilienceError, match=r"the label of row 0 is missing"):
        patients.assign(illness=[None, *patients["illness"][1:]]).to_csv(path, index=False)
        read(path, label="illness")
    with pytest.raises(ConsilienceError, match=r"nowhere.csv does not exist"):
        read(tmp_path / "nowhere.csv")


def test_arrays_images_and_hugging_face_folders(tmp_path):
    x, y = np.random.default_rng(0).normal(0, 1, (12, 3)).astype(np.float32), np.array(["a", "b"] * 6)
    np.savez(tmp_path / "data.npz", x=x, y=y, site=np.arange(12) % 3)
    found = read(tmp_path / "data.npz", agent="site")
    np.testing.assert_array_equal(found.x, x)
    assert found.classes == ("a", "b")
    assert found.group_names == ("0", "1", "2")

    image, library = pytest.importorskip("PIL.Image"), pytest.importorskip("datasets")
    for number, name in enumerate(["cat", "dog"]):
        (tmp_path / "pets" / name).mkdir(parents=True)
        image.new("RGB", (4, 4), (255 * number, 0, 0)).save(tmp_path / "pets" / name / "one.png")
    pets = read(tmp_path / "pets", side=2)
    assert pets.classes == ("cat", "dog")
    assert pets.x.shape == (2, 3, 2, 2)

    columns = {"text": ["good", "bad", "fine"], "stars": [1, 0, 1], "user": ["u", "v", "u"]}
    library.Dataset.from_dict(columns).save_to_disk(tmp_path / "reviews")
    texts = read(tmp_path / "reviews", label="stars", agent="user")
    assert texts.x["text"].tolist() == columns["text"]
    assert texts.group_names == ("u", "v")
    pictures = {"picture": [image.new("RGB", (4, 4)) for _ in range(2)], "label": [1, 0]}
    features = library.Features({"picture": library.Image(), "label": library.ClassLabel(names=["no", "yes"])})
    library.Dataset.from_dict(pictures, features=features).to_parquet(tmp_path / "hub" / "train.parquet")
    hub = read(tmp_path / "hub")
    assert hub.x.shape == (2, 3, 4, 4)
    assert np.array(hub.classes)[hub.y].tolist() == ["yes", "no"]
    with pytest.raises(ConsilienceError, match=r"has no column 'stars' of labels. Name it with .*: picture, label"):
        read(tmp_path / "hub", label="stars")


AGENTS = """
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import consilience as cs


def make_agent(name, x, y, classes, seed):
    if name == "north":
        pain = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["pain"]))
        model = make_pipeline(pain, LogisticRegression())
        return cs.SklearnAgent(model, x, y, name, classes=len(classes), seed=seed)
    model = HistGradientBoostingClassifier(max_iter=5)
    return cs.SklearnAgent(model, x, y, name, classes=len(classes), seed=seed, transform=lambda rows: rows[["age"]])
"""


def test_a_run_with_ones_own_table_and_with_ones_own_agents(patients, tmp_path):
    patients.drop(columns=["score", "ill", "old"]).to_csv(tmp_path / "patients.csv", index=False)
    (tmp_path / "clinics.py").write_text(AGENTS)
    changes = {
        "dataset": str(tmp_path / "patients.csv"),
        "label": "illness",
        "data.agent": "hospital",
        "shared_per_agent": 10,
        "models": ["logistic", "mlp", "forest"],
        "rounds": 3,
        "warmup": 1,
        "references": [],
    }
    run = run_experiment(read_settings("digits", changes | {"low_quality": []}), tmp_path / "built-in", workers=1)
    assert run.summary.names == ["north", "south", "west"]
    assert run.summary.classes == ["ill", "well"]
    assert run.last_round()["accuracy_target"].min() > 0.6
    mine = changes | {"plugins": [str(tmp_path / "clinics.py")], "models": ["clinics"], "low_quality": []}
    own = run_experiment(read_settings("digits", mine), tmp_path / "own", workers=1)
    assert [agent.model for agent in own.summary.agents][:2] == ["LogisticRegression", "HistGradientBoostingClassifier"]
    assert own.last_round()["accuracy_target"].notna().all()


@pytest.mark.parametrize(("task", "label"), [("regression", "score"), ("multilabel", "ill,old")])
def test_built_in_models_learn_values_and_several_labels_from_a_table(patients, task, label, tmp_path):
    patients[["age", "pain", *label.split(",")]].to_csv(tmp_path / "patients.csv", index=False)
    changes = {
        "dataset": str(tmp_path / "patients.csv"),
        "label": label,
        "data.task": task,
        "partition": "iid",
        "agents.count": 4,
        "low_quality": [],
        "models": ["forest", "boosting", "neighbours", "mlp"],
    }
    settings = read_settings("digits", changes)
    scenario = build_scenario(settings)
    for agent in build_agents(settings, scenario):
        agent.train(scenario.shared, None, 0.0)
        f = agent.predict(scenario.shared)
        assert f.shape == (len(scenario.shared), 2 if task == "multilabel" else 1)
        if task == "regression":
            error = np.abs(f - scenario.shared_y).mean()
            assert error < np.abs(scenario.shared_y - scenario.shared_y.mean()).mean()


def test_an_agent_that_does_not_fit_is_refused(patients, tmp_path):
    patients.to_csv(tmp_path / "patients.csv", index=False)
    (tmp_path / "none.py").write_text("def make_agent(name, x, y, classes, seed):\n    return 3")
    changes = {
        "dataset": str(tmp_path / "patients.csv"),
        "label": "illness",
        "data.agent": "hospital",
        "low_quality": [],
    }
    changes |= {"plugins": [str(tmp_path / "none.py")], "models": ["none"]}
    settings = read_settings("digits", changes)
    with pytest.raises(ConsilienceError, match=r"make_agent in .*none.py returned int, which does not implement Agent"):
        build_agents(settings, build_scenario(settings))


def test_a_folder_with_the_name_of_a_known_dataset_does_not_take_its_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    assert len(load("digits").y) == 1797


def test_hugging_face_folders_read_nothing_outside_of_them(patients, tmp_path):
    library, image = pytest.importorskip("datasets"), pytest.importorskip("PIL.Image")
    (tmp_path / "private").mkdir()
    secret = tmp_path / "private" / "secret.parquet"
    patients.to_parquet(secret)
    folder = tmp_path / "named"
    folder.mkdir()
    patients[:20].to_parquet(folder / "train.parquet")
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: default\n  data_files: ../private/secret.parquet\n---\n"
    )
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "train.parquet").symlink_to(secret)
    saved = tmp_path / "saved"
    columns = {"text": ["good", "bad"], "label": [1, 0]}
    library.Dataset.from_dict(columns).save_to_disk(tmp_path / "private" / "saved")
    library.Dataset.from_dict(columns).save_to_disk(saved)
    state = (saved / "state.json").read_text()
    (saved / "state.json").write_text(
        state.replace("data-00000-of-00001.arrow", "../private/saved/data-00000-of-00001.arrow")
    )
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "dataset_dict.json").write_text('{"splits": ["../private/saved"]}')
    for path in (folder, linked, saved, parts):
        with pytest.raises(ConsilienceError, match=r"names the file .*, which is outside of it"):
            read(path, label="illness" if path in (folder, linked) else "label")
    image.new("RGB", (4, 4)).save(tmp_path / "private" / "x-ray.png")
    features = library.Features({"picture": library.Image(), "label": library.Value("int64")})
    rows = {"picture": [{"path": str(tmp_path / "private" / "x-ray.png"), "bytes": None}] * 2, "label": [0, 1]}
    (tmp_path / "pictures").mkdir()
    table = library.Dataset.from_dict(rows, features=features).data.table
    pq.write_table(table, tmp_path / "pictures" / "train.parquet")
    with pytest.raises(ConsilienceError, match=r"pictures.*x-ray.png, which is outside of it"):
        read(tmp_path / "pictures")


def test_a_file_of_another_kind_is_no_name_of_a_dataset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "patients.xlsx").touch()
    with pytest.raises(ConsilienceError, match=r"patients.xlsx: unknown kind of file. .* Save a spreadsheet as csv"):
        load("patients.xlsx", Request())
