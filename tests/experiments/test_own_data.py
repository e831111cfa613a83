"""A comparison on the user's own table with the user's own agents, over several processes."""

import numpy as np
import pandas as pd

from consilience.experiments.compare import compare
from consilience.settings.presets import read_settings

PLUGIN = """
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import consilience as cs


def make_agent(name, x, y, classes, seed):
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    steps = make_column_transformer((words, ["pain"]), (SimpleImputer(), ["age"]))
    return cs.SklearnAgent(make_pipeline(steps, LogisticRegression()), x, y, name, classes=classes, seed=seed)
"""


def test_two_workers_compare_methods_on_a_table_of_ones_own_to_the_same_numbers_as_one(tmp_path):
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"age": draw.normal(55, 9, 240), "pain": draw.choice(["none", "typical"], 240)})
    ill = (table["pain"] == "typical") ^ (draw.random(240) < 0.1)
    table["diagnosis"], table["clinic"] = np.where(ill, "ill", "healthy"), draw.choice(["north", "south"], 240)
    table.loc[::5, "age"], table.loc[::7, "pain"] = np.nan, None
    table.to_csv(tmp_path / "patients.csv", index=False)
    (tmp_path / "clinics.py").write_text(PLUGIN)
    changes = {"plugins": [str(tmp_path / "clinics.py")], "models": ["clinics"], "low_quality": []}
    changes |= {"dataset": str(tmp_path / "patients.csv"), "label": "diagnosis", "agent": "clinic"}
    settings = read_settings("digits", changes | {"rounds": 3, "warmup": 1, "shared_per_agent": 20})
    one, two = (compare(settings, ["dynamic", "alone"], [0, 1], tmp_path / str(n), n).table for n in (1, 2))
    assert set(one["agent"]) == {"north", "south"} and one["accuracy_target"].min() > 0.6
    pd.testing.assert_frame_equal(
        one.drop(columns="seconds", errors="ignore"), two.drop(columns="seconds", errors="ignore")
    )
