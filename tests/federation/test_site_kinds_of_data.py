"""Real sites with tables of words and gaps, folders of images, values and several labels: to the end, and `predict`."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from consilience.base.files import write_atomically
from consilience.cli.main import app
from consilience.federation.membership import make_keys, new_federation, write_site
from consilience.federation.model import predict_site
from consilience.federation.peers.ports import free_addresses
from consilience.federation.site import Site
from consilience.runtime.run import load_run
from tests.federation.conftest import Launcher, Trial, sign, slowness

pytestmark = pytest.mark.faults
ROUNDS = 3
Make = Callable[..., Trial]


@pytest.fixture
def make(launcher: Launcher, tmp_path: Path) -> Iterator[Make]:
    """Sites whose data are in the folders a, b and c already, as an operator lays them out."""
    trials: list[Trial] = []

    def lay_out(task: str, classes: list[str], models: list[str], shared: str, data: str, **more: object) -> Trial:
        slow, sites, members = slowness(), {}, []
        for name, model, address in zip("abc", models, free_addresses(3), strict=True):
            make_keys(tmp_path / name, name, address, tmp_path / "ca")
            members.append(tmp_path / name / "member.toml")
            sites[name] = tmp_path / name / "site.toml"
            own = Site(name, federation="../federation.toml", shared=f"../{shared}", model=model, data=data)
            write_site(sites[name], replace(own, **more))  # type: ignore[arg-type]
        options = {"rounds": ROUNDS, "warmup": 1, "lr": 0.02}
        agreed = new_federation(
            "kinds", tmp_path / shared, classes, members, options, 20.0 * slow, start_wait=20.0 * slow, task=task
        )
        write_atomically(tmp_path / "federation.toml", agreed.to_toml().encode())
        sign(tmp_path / "federation.toml", *sites.values())
        trials.append(Trial(launcher, tmp_path, sites, slow))
        return trials[-1]

    yield lay_out
    for trial in trials:
        trial.end()


def finished(trial: Trial, samples: str) -> dict[str, pd.DataFrame]:
    """Runs a federation to its end; what `consilience predict` says of new samples at each site."""
    trial.start()
    trial.finish()
    trial.check(*trial.names, rounds=ROUNDS)
    found = {}
    for name, site in trial.sites.items():
        run = load_run(site.parent / "run")
        assert run.references["alone"].metrics["round"].max() == ROUNDS, "gains are known"
        assert (site.parent / "run" / "report.html").is_file()
        assert all(event["absent"] == [] for event in trial.events(name, "round"))
        out = trial.folder / f"{name}.csv"
        argv = ["consilience", "site", "predict", str(trial.folder / samples), "--site", str(site), "--out", str(out)]
        other = f"{name}-predict"
        trial.pids[other] = trial.launcher.start(trial.log(other), argv)
        assert trial.code(other) == 0, trial.output(other)
        found[name] = pd.read_csv(out)
    return found


def heart_disease() -> pd.DataFrame:
    """Patients with words and gaps: the real ones, or made-up ones of the same kind."""
    words = {"sex": {0: "female", 1: "male"}, "cp": {1: "typical", 2: "atypical", 3: "other", 4: "none"}}
    data = Path(os.environ.get("CONSILIENCE_DATA", "../shared/data")) / "heart-disease" / "heart_disease.csv"
    if data.is_file():
        table = pd.read_csv(data)[["age", "sex", "cp", "chol", "thalach", "oldpeak", "num"]]
        table = table.sample(360, random_state=0, ignore_index=True)
    else:
        draw = np.random.default_rng(0)
        table = pd.DataFrame({"age": draw.normal(55, 9, 360), "sex": draw.integers(0, 2, 360)})
        table["cp"], table["oldpeak"] = draw.integers(1, 5, 360), draw.normal(1, 1, 360)
        table["num"] = (table["oldpeak"] + 2 * (table["cp"] == 4) > 1.5).astype(int)
        table.loc[::6, "oldpeak"] = np.nan
    for name, meaning in words.items():
        table[name] = table[name].map(meaning)
    table.loc[::9, "cp"] = None
    return table.assign(diagnosis=np.where(table.pop("num") > 0, "ill", "healthy"))


def deal(table: pd.DataFrame, folder: Path, labels: list[str], kind: str) -> pd.DataFrame:
    """Shared rows, new rows and three sites' rows as files; the new rows with their labels."""
    shared, new, *own = np.split(np.arange(len(table)), [60, 120, 200, 280])
    write = pd.DataFrame.to_csv if kind == "csv" else pd.DataFrame.to_parquet
    for name, rows, left_out in (("shared", shared, labels), ("new", new, labels)):
        write(table.iloc[rows].drop(columns=left_out), folder / f"{name}.{kind}", index=False)
    for name, rows in zip("abc", own, strict=True):
        (folder / name).mkdir()
        write(table.iloc[rows], folder / name / f"own.{kind}", index=False)
    return table.iloc[new]


def test_a_table_with_words_and_gaps(make: Make, tmp_path: Path) -> None:
    truth = deal(heart_disease(), tmp_path, ["diagnosis"], "csv")["diagnosis"].to_numpy()
    models = ["logistic", "boosting", "mlp"]
    trial = make("classification", ["healthy", "ill"], models, "shared.csv", "own.csv", label="diagnosis")
    for name, output in finished(trial, "new.csv").items():
        assert len(output) == len(truth) and output[["healthy", "ill"]].sum(axis=1).between(0.999, 1.001).all()
        assert (np.where(output["ill"] > 0.5, "ill", "healthy") == truth).mean() > 0.6, name
        notes = load_run(tmp_path / name / "run").summary.notes
        assert any(line.startswith("cp: category, ") and "gaps in shared.csv" in line for line in notes)
        assert all(f"{name}: {line}" in trial.output(name) for line in notes), "one line a column on the terminal"
    own = pd.read_csv(tmp_path / "b.csv").to_numpy()
    new = pd.read_csv(tmp_path / "new.csv")
    new[[*reversed(new.columns)]].assign(diagnosis="?", room=7).to_csv(tmp_path / "turned.csv", index=False)
    call("export", str(trial.sites["b"]), "--to", str(tmp_path / "model"))
    assert "| cp | category: 0 or 1 for each of" in (tmp_path / "model" / "README.md").read_text()
    call("predict", str(tmp_path / "turned.csv"), "--model", str(tmp_path / "model"), "--out", str(tmp_path / "p"))
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p").to_numpy(), own, rtol=0, atol=1e-6)
    answering = [trial.start_beside(name, "answer") for name in "bc"]
    for process in answering:
        trial.until_said(process, f"answering with the model of round {ROUNDS}")
    asked = ("--site", str(trial.sites["a"]), "--collective", "--out", str(tmp_path / "together"))
    call("site", "predict", str(tmp_path / "turned.csv"), *asked)
    together = pd.read_csv(tmp_path / "together")
    parts = together[["part_a", "part_b", "part_c"]].to_numpy()
    assert (parts > 0).all(), "all were heard"
    said = [predict_site(trial.sites[name], tmp_path / "turned.csv", "together")[0] for name in "abc"]
    mixed = sum(parts[:, [index]] * f for index, f in enumerate(said))
    np.testing.assert_allclose(together[["healthy", "ill"]].to_numpy(), mixed, rtol=0, atol=1e-5)


def call(*words: str) -> None:
    """Runs a command of the program here."""
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output


def test_folders_of_images(make: Make, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    draw = np.random.default_rng(0)

    def paint(path: Path, ill: bool) -> None:
        pixels = draw.integers(0, 60, (12, 12, 3)).astype(np.uint8)
        pixels[3:9, 3:9, 0] += 150 * ill
        path.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(pixels).save(path)

    for number in range(20):
        for place in ("shared", "new"):
            paint(tmp_path / place / f"{number:02}.png", number % 2 == 0)
        for name in "abc":
            paint(tmp_path / name / "own" / ("ill" if number % 2 else "well") / f"{number}.png", number % 2 == 1)
    models = ["cnn", "logistic", "mlp"]
    trial = make("classification", ["ill", "well"], models, "shared", "own", side=8)
    for name, output in finished(trial, "new").items():
        assert ((output["ill"] > 0.5).to_numpy() == (np.arange(20) % 2 == 0)).mean() > 0.8, name


def test_values(make: Make, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    table = pd.DataFrame(draw.normal(size=(360, 3)).astype(np.float32), columns=list("xyz"))
    table["cost"] = 2 * table["x"] - table["y"] + draw.normal(0, 0.1, 360)
    truth = deal(table, tmp_path, ["cost"], "parquet")["cost"]
    models = ["boosting", "forest", "mlp"]
    trial = make("regression", ["cost"], models, "shared.parquet", "own.parquet", label="cost")
    for name, output in finished(trial, "new.parquet").items():
        assert np.corrcoef(output["cost"], truth)[0, 1] > 0.7, name


def test_several_labels(make: Make, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    table = pd.DataFrame(draw.normal(size=(360, 3)).astype(np.float32), columns=list("xyz"))
    table["tall"], table["old"] = (table["x"] > 0).astype(int), (table["y"] + table["z"] > 0).astype(int)
    truth = deal(table, tmp_path, ["tall", "old"], "csv")
    models = ["logistic", "mlp", "logistic"]
    trial = make("multilabel", ["tall", "old"], models, "shared.csv", "own.csv", label="tall,old")
    for name, output in finished(trial, "new.csv").items():
        for label in ("tall", "old"):
            assert ((output[label] > 0.5).to_numpy() == truth[label].to_numpy()).mean() > 0.7, (name, label)
