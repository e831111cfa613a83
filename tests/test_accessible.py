"""Every page that we write passes axe-core, in light and dark, on a wide screen and on a phone, and fits the phone.

`make slow` fetches axe-core with npm; without it these tests are left out.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from consilience.experiments.axes import parse_axis
from consilience.experiments.compare import compare
from consilience.experiments.robustness import robustness
from consilience.experiments.run import run_experiment
from consilience.report.compare import write_compare
from consilience.report.live import Watch
from consilience.report.page import write_page
from consilience.report.robustness import write_robustness
from consilience.report.run_index import note_finding, write_index
from consilience.report.sweep import write_sweep
from consilience.settings.presets import read_settings
from tests.report.browser import Browser
from tests.report.test_live import CHANGES, stopped_after

ROOT = Path(__file__).parents[1]
AXE = Path(os.environ.get("AXE", ROOT / ".venv" / "axe" / "node_modules" / "axe-core" / "axe.min.js"))
STILL = "<style>* { transition: none !important }</style>"
"""Without it axe may see colours on their way from dark to light."""
SETTINGS = read_settings("digits", CHANGES)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not AXE.is_file(), reason=f"no axe-core in {AXE}: npm install axe-core, or set AXE"),
]


@pytest.fixture
def browser(tmp_path):
    found = Browser(tmp_path / "profile")
    yield found
    found.close()


def check(browser: Browser, address: str) -> None:
    """No violation, and nothing that makes a phone's page wider than its screen."""
    for width in (1400, 390):
        for dark in (False, True):
            browser.look(width, dark)
            browser.open(address)
            browser.until("document.readyState === 'complete' && document.querySelector('h1') !== null")
            browser.value(f"document.head.insertAdjacentHTML('beforeend', '{STILL}')")
            browser.value(AXE.read_text() + ";0")
            found = browser.value(
                "axe.run(document).then(found => found.violations.map(one => "
                "one.id + ': ' + one.nodes.slice(0, 3).map(node => node.target.join(' ')).join('; ')))"
            )
            assert isinstance(found, list), "axe has run"
            assert found == [], f"{address} at {width} px, {'dark' if dark else 'light'}"
            if width < 500:
                assert browser.value("document.documentElement.scrollWidth <= innerWidth"), address


def page(written: list[Path]) -> str:
    [found] = [path for path in written if path.suffix == ".html"]
    return found.as_uri()


def test_the_report_of_a_run(tmp_path, browser):
    settings = read_settings("digits", CHANGES | {"references": ["alone", "naive"], "low_quality": [1]})
    run = run_experiment(settings, tmp_path / "run", 1)
    check(browser, write_page(run, tmp_path / "run" / "report.html").as_uri())
    for width in (1120, 390, 1400):  # a window that is made narrow and wide again
        browser.look(width)
        browser.value("new Promise(done => setTimeout(done, 300))")
        assert browser.value("document.querySelector('.error') === null")
        assert browser.value("document.documentElement.dataset.ready") == "yes"
        fitting = "[...document.querySelectorAll('.drawing')].every(box => box.drawnFor === box.clientWidth)"
        assert browser.value(fitting), "every drawing is as wide as its place"


def test_the_live_page_of_a_run_and_of_several(tmp_path, browser):
    stopped_after(3, tmp_path / "seed-0" / "paper")
    with Watch(tmp_path / "seed-0" / "paper") as page:
        check(browser, page.address)
    with Watch(tmp_path) as page:
        check(browser, page.address)


def test_a_comparison_a_sweep_a_robustness_and_the_index_of_a_reproduction(tmp_path, browser):
    compared = compare(SETTINGS, ["consensus", "alone"], [0, 1], tmp_path / "compare", 1)
    check(browser, page(write_compare(compared, "", tmp_path / "compare", "methods")))
    axes = [parse_axis("lam=0.1,1"), parse_axis("alpha=0.5,1")]
    swept = compare(SETTINGS, ["consensus", "alone"], [0, 1], tmp_path / "sweep", 1, axes=axes)
    check(browser, page(write_sweep(swept, tmp_path / "sweep", "settings")))
    broken = robustness(SETTINGS, ["flip"], ["entropy", "stratified"], [1], [0], tmp_path / "robustness", 1)
    check(browser, page(write_robustness(broken, tmp_path / "robustness", "liars")))
    note_finding(tmp_path / "compare", "fig0", "A figure", "It holds.", ["It holds: 1."])
    (tmp_path / "compare" / "fig0.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    (tmp_path / "compare" / "fig0.csv").write_text("claim,number\nfirst,0.5\n")
    check(browser, write_index(tmp_path / "compare", "Reproduction").as_uri())


def test_the_documentation_site(tmp_path, browser):
    pytest.importorskip("material", reason="mkdocs-material is not installed: pip install 'consilience[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "-d", str(tmp_path / "site")]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    for page in sorted({*(tmp_path / "site").rglob("*.html")} - {tmp_path / "site" / "404.html"}):
        check(browser, page.as_uri())
