"""A page about many runs."""

from consilience.experiments.compare import compare
from consilience.experiments.run import run_experiment
from consilience.report.live import Watch
from consilience.report.live_data import is_run
from consilience.report.run_index import index_page
from tests.report.test_live import SETTINGS, get, stopped_after


def test_a_folder_of_several_runs_has_a_list(tmp_path):
    stopped_after(2, tmp_path / "seed-0" / "paper")
    run_experiment(SETTINGS, tmp_path / "seed-1" / "paper", 1)
    assert not is_run(tmp_path)
    with Watch(tmp_path) as page:
        text = get(page.address)[1]
        assert '<a href="run/seed-0/paper/">seed-0/paper</a></td><td class="words">round 2 of 4 done' in text
        assert 'seed-1/paper</a></td><td class="words">finished' in text
        assert "2 runs, 1 of them finished" in text
        assert 'aria-label="Accuracy on the target domain by round"' in text, "their curves are drawn"
        assert get(f"{page.address}run/seed-0/paper/")[0] == 200
        (tmp_path / "compare.html").write_text("the comparison")
        assert 'href="compare.html"' in get(page.address)[1]
        assert get(f"{page.address}compare.html") == (200, "the comparison")
        assert get(f"{page.address}run/seed-0/paper/report.html")[0] == 404
    assert "No run has started" in index_page(tmp_path / "seed-0" / "paper" / "checkpoint")


def test_every_run_of_a_comparison_is_finished_in_the_end(tmp_path):
    compare(SETTINGS, ["paper", "alone"], [0], tmp_path, 1)
    assert "2 runs, 2 of them finished" in index_page(tmp_path)
