"""The dataset adult."""

import numpy as np
import pandas as pd

from consilience.data.datasets import Request
from consilience.data.loading import load


def test_adult_is_numbers_and_words(tmp_path):
    (tmp_path / "adult").mkdir()
    lines = ["age,workclass,fnlwgt,education,education.num,income", "30,Private,1,HS-grad,9,<=50K"]
    lines += ["50,?,2,Masters,14,>50K", "40,Private,3,HS-grad,9,<=50K"]
    (tmp_path / "adult" / "adult.csv").write_text("\n".join(lines) + "\n")
    found = load("adult", Request(tmp_path))
    assert found.y.tolist() == [0, 1, 0]
    assert found.x.shape == (3, 4), "age, education.num, and two words of workclass"
    np.testing.assert_allclose(found.x[:, 0], (np.array([30, 50, 40]) - 40) / np.std([30, 50, 40]), atol=1e-6)
    assert sorted(found.x[1, 2:].tolist()) == [0, 1]
    table = pd.read_csv(tmp_path / "adult" / "adult.csv")
    numbers = table[["age", "education.num"]].astype(float)
    dummies = pd.get_dummies(table[["workclass"]].astype(str), dtype=float)
    expected = np.hstack([(numbers - numbers.mean()) / numbers.std(ddof=0), dummies]).astype(np.float32)
    np.testing.assert_array_equal(found.x, expected)
