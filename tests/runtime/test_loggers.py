"""What loggers wrote is read back with each tool's own reader."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from consilience import ConsilienceError
from consilience.experiments.run import run_experiment
from consilience.runtime.callbacks import Finished, RunInfo, Started
from consilience.runtime.loggers import logger, trust_picture
from consilience.runtime.run import Run, load_run
from consilience.runtime.summary import Summary
from consilience.settings.presets import read_settings
from tests.conftest import Hears

CHANGES = {"agents.count": 3, "models": ["logistic"], "rounds": 3, "warmup": 1, "low_quality": [], "limit": 20}


def logged(text: str, folder: Path) -> dict[str, Run]:
    """A run that was stopped after its second round, resumed, and its reference, all told to a logger."""
    settings = read_settings("digits", CHANGES | {"references": ["alone"]})

    def stop(run: RunInfo, event: object) -> None:
        if run.name == "consensus" and isinstance(event, Finished) and event.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(settings, folder, 1, [logger(text), Hears(stop)])
    run_experiment(settings, folder, 1, [logger(text)])
    return {"consensus": load_run(folder), "alone": load_run(folder / "alone")}


def expected(run: Run) -> dict[str, list[tuple[int, float]]]:
    """(round, value) by tag, from the run's folder."""
    measures = run.metrics.drop(columns=["round", "agent"])
    curves: dict[str, list[tuple[int, float]]] = {}
    for key in measures:
        by_round = run.metrics.groupby("round")[key].mean()
        curves[f"mean/{key}"] = list(by_round.items())
        for name, rows in run.metrics.groupby("agent"):
            curves[f"agent/{name}/{key}"] = list(zip(rows["round"], rows[key], strict=True))
    known = {tag: [point for point in curve if math.isfinite(point[1])] for tag, curve in curves.items()}
    return {tag: curve for tag, curve in known.items() if curve}


def same(found: dict[str, list[tuple[int, float]]], run: Run) -> None:
    right = expected(run)
    assert found.keys() == right.keys()
    for tag, curve in right.items():
        assert [number for number, _ in found[tag]] == [number for number, _ in curve], tag
        assert [v for _, v in found[tag]] == pytest.approx([v for _, v in curve], rel=1e-5), tag


@pytest.mark.slow
def test_tensorboard_reads_back_every_curve_matrix_and_setting(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: pip install 'consilience[tensorboard]'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    runs = logged(f"tensorboard:{tmp_path / 'logs'}", tmp_path / "run")
    for name, run in runs.items():
        reader = EventAccumulator(str(tmp_path / "logs" / name), size_guidance={"images": 0})
        reader.Reload()
        tags = [tag for tag in reader.Tags()["scalars"] if not tag.startswith("last/")]
        same({tag: [(point.step, point.value) for point in reader.Scalars(tag)] for tag in tags}, run)
        images = reader.Images("trust") if name == "consensus" else []
        assert [image.step for image in images] == run.trust_rounds.tolist()
        for image, matrix in zip(images, run.trust, strict=True):
            assert_array_equal(pixels(image.encoded_image_string), trust_picture(matrix))
        content = reader.PluginTagToContent("hparams")["_hparams_/session_start_info"]
        assert b"agents.models" in content
        assert b"run.rounds" in content


def pixels(data: bytes) -> np.ndarray:
    from io import BytesIO

    from PIL import Image

    return np.asarray(Image.open(BytesIO(data)).convert("RGB"))


@pytest.mark.slow
def test_mlflow_reads_back_every_curve_matrix_and_setting(tmp_path):
    pytest.importorskip("mlflow", reason="mlflow is not installed: pip install 'consilience[mlflow]'")
    from mlflow import MlflowClient

    runs = logged(f"mlflow:{tmp_path / 'logs'}", tmp_path / "run")
    client = MlflowClient(f"sqlite:///{tmp_path}/logs/mlflow.db")
    experiment = client.get_experiment_by_name("consilience")
    found = {one.info.run_name: one for one in client.search_runs([experiment.experiment_id])}
    assert found.keys() == runs.keys(), "the resumed run has gone on in its own"
    for name, run in runs.items():
        one = found[name]
        assert one.info.status == "FINISHED"
        assert one.data.params["agents.count"] == "3"
        histories = {tag: client.get_metric_history(one.info.run_id, tag) for tag in one.data.metrics}
        same({tag: sorted((point.step, point.value) for point in points) for tag, points in histories.items()}, run)
        listed = client.list_artifacts(one.info.run_id, "trust") if len(run.trust) else []
        assert len(listed) == len(run.trust)
        for entry, matrix in zip(sorted(listed, key=lambda entry: entry.path), run.trust, strict=True):
            local = client.download_artifacts(one.info.run_id, entry.path)
            assert_array_equal(pixels(Path(local).read_bytes()), trust_picture(matrix))


def records(path: Path) -> Iterator[bytes]:
    """The records of a .wandb file: LevelDB's log format behind a header of 7 bytes. wandb has no reader in Python."""
    data, offset, parts = path.read_bytes(), 7, b""
    while offset + 7 <= len(data):
        left = 32768 - offset % 32768
        if left < 7:
            offset += left
            continue
        length, kind = int.from_bytes(data[offset + 4 : offset + 6], "little"), data[offset + 6]
        parts += data[offset + 7 : offset + 7 + length]
        offset += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


@pytest.mark.slow
def test_wandb_reads_back_every_curve_matrix_and_setting(tmp_path):
    pytest.importorskip("wandb", reason="wandb is not installed: pip install 'consilience[wandb]'")
    from wandb.proto import wandb_internal_pb2

    runs = logged(f"wandb:{tmp_path / 'logs'}", tmp_path / "run")
    curves: dict[str, dict[str, list[tuple[int, float]]]] = {}
    pictures: dict[str, list[np.ndarray]] = {}
    files = (tmp_path / "logs" / "wandb").glob("offline-run-*/*.wandb")
    for path in sorted(files, key=lambda path: path.stat().st_mtime):
        name = ""
        for data in records(path):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            if record.WhichOneof("record_type") == "run":
                name = record.run.display_name
                config = {item.key: json.loads(item.value_json) for item in record.run.config.update}
                assert config["agents.count"] == 3
            values = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
            for key, value in values.items():
                if key == "trust/path":
                    picture = path.parent / "files" / json.loads(value)
                    pictures.setdefault(name, []).append(pixels(picture.read_bytes()))
                elif key.startswith(("mean/", "agent/")):
                    curves.setdefault(name, {}).setdefault(key, []).append((int(values["_step"]), json.loads(value)))
    assert curves.keys() == runs.keys()
    for name, run in runs.items():
        same(curves[name], run)
        assert_array_equal(np.array(pictures.get(name, [])), np.array([trust_picture(w) for w in run.trust]))


def test_a_trust_matrix_as_a_picture():
    picture = trust_picture(np.array([[0.5, 0.0], [0.25, 0.5]]), side=8)
    assert picture.shape == (8, 8, 3)
    assert picture[0, 0].tolist() == [8, 48, 107], "the largest value is dark"
    assert picture[0, 7].tolist() == [247, 251, 255], "nothing is light"
    assert (picture[4:, :4] == picture[4, 0]).all()


@pytest.mark.parametrize("text", ["tensorboard", "tensorboard:", ":logs"])
def test_a_logger_without_a_place_is_refused(text):
    with pytest.raises(ConsilienceError, match=r"NAME:WHERE|unknown logger"):
        logger(text)


def test_an_unknown_logger_names_the_known():
    with pytest.raises(ConsilienceError, match=r"unknown logger 'tensorbord'. Did you mean 'tensorboard'\?"):
        logger("tensorbord:logs")


@pytest.mark.parametrize(
    ("name", "module"), [("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow"), ("wandb", "wandb")]
)
def test_a_tool_that_is_not_installed_is_named_with_its_extra(name, module, monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    started = Started(Summary("paper", "paper", "classification", 3, 1, 9), ((),))
    with pytest.raises(ConsilienceError, match=rf"pip install 'consilience\[{name}\]'"):
        logger(f"{name}:{tmp_path}").handle(RunInfo(), started)
