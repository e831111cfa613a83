"""summary.json, and the folder of a finished run."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from consilience import ConsilienceError, SklearnAgent, load_run
from consilience.extend import InMemory
from consilience.runtime.driver import run_rounds
from consilience.runtime.run import Run, is_finished
from consilience.runtime.summary import AgentSummary, Summary, known_elsewhere, summarised, summary_from, versions
from tests.conftest import blobs
from tests.runtime.known import NAMES, SHARED, Known, Script, summary_of

FULL = Summary(
    method="every-2",
    title="consensus (every-2)",
    task="classification",
    rounds=7,
    warmup=2,
    shared_samples=30,
    agents=[AgentSummary("a", "mlp", 60, True, 1234, [20, 40]), AgentSummary("b")],
    classes=["cat", "dog"],
    dataset="pets",
    seed=3,
    data="f00ba5",
    federation="abc",
    seconds=1.5,
    versions={"torch": "2"},
)
LEAST = Summary("alone", "alone", "regression", 1, 0, 5)


@pytest.mark.parametrize("summary", [FULL, LEAST])
def test_a_summary_as_json_and_back_is_the_same(summary):
    assert summary_from(summary.to_json()) == summary
    assert json.loads(summary.to_json())["rounds"] == summary.rounds


def test_names_and_scores_follow():
    assert FULL.names == ["a", "b"]
    assert [score.name for score in FULL.scores][:2] == ["accuracy", "balanced_accuracy"]
    assert [score.name for score in LEAST.scores] == ["rmse"]


def test_numbers_that_are_none_are_not_written():
    with pytest.raises(ValueError, match="not JSON compliant"):
        replace(FULL, seconds=float("nan")).to_json()


def without(key: str) -> str:
    values = json.loads(FULL.to_json())
    del values[key]
    return json.dumps(values)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        FULL.to_json()[:100],
        "[]",
        "5",
        "null",
        "{}",
        without("agents"),
        without("method"),
        FULL.to_json().replace('"rounds"', '"runden"'),
        FULL.to_json().replace('"low_quality"', '"lazy"'),
        FULL.to_json().replace('"agents": [', '"agents": [3, '),
    ],
)
def test_damaged_summaries_are_refused(text):
    with pytest.raises(ConsilienceError, match=r"^summary.json (is not JSON|does not have the fields of a summary) \("):
        summary_from(text)


def test_what_is_known_of_agents():
    x, y = blobs(30, seed=1, classes=2)
    from sklearn.naive_bayes import GaussianNB

    agent = SklearnAgent(GaussianNB(), x, y, "a", classes=3)
    counts = np.bincount(y).tolist()
    assert summarised([agent], low_quality=["a"]) == [AgentSummary("a", "GaussianNB", 30, True, None, [*counts, 0])]
    assert summarised([agent])[0].low_quality is False
    regression = Known("b", "regression")
    regression.class_counts = []
    assert summarised([regression]) == [AgentSummary("b", "known", 5)]


def test_of_agents_elsewhere_the_name_is_known():
    here = AgentSummary("b", "mlp", 60)
    nobody = [AgentSummary(name, "unknown", None, False, None, [0, 0]) for name in "ac"]
    assert known_elsewhere([here], "abc", 2) == [nobody[0], here, nobody[1]]


def test_versions_are_those_of_everything_that_counts():
    import torch

    found = versions()
    assert list(found) == ["python", "consilience", "numpy", "pandas", "scikit-learn", "scipy", "torch"]
    assert (found["numpy"], found["torch"]) == (np.__version__, torch.__version__)


@pytest.fixture
def run() -> Run:
    agents = [Known(name) for name in NAMES]
    summary = replace(summary_of("classification"), agents=summarised(agents, low_quality=["b"]))
    return run_rounds(agents, SHARED, InMemory(NAMES), Script(), summary)


def test_a_saved_run_is_loaded_as_it_was(run, tmp_path):
    assert not is_finished(tmp_path)
    replace(run, references={"alone": run}).save(tmp_path / "run")
    assert is_finished(tmp_path / "run")
    loaded = load_run(tmp_path / "run")
    assert list(loaded.references) == ["alone"]
    for one in (loaded, loaded.references["alone"]):
        pd.testing.assert_frame_equal(one.metrics, run.metrics, check_exact=True)
        np.testing.assert_array_equal(one.trust, run.trust)
        np.testing.assert_array_equal(one.trust_rounds, run.trust_rounds)
        assert one.summary == run.summary
    with np.load(tmp_path / "run" / "trust.npz") as arrays:
        assert arrays["agents"].tolist() == ["a", "b", "c"]


def test_the_last_round_says_whose_labels_are_of_low_quality(run):
    table = run.last_round()
    assert table["round"].tolist() == [3, 3, 3]
    assert dict(zip(table["agent"], table["low_quality"], strict=True)) == {"a": False, "b": True, "c": False}


def test_a_folder_without_a_summary_is_no_finished_run(tmp_path):
    with pytest.raises(ConsilienceError) as error:
        load_run(tmp_path)
    assert str(error.value) == (
        f"{tmp_path} holds no finished run (there is no summary.json). "
        "Give the folder of a run, or finish the run first."
    )


@pytest.mark.parametrize("harm", ["missing", "empty", "half", "garbage"])
@pytest.mark.parametrize("file", ["summary.json", "trust.npz", "metrics.parquet"])
def test_a_damaged_run_is_refused_in_a_sentence(run, tmp_path, file, harm):
    run.save(tmp_path)
    path = tmp_path / file
    data = path.read_bytes()
    if harm == "missing":
        path.unlink()
    else:
        path.write_bytes({"empty": b"", "half": data[: len(data) // 2], "garbage": b"\xff" * 99}[harm])
    says = (
        "holds no finished run" if (file, harm) == ("summary.json", "missing") else r"cannot be read: .* Run it again\."
    )
    with pytest.raises(ConsilienceError, match=f"{tmp_path} {says}"):
        load_run(tmp_path)


def test_matrices_that_lack_a_part_are_refused(run, tmp_path):
    run.save(tmp_path)
    np.savez(tmp_path / "trust.npz", trust=run.trust)
    with pytest.raises(ConsilienceError, match="cannot be read"):
        load_run(tmp_path)
