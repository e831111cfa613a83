"""The page that lives: only for who has its address, up to date, and in the end the report itself."""

import json
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from consilience.experiments.run import run_experiment
from consilience.report.live import Watch
from consilience.report.page import page_data, write_page
from consilience.runtime.callbacks import Finished
from consilience.runtime.run import load_run
from consilience.settings.presets import read_settings
from tests.conftest import Hears
from tests.report.browser import Browser

CHANGES = {"agents.count": 3, "models": ["logistic"], "rounds": 4, "warmup": 1, "low_quality": [], "limit": 20}
SETTINGS = read_settings("digits", CHANGES | {"references": []})
REFERRED = read_settings("digits", CHANGES | {"references": ["alone"]})
CHOOSE = """{
const slider = document.getElementById("round"), place = document.getElementById("agents-place");
slider.value = 0; slider.dispatchEvent(new Event("input"));
place.value = "each agent's own test data"; place.dispatchEvent(new Event("change"));
[...document.querySelectorAll("#agents th button")].find(button => button.textContent === "samples").click();
document.getElementById("diagonal").click(); document.getElementById("diagonal").focus();
}"""
CHOSEN = """[document.getElementById("trust").dataset.round, document.getElementById("diagonal").checked,
document.getElementById("help-place").value, document.querySelector("#agents th[aria-sort]").textContent,
document.activeElement.id]"""
AS_CHOSEN = ["2", True, "each agent's own test data", "samples", "diagonal"]


def get(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def stopped_after(number: int, folder: Path) -> None:
    def stop(run, event):
        if isinstance(event, Finished) and event.number == number:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(SETTINGS, folder, 1, [Hears(stop)])


def test_only_who_has_the_address_gets_an_answer_and_nothing_outside_the_folder(tmp_path):
    stopped_after(2, tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "other")
    with Watch(tmp_path / "run") as page:
        assert page.address.startswith("http://127.0.0.1:")
        status, text = get(page.address)
        assert status == 200
        assert "__DATA__" not in text
        root = page.address.split("/")[2]
        for path in ("", "events", "wrong/", "wrong/events"):
            assert get(f"http://{root}/{path}")[0] == 404
        for path in ("../", "run/../../", "config.toml", "%2e%2e/", "../other/", "run/../../other/"):
            assert get(page.address + path)[0] == 404
    with pytest.raises(urllib.error.URLError):
        get(page.address)


def test_pages_have_the_headers_that_keep_other_pages_away(tmp_path):
    stopped_after(2, tmp_path)
    with Watch(tmp_path) as page, urllib.request.urlopen(page.address, timeout=20) as answer:
        headers = answer.headers
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["X-Frame-Options"] == "DENY"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


def test_half_requests_of_strangers_take_no_files_and_end_no_run(tmp_path, monkeypatch):
    """Without a limit, a thousand of them would take every file that a process may have open."""
    monkeypatch.setattr("consilience.report.live.TIMEOUT", 3.0)
    stopped_after(2, tmp_path)
    with Watch(tmp_path) as page:
        host, port = page.address.split("/")[2].split(":")
        before = open_files()
        halves = []
        for _ in range(120):
            half = socket.create_connection((host, int(port)), timeout=20)
            half.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
            halves.append(half)
        taken, end = 0, time.monotonic() + 2
        while time.monotonic() < end:
            taken = max(taken, open_files() - before - len(halves))
            time.sleep(0.02)
        assert taken <= 40, f"{taken} files are open for strangers"
        end = time.monotonic() + 5
        while time.monotonic() < end:  # one that sends a letter now and then is ended as well
            with suppress(OSError):
                halves[0].sendall(b"x")
            time.sleep(0.2)
        assert get(page.address)[0] == 200, "whoever has the address is answered again"
        assert open_files() - before - len(halves) <= 8
        for half in halves:
            half.close()
    run_experiment(SETTINGS, tmp_path, 1)


def test_a_damaged_folder_is_a_page_that_cannot_be_made(tmp_path, capfd):
    stopped_after(2, tmp_path)
    (tmp_path / "started.json").write_bytes(b"\xff")
    with Watch(tmp_path) as page:
        assert get(page.address)[0] == 503
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.slow
def test_in_a_browser_values_change_without_a_reload_heal_and_end_as_the_report(tmp_path):
    """A run that waits for us after every round, in a thread; Chromium watches it."""
    folder, step, at = tmp_path / "run", threading.Semaphore(0), threading.Semaphore(0)

    def wait(run, event):
        if isinstance(event, Finished):
            at.release()
            step.acquire(timeout=120)

    runner = threading.Thread(target=run_experiment, args=(REFERRED, folder, 1, [Hears(wait)]))
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
        browser.until("document.getElementById('state').textContent.startsWith('Live: round 2 of 4 done')")
        assert browser.value("window.marked") == "not loaded again"
        port, token = watch.address.split(":")[2].split("/")[0], watch.address.split("/")[3]
        watch.close()
        browser.until("document.getElementById('live').textContent.includes('connection is lost')")
        watch = Watch(folder, port=int(port), token=token)
        step.release()
        at.acquire(timeout=120)
        browser.until(f"{rounds} === 3")
        assert browser.value("window.marked") == "not loaded again"
        browser.value(CHOOSE)
        step.release()
        at.acquire(timeout=120)
        browser.until(f"{rounds} === 4")
        assert browser.value(CHOSEN) == AS_CHOSEN, "what the user has chosen outlives a round"
        browser.value("delete window.chosen; history.replaceState(null, '', location.pathname)")
        for _ in range(9):
            step.release()
        runner.join(timeout=120)
        browser.until("document.getElementById('live') === null")
        lived = browser.value("[document.getElementById('main').innerHTML, document.title]")
        assert browser.value("document.documentElement.dataset.ready") == "yes"
        report = write_page(load_run(folder), folder / "report.html")
        assert json.loads(browser.value("document.getElementById('data').textContent")) == json.loads(
            json.dumps(page_data(load_run(folder)) | {"audit": None})
        )
        browser.open(report.as_uri())
        browser.until("location.protocol === 'file:' && document.documentElement.dataset.ready === 'yes'")
        assert browser.value("[document.getElementById('main').innerHTML, document.title]") == lived
    finally:
        for _ in range(9):
            step.release()
        watch.close()
        browser.close()


@pytest.mark.slow
def test_in_a_browser_a_site_shows_its_peers_while_it_runs_and_ends_as_its_report(tmp_path):
    """Four real sites as processes; one of them is watched from outside."""
    pytest.importorskip("zenoh")
    command = [sys.executable, "-m", "consilience", "federation", "demo", "--out", str(tmp_path / "four")]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    sites = subprocess.Popen(command, cwd=tmp_path, **quiet)
    browser = Browser(tmp_path / "profile")
    try:
        while not (begun := sorted((tmp_path / "four").glob("*/run/started.json"))):
            assert sites.poll() is None
            time.sleep(0.05)
        folder = begun[0].parent
        peers = sorted(path.parent.name for path in (tmp_path / "four").glob("*/site.toml"))
        peers.remove(folder.parent.name)
        with Watch(folder) as watch:
            browser.open(watch.address)
            seen = set()
            pairs = "[...document.querySelectorAll('#live dl div')]"
            shown = f"Object.fromEntries({pairs}.map(pair => [...pair.children].map(part => part.textContent)))"
            browser.until("document.getElementById('live') !== null", 300)
            while browser.value("document.getElementById('live') !== null"):
                facts = browser.value(shown) or {}
                seen |= {(name, facts[name]) for name in ("present", "absent", "waits for") if name in facts}
                time.sleep(0.1)
            assert ("present", ", ".join(peers)) in seen
            assert sites.wait(timeout=200) == 0
            lived = browser.value("[document.getElementById('main').innerHTML, document.title]")
            browser.open((folder / "report.html").as_uri())
            browser.until("location.protocol === 'file:' && document.documentElement.dataset.ready === 'yes'")
            assert browser.value("[document.getElementById('main').innerHTML, document.title]") == lived
    finally:
        sites.kill()
        sites.wait()
        browser.close()
