"""Settings with data of one's own: a neutral base, which the data say."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from consilience import ConsilienceError
from consilience.base.toml import parse
from consilience.settings.presets import left_out, read_settings, run_name
from consilience.settings.settings import Settings, settings_from
from consilience.settings.wiring import build_agents, build_scenario


@pytest.fixture
def patients(tmp_path: Path) -> str:
    draw = np.random.default_rng(0)
    age = draw.integers(30, 80, 210)
    table = pd.DataFrame({"age": age, "pain": draw.choice(["none", "typical"], 210), "cost": age * 2.5})
    table["illness"] = np.where(age + draw.normal(0, 5, 210) > 55, "ill", "well")
    table["hospital"] = ["north"] * 60 + ["south"] * 80 + ["west"] * 70
    path = tmp_path / "patients.csv"
    table.to_csv(path, index=False)
    return str(path)


def test_a_file_with_hospitals(patients):
    settings = read_settings("", {"dataset": patients, "label": "illness", "data.agent": "hospital"})
    assert settings.data.low_quality == settings.data.attackers == ()
    assert settings.agents.count == 3
    assert settings.data.partition == "natural"
    assert settings.data.shared_per_agent == 15
    assert settings.agents.models == ("forest", "logistic", "boosting")
    scenario = build_scenario(settings)
    assert list(scenario.shares) == ["north", "south", "west"]
    assert not scenario.low_quality
    assert [agent.kind for agent in build_agents(settings, scenario)] == ["forest", "logistic", "boosting"]


def test_a_file_without_hospitals(patients):
    settings = read_settings("", {"dataset": patients, "label": "illness"})
    assert (settings.agents.count, settings.data.partition) == (3, "iid")
    assert read_settings("", {"dataset": patients, "label": "illness", "agents.count": 6}).agents.count == 6


def test_other_tasks_privacy_texts_and_images(patients, tmp_path):
    values = read_settings("", {"dataset": patients, "label": "cost", "task": "regression"})
    assert values.agents.models == ("forest", "boosting", "mlp")
    private = read_settings("", {"dataset": patients, "label": "illness", "epsilon": 4.0})
    assert private.agents.models == ("logistic", "mlp")
    texts = pd.DataFrame({"text": [f"word{number} of a kind" for number in range(80)], "label": ["a", "b"] * 40})
    texts.to_csv(tmp_path / "texts.csv", index=False)
    assert read_settings("", {"dataset": str(tmp_path / "texts.csv")}).agents.models == ("forest", "logistic", "mlp")
    np.savez(tmp_path / "images.npz", x=np.zeros((40, 1, 8, 8)), y=np.arange(40) % 2)
    assert read_settings("", {"dataset": str(tmp_path / "images.npz")}).agents.models == ("cnn", "mlp")
    image = pytest.importorskip("PIL.Image")
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in range(20):
            image.new("RGB", (8, 8)).save(tmp_path / "pets" / name / f"{number}.png")
    pets = read_settings("", {"dataset": str(tmp_path / "pets")})
    assert (pets.agents.models, pets.agents.count, pets.data.shared_per_agent) == (("cnn", "mlp"), 2, 5)


def test_what_a_preset_says_of_its_own_data_does_not_apply_and_that_is_said(patients):
    changes = {"dataset": patients, "label": "illness", "data.agent": "hospital"}
    settings = read_settings("digits", changes)
    assert settings == read_settings("", changes)
    assert left_out("digits", settings) == (
        f"The preset digits is for other data; of it data.low_quality=[2, 9] does not apply to {patients}."
    )
    assert left_out("", settings) == left_out("digits", read_settings("digits")) == ""
    assert read_settings("digits-mlp", changes).agents.models == ("mlp",), "the models of a preset stay"
    hospitals = read_settings("hospitals", {"dataset": patients, "label": "illness"})
    assert (hospitals.data.partition, hospitals.method.lam) == ("iid", 0.3)
    assert "data.partition" in left_out("hospitals", hospitals)


def test_what_the_user_says_counts(patients, tmp_path):
    changes = {"dataset": patients, "label": "illness", "data.agent": "hospital"}
    asked = read_settings("digits", changes | {"low_quality": [2], "models": ["mlp"], "shared_per_agent": 9})
    assert (asked.data.low_quality, asked.agents.models, asked.data.shared_per_agent) == ((2,), ("mlp",), 9)
    with pytest.raises(ConsilienceError, match=r"low_quality names agent 9, but agents are 0 to 2"):
        read_settings("", changes | {"low_quality": [9]})
    file = tmp_path / "mine.toml"
    file.write_text(f'[data]\ndataset = "{patients}"\nlabel = "illness"\nlow_quality = [1]\n[agents]\nmodels = ["mlp"]')
    settings = read_settings(str(file))
    assert (settings.data.low_quality, settings.agents.models, settings.agents.count) == ((1,), ("mlp",), 3)
    assert read_settings(str(file), {"low_quality": [4], "agents.count": 5}).data.low_quality == (4,)


def test_kinds_of_columns_are_settings(patients):
    changes = {"dataset": patients, "label": "illness", "data.types.age": "category", "data.drop": ["cost"]}
    settings = read_settings("", changes)
    assert (settings.data.types, settings.data.drop) == ({"age": "category"}, ("cost",))
    assert settings_from(parse(settings.to_toml(), "x"), "x") == settings
    scenario = build_scenario(settings)
    assert list(scenario.shared.columns) == ["age", "pain", "hospital"]
    (agent, *_) = build_agents(settings, scenario)
    assert agent.transform(scenario.shared).shape[1] > 10, "a feature for each age"
    with pytest.raises(ConsilienceError, match=r"types.age is 'nummer'; it must be one of number, category"):
        read_settings("", changes | {"data.types.age": "nummer"})
    with pytest.raises(ConsilienceError, match=r"data.drop names the column 'costs'. Did you mean 'cost'"):
        read_settings("", changes | {"data.drop": ["costs"]})


def test_numbers_alone_are_scaled_and_left_out_too(tmp_path):
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"row_id": np.arange(120), "big": draw.normal(5e4, 1e4, 120), "small": draw.random(120)})
    table.assign(label=np.where(table["small"] > 0.5, "a", "b")).to_csv(tmp_path / "n.csv", index=False)
    settings = read_settings("", {"dataset": str(tmp_path / "n.csv"), "data.drop": ["small"]})
    scenario = build_scenario(settings)
    (agent, *_) = build_agents(settings, scenario)
    np.testing.assert_allclose(agent.transform(scenario.shared).std(axis=0), [1.0], rtol=1e-4)
    assert scenario.notes[1:] == (
        "row_id: identifier, no gaps: not used: every value is different",
        "big: number, no gaps: scaled",
        "small: number, no gaps: not used: left out by data.drop",
    )


def test_a_run_is_called_after_the_file(patients, tmp_path, monkeypatch):
    assert run_name("", patients) == run_name("digits", patients) == "patients"
    assert run_name("runs/mine.toml", patients) == "mine"
    assert run_name("", "digits") == "digits"
    assert run_name("hospitals", "heart-disease") == "hospitals"
    (tmp_path / "pets").mkdir()
    monkeypatch.chdir(tmp_path / "pets")
    assert run_name("", "./") == "pets"


def test_a_wrong_label_names_the_columns(patients):
    with pytest.raises(
        ConsilienceError, match=r"no column 'label' of labels. Name it with label=NAME. It has: age, pain"
    ):
        read_settings("", {"dataset": patients})
    assert Settings().data.low_quality == ()
    with pytest.raises(ConsilienceError, match=r"holds data, .* --set dataset="):
        read_settings(patients)
