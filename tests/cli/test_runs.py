"""The commands `run`, `compare` and `report`, and errors that help."""

from pathlib import Path

import pandas as pd
import pytest

from consilience.base.errors import ConsilienceError
from tests.cli.conftest import QUICK, call

pytestmark = pytest.mark.usefixtures("elsewhere")


def test_run_numbers_its_folders_and_report_reads_them():
    assert "Report: runs/digits-1/report.html" in call("run", *QUICK)
    assert "Report: runs/digits-2/report.html" in call("run", *QUICK, "--seed", "5")
    Path("runs/digits-1/report.html").unlink()
    out = call("report", "runs/digits-1")
    assert "Accuracy on the target domain" in out
    assert Path("runs/digits-1/report.html").exists()


def test_resume_without_a_folder_takes_the_newest():
    call("run", *QUICK)
    Path("runs/digits-1/summary.json").unlink()
    assert "runs/digits-1/report.html" in call("run", "--resume")


def test_an_existing_folder_is_not_overwritten_without_being_asked():
    call("run", *QUICK, "--out", "mine")
    before = Path("mine/metrics.parquet").read_bytes()
    with pytest.raises(ConsilienceError, match="Resume it, overwrite it, or choose another folder"):
        call("run", *QUICK, "--seed", "1", "--out", "mine")
    assert Path("mine/metrics.parquet").read_bytes() == before
    call("run", *QUICK, "--seed", "1", "--out", "mine", "--overwrite")
    assert Path("mine/metrics.parquet").read_bytes() != before


def test_a_run_that_is_refused_leaves_no_folder_and_one_with_rounds_is_kept():
    with pytest.raises(ConsilienceError, match="does not say where its samples come from"):
        call("run", *QUICK, "--set", "partition=natural", "--out", "mine")
    assert not Path("mine").exists()
    call("run", *QUICK, "--out", "mine")
    Path("mine/summary.json").unlink()
    with pytest.raises(ConsilienceError, match=r"lam was 0.5, now 0.9"):
        call("run", *QUICK, "--set", "lam=0.9", "--out", "mine", "--resume")
    assert Path("mine/checkpoint").is_dir()


def test_a_folder_that_is_no_run_is_never_replaced():
    Path("precious").mkdir()
    Path("precious/thesis.txt").write_text("five years")
    with pytest.raises(ConsilienceError, match="not replaced"):
        call("run", *QUICK, "--out", "precious", "--overwrite")
    assert Path("precious/thesis.txt").read_text() == "five years"


def test_resuming_with_other_settings_says_which_differ():
    call("run", *QUICK, "--out", "mine")
    with pytest.raises(ConsilienceError, match=r"lam was 0.5, now 0.9"):
        call("run", *QUICK, "--set", "lam=0.9", "--out", "mine", "--resume")


def test_a_damaged_checkpoint_is_passed_over_with_a_warning():
    call("run", *QUICK, "--out", "mine")
    Path("mine/summary.json").unlink()
    [last] = Path("mine/checkpoint").glob("round-00002*")
    last.write_bytes(last.read_bytes()[:100])
    with pytest.warns(UserWarning, match="going on from round 1"):
        call("run", "--resume", "--out", "mine")


def test_all_checkpoints_damaged_is_an_error():
    call("run", *QUICK, "--out", "mine")
    Path("mine/summary.json").unlink()
    for path in Path("mine/checkpoint").iterdir():
        path.write_bytes(b"")
    with pytest.raises(ConsilienceError, match="no checkpoint in mine/checkpoint can be read"):
        call("run", "--resume", "--out", "mine")


def test_an_unwritable_folder_is_an_error():
    """/proc refuses even root."""
    with pytest.raises(ConsilienceError, match=r"cannot write to /proc/run: .* Choose a folder you may write to"):
        call("run", *QUICK, "--out", "/proc/run")


def test_a_file_in_the_way_is_an_error():
    Path("taken").write_text("x")
    with pytest.raises(ConsilienceError, match="taken is a file"):
        call("run", *QUICK, "--out", "taken")
    with pytest.raises(ConsilienceError, match="cannot write to taken/run"):
        call("run", *QUICK, "--out", "taken/run")


def test_compare_writes_markdown_latex_and_csv():
    out = call("compare", *QUICK, "--methods", "paper,alone", "--seeds", "0-1", "--out", "c")
    assert "consensus (paper)" in out
    assert "| gain over alone |" in Path("c/compare.md").read_text()
    assert r"\toprule" in Path("c/compare.tex").read_text()
    assert len(Path("c/compare.csv").read_text().splitlines()) == 1 + 2 * 2 * 3
    more = call("compare", *QUICK, "--methods", "paper,naive,alone", "--seeds", "0-1", "--out", "c", "--resume")
    assert "naive" in more


def test_compare_takes_methods_with_options():
    quick = [word for word in QUICK if word != "models=logistic"]
    quick = [*quick[:4], "--set", "models=linear", *quick[5:]]
    methods = "fedprox(mu=0.0), fedprox(mu=100.0),fedavg"
    call("compare", *quick, "--methods", methods, "--seeds", "0", "--out", "c")
    table = pd.read_csv("c/compare.csv").groupby("method")["accuracy_target"].mean()
    assert table["fedprox(mu=0.0)"] == table["fedavg"] != table["fedprox(mu=100.0)"]


def test_a_preset_for_every_kind_of_task_runs():
    out = call("run", "polynomial", "--out", "p")
    assert "Error (RMSE) on the target domain" in out
    out = call("run", "breast-cancer", "--set", "rounds=6", "--out", "b")
    assert "neighbours" in out


def test_the_help_of_compare_names_every_method():
    from consilience.methods import method_names

    text = call("compare", "--help")
    assert [name for name in method_names() if name not in text] == []


@pytest.mark.parametrize("lam", ["nan", "1e308"])
def test_a_weight_beyond_reason_is_refused(lam):
    with pytest.raises(ConsilienceError, match="lam is"):
        call("run", "--set", f"lam={lam}")


def test_a_comparison_can_be_overwritten_extended_and_has_a_page(tmp_path):
    words = ["compare", *QUICK, "--methods", "paper,alone", "--seeds", "0", "--out", "mine"]
    call(*words)
    page = Path("mine/compare.html").read_text()
    assert "<svg" in page and "gain over alone" in page
    with pytest.raises(ConsilienceError, match="made with other settings"):
        call(*words, "--set", "lam=2", "--resume")
    call(*words, "--set", "lam=2", "--overwrite")
    assert "lam = 2" in Path("mine/seed-0/paper/config.toml").read_text()


def test_compare_at_equal_compute_is_not_for_sweeps():
    with pytest.raises(ConsilienceError, match="--equal-compute is for methods, and not for --grid"):
        call("compare", "digits-mlp", "--equal-compute", "--grid", "lam=1,2", "--seeds", "0-1")
    assert not Path("runs").exists()
