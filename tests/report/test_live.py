"""The page that lives: only for who has its address, up to date, and in the end the report itself."""

import json
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from consilience.experiments.run import run_experiment
from consilience.report.live import Watch, index_page, is_run, snapshot
from consilience.report.page import page_data, write_page
from consilience.runtime.callbacks import Finished
from consilience.runtime.run import load_run
from consilience.settings.presets import read_settings
from tests.conftest import Hears
from tests.report.browser import Browser

CHANGES = {"agents.count": 3, "models": ["logistic"], "rounds": 4, "warmup": 1, "low_quality": [], "limit": 20}
SETTINGS = read_settings("digits", CHANGES | {"references": []})


def get(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def stopped_after(number: int, folder: Path) -> None:
    def stop(run, event):
        if isinstance(event, Finished) and event.number == number:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(SETTINGS, folder, 1, [Hears(stop)])


def test_a_run_under_way_is_shown_as_far_as_it_has_come(tmp_path):
    stopped_after(3, tmp_path)
    found = snapshot(tmp_path)
    run_experiment(SETTINGS, tmp_path, 1)
    whole = load_run(tmp_path)
    assert found.metrics["round"].max() == 3
    rows = whole.metrics[whole.metrics["round"] <= 3].reset_index(drop=True)
    assert found.metrics["accuracy_target"].tolist() == rows["accuracy_target"].tolist()
    assert (found.trust == whole.trust[: len(found.trust)]).all()
    assert page_data(snapshot(tmp_path)) == page_data(whole)


def test_only_who_has_the_address_gets_an_answer_and_nothing_outside_the_folder(tmp_path):
    stopped_after(2, tmp_path / "run")
    with Watch(tmp_path / "run") as page:
        assert page.address.startswith("http://127.0.0.1:")
        status, text = get(page.address)
        assert status == 200
        assert "__DATA__" not in text
        root = page.address.split("/")[2]
        for path in ("", "events", "wrong/", "wrong/events"):
            assert get(f"http://{root}/{path}")[0] == 404
        for path in ("../", "run/../../", "config.toml", "%2e%2e/"):
            assert get(page.address + path)[0] == 404
    with pytest.raises(urllib.error.URLError):
        get(page.address)


def test_a_folder_of_several_runs_has_a_list(tmp_path):
    stopped_after(2, tmp_path / "seed-0" / "dynamic")
    run_experiment(SETTINGS, tmp_path / "seed-1" / "dynamic", 1)
    assert not is_run(tmp_path)
    with Watch(tmp_path) as page:
        text = get(page.address)[1]
        assert '<a href="run/seed-0/dynamic/">seed-0/dynamic</a>: round 2 of 4 done' in text
        assert "seed-1/dynamic</a>: finished" in text
        assert get(f"{page.address}run/seed-0/dynamic/")[0] == 200
    assert "0 runs" in index_page(tmp_path, [])


@pytest.mark.slow
def test_in_a_browser_values_change_without_a_reload_heal_and_end_as_the_report(tmp_path):
    """A run that waits for us after every round, in a thread; Chromium watches it."""
    folder, step, at = tmp_path / "run", threading.Semaphore(0), threading.Semaphore(0)

    def wait(run, event):
        if isinstance(event, Finished):
            at.release()
            step.acquire(timeout=120)

    runner = threading.Thread(target=run_experiment, args=(SETTINGS, folder, 1, [Hears(wait)]))
    runner.start()
    at.acquire(timeout=120)
    watch = Watch(folder)
    browser = Browser(tmp_path / "profile")
    try:
        browser.open(watch.address)
        rounds = "JSON.parse(document.getElementById('data').textContent).measures[0].rounds.length"
        browser.until("document.documentElement.dataset.ready === 'yes'")
        assert browser.value(rounds) == 1
        browser.value("window.marked = 'not loaded again'")
        step.release()
        at.acquire(timeout=120)
        browser.until(f"{rounds} === 2")
        browser.until("document.getElementById('live').textContent.startsWith('Live: round 2 of 4 done')")
        assert browser.value("window.marked") == "not loaded again"
        port, token = watch.address.split(":")[2].split("/")[0], watch.address.split("/")[3]
        watch.close()
        browser.until("document.getElementById('live').textContent.includes('connection is lost')")
        watch = Watch(folder, port=int(port), token=token)
        step.release()
        at.acquire(timeout=120)
        browser.until(f"{rounds} === 3")
        assert browser.value("window.marked") == "not loaded again"
        step.release()
        at.acquire(timeout=120)
        step.release()
        runner.join(timeout=120)
        browser.until("document.getElementById('live') === null")
        lived = browser.value("[document.getElementById('main').innerHTML, document.title]")
        assert browser.value("document.documentElement.dataset.ready") == "yes"
        report = write_page(load_run(folder), folder / "report.html")
        assert json.loads(browser.value("document.getElementById('data').textContent")) == json.loads(
            json.dumps(page_data(load_run(folder)))
        )
        browser.open(report.as_uri())
        browser.until("location.protocol === 'file:' && document.documentElement.dataset.ready === 'yes'")
        assert browser.value("[document.getElementById('main').innerHTML, document.title]") == lived
    finally:
        for _ in range(9):
            step.release()
        watch.close()
        browser.close()
