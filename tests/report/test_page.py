"""The report holds the run's numbers, opens offline, draws them in a real browser, and trusts no name."""

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from consilience.base.errors import ConsilienceError
from consilience.methods import method_named
from consilience.report import page
from consilience.report.page import page_data, write_page
from consilience.runtime.run import Run
from consilience.runtime.summary import AgentSummary, Summary

HOSTILE = "</script><b>x"
COLUMNS = [f"{score}_{place}" for place in ("shared", "target", "own") for score in ("accuracy", "balanced_accuracy")]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on PATH")


def make_trust(rounds: int, agents: int, seed: int = 0) -> np.ndarray:
    """Row-stochastic matrices that come closer to uniform."""
    draw = np.random.default_rng(seed).uniform(0.1, 1, (agents, agents)) + np.eye(agents)
    mix = np.linspace(0.9, 0.2, rounds)[:, None, None]
    return np.asarray(mix * draw / draw.sum(axis=1, keepdims=True) + (1 - mix) / agents)


def make_run(
    names: Sequence[str] = ("a", "b", "c", "d"),
    *,
    rounds: int = 7,
    warmup: int = 2,
    columns: Sequence[str] = COLUMNS,
    collaborates: bool = True,
    **facts: Any,
) -> Run:
    """A run in which agent i has score (round + i) / 20 everywhere and sends 100 bytes in each exchange."""
    rows = [
        {"round": t, "agent": name, "disagreement_all": 1 / t, "bytes_sent": 100 if collaborates and t > warmup else 0}
        | dict.fromkeys(columns, (t + number) / 20)
        for t in range(1, rounds + 1)
        for number, name in enumerate(names)
    ]
    active = np.arange(warmup + 1, rounds + 1) if collaborates else np.zeros(0, dtype=np.int64)
    trust = make_trust(len(active), len(names)) if collaborates else np.zeros((0, 0, 0))
    people = [AgentSummary(name, "mlp", 30, number == 1, 1000, [10, 20]) for number, name in enumerate(names)]
    method = method_named(facts.pop("method", "paper" if collaborates else "alone"))
    known = {"task": "classification", "classes": ["no", "yes"], "dataset": "toy", "seconds": 4.2} | facts
    summary = Summary(
        method.label, method.title, rounds=rounds, warmup=warmup, shared_samples=40, **({"agents": people} | known)
    )
    return Run(pd.DataFrame(rows), trust, active, summary)


def without_scores(run: Run) -> Run:
    return replace(run, metrics=run.metrics.assign(**dict.fromkeys(COLUMNS, np.nan)))


def one_site(run: Run, name: str) -> Run:
    """What one organisation has: its own metrics and trust row, and of its peers only the names."""
    people = [a if a.name == name else AgentSummary(a.name) for a in run.summary.agents]
    own = run.names.index(name)
    metrics = run.metrics[run.metrics["agent"] == name]
    return replace(run, metrics=metrics, trust=run.trust[:, [own]], summary=replace(run.summary, agents=people))


def measure(run: Run, column: str) -> Any:
    return {m["column"]: m for m in page_data(run)["measures"]}[column]


def test_scores_alone_come_from_the_reference() -> None:
    alone = make_run(collaborates=False, rounds=4)
    data = measure(replace(make_run(), references={"alone": alone}), "accuracy_target")
    assert data["alone"] == [0.2, 0.25, 0.3, 0.35]
    assert data["together"] == [0.35, 0.4, 0.45, 0.5]
    assert data["gain"] == [0.15, 0.15, 0.15, 0.15]


def test_without_agents_that_trained_alone_no_gain_is_shown() -> None:
    run = make_run()
    data = page_data(run)
    found = measure(run, "accuracy_own")
    assert found["alone"] == found["gain"] == [None] * 4
    assert found["together"] == [0.35, 0.4, 0.45, 0.5]
    assert "No gain is shown" in data["alone_note"]
    assert [entry["method"] for entry in data["headline"]["entries"]] == ["consensus (paper)"]
    assert data["headline"]["gain"] == data["headline"]["interval"] == ""
    assert data["verdicts"] == []


def test_headline_is_the_mean_over_agents_with_good_labels() -> None:
    alone, naive = make_run(collaborates=False, rounds=4), make_run(rounds=5, method="naive")
    headline = page_data(replace(make_run(), references={"naive": naive, "alone": alone}))["headline"]
    assert [(entry["method"], entry["mean"], entry["low"]) for entry in headline["entries"]] == [
        ("alone", "0.283", "0.250"),
        ("naive", "0.333", "0.300"),
        ("consensus (paper)", "0.433", "0.400"),
    ]


def test_regression_gains_by_a_lower_error() -> None:
    alone = make_run(columns=["rmse_target"], task="regression", rounds=2)
    run = replace(make_run(columns=["rmse_target"], task="regression"), references={"alone": alone})
    data = measure(run, "rmse_target")
    assert data["lower_is_better"]
    assert data["gain"] == [-0.25] * 4


def test_the_page_says_who_is_trusted_whether_they_agree_and_what_the_theory_says() -> None:
    run = make_run(names=("a", "b", "c", "d", "e"))
    run.trust[:] = 0.22
    run.trust[0, :, 0], run.trust[0, :, 4] = 0.34, 0.01
    data = page_data(run)
    assert data["trusted"] == [
        "In the first exchange (round 3) peers trust agent a (1.36) most and hardly trust agent e (0.04); the mean is "
        "0.81.",
        "In round 7 peers trust everybody about equally (0.88 to 0.88).",
    ]
    assert data["agreement"]["answer"] == (
        "They agree more: the largest difference between two agents went from 0.500 (round 2) to 0.143 (round 7)."
    )
    assert data["theory"]["brief"][1] == "Agents trust themselves ever less: no, more in 1 of 4 steps."
    assert len(data["theory"]["brief"]) == 3 < len(data["theory"]["findings"])
    site = one_site(make_run(), "c")
    site.trust[:, 0] = [0.5, 0.1, 0.3, 0.1]
    assert page_data(site)["trusted"][0] == (
        "In the first exchange (round 3) this site trusts agent a (0.50) most and hardly trusts agents d (0.10) and b "
        "(0.10); the mean is 0.23."
    )
    assert page_data(make_run(collaborates=False))["trusted"] == []


def test_the_tile_of_the_best_is_marked_whoever_it_is() -> None:
    run = make_run()
    better = make_run(collaborates=False)
    better.metrics["accuracy_target"] += 0.1
    entries = page_data(replace(run, references={"alone": better}))["headline"]["entries"]
    assert [entry["best"] for entry in entries] == [True, False]
    assert [entry["best"] for entry in page_data(run)["headline"]["entries"]] == [False]


def test_a_run_alone_has_scores_but_no_trust() -> None:
    data = page_data(make_run(collaborates=False))
    assert (data["trust"], data["influence"], data["start"]) == (None, None, None)
    assert (data["measures"][0]["alone"][0], data["measures"][0]["together"][0]) == (0.35, None)
    assert len(data["headline"]["entries"]) == 1


def test_one_site_shows_its_own_trust_and_skips_what_needs_all_rows() -> None:
    run = make_run()
    data = page_data(one_site(run, "c"))
    assert data["trust"]["rows"] == [2]
    assert (data["influence"], data["agreement"]) == (None, None)
    assert data["title"].startswith("c: consensus")
    assert data["headline"]["what"].startswith("c: accuracy"), "no mean where one agent is known"
    given = [a["received"][0] for a in data["agents"]]
    np.testing.assert_allclose(given, run.trust[0, 2], rtol=1e-3)
    assert [a["here"] for a in data["agents"]] == [False, False, True, False]
    assert data["sent"]["bytes"] == [None, None, 500, None]
    assert "unknown" in data["sent"]["obstacle"]


def test_trust_that_does_not_fit_the_roster_is_refused() -> None:
    run = make_run()
    with pytest.raises(ConsilienceError, match="must list every agent"):
        page_data(replace(run, trust=run.trust[:, :, :3]))


def test_hostile_names_stay_inside_the_data(tmp_path: Path) -> None:
    run = make_run(["a", HOSTILE, "&amp;", "__DATA__"], classes=["<!--", "yes"])
    text = write_page(run, tmp_path / "report.html").read_text()
    assert HOSTILE not in text
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert [agent["name"] for agent in data["agents"]] == run.names
    assert data["classes"]["names"] == ["<!--", "yes"]


def test_the_page_asks_nothing_of_the_network_and_is_small(tmp_path: Path) -> None:
    path = write_page(make_run(), tmp_path / "new" / "report.html")
    text = path.read_text()
    assert set(re.findall(r"https?://[^\s\"'`)]*", text)) == {"http://www.w3.org/2000/svg"}
    assert set(re.findall(r"(?:src|href)\s*=\s*[\"']([^\"']*)", text)) == {"data:,"}
    assert "default-src 'none'" in text
    assert path.stat().st_size < 100_000


def drawn(run: Run, folder: Path, fragment: str = "", script: str = "") -> str:
    """The page's elements after a real browser has drawn it, and run `script`."""
    path = write_page(run, folder / "report.html")
    path.write_text(path.read_text().replace("</body>", f"<script>{script}</script></body>"))
    switches = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    switches += [
        "--disable-background-networking",
        "--disable-component-update",
        f"--user-data-dir={folder / 'browser'}",
    ]
    command = [str(CHROMIUM), *switches, "--virtual-time-budget=2000", "--dump-dom", f"{path.as_uri()}{fragment}"]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    return re.sub(r"<(script|style)\b.*?</\1>", "", dom, flags=re.DOTALL)


def cell_values(dom: str) -> list[float]:
    return [float(value) for value in re.findall(r'class="cell[^>]*data-value="([^"]+)"', dom)]


def assert_ready(dom: str) -> None:
    """All of the page was drawn, or its own error text is in the message."""
    assert 'data-ready="yes"' in dom, re.findall(r'class="error">([^<]*)', dom)


@needs_chromium
def test_a_browser_draws_every_section(tmp_path: Path) -> None:
    run = replace(make_run(), references={"alone": make_run(collaborates=False)})
    dom = drawn(run, tmp_path, "#round=3")
    assert_ready(dom)
    ends = [heading.split()[-1] for heading in re.findall(r"<h2>([^<]*)", dom)]
    assert ends == ["gain?", "trust?", "help?", "agree?", "consensus?", "run?", "hold?", "rows?", "sent?"]
    assert re.search(r'<input type="range" min="0" max="4"', dom)
    assert ">round 3</output>" in dom
    np.testing.assert_allclose(cell_values(dom), run.trust[0].ravel(), rtol=1e-3)
    assert dom.count('class="cell masked"') == 4
    help_section = dom.split('id="help"')[1].split("</section>")[0]
    assert len(re.findall(r'<path class="curve "[^>]* d="M', help_section)) == 4 + 1  # agents, and the legend
    assert len(re.findall(r'<path class="curve dashed"[^>]* d="M', help_section)) == 4 + 1
    assert dom.count('class="dot bubble') == 4 * 2
    assert "labels shifted" in dom


@needs_chromium
def test_lines_of_trust_have_names_that_do_not_overlap(tmp_path: Path) -> None:
    """Where there are few agents; with many, a line says whose it is when one points at it."""
    names = [f"site {number}" for number in range(10)]
    dom = drawn(make_run(names), tmp_path)
    assert_ready(dom)
    section = dom.split('aria-label="trust received over rounds"')[1].split("</svg>")[0]
    found = re.findall(r'<text class="name [^"]*" x="[\d.]+" y="([\d.]+)">(site \d)</text>', section)
    assert sorted(name for _, name in found) == names
    assert np.diff(sorted(float(y) for y, _ in found)).min() >= 12.9
    many = drawn(make_run([f"site {number}" for number in range(13)]), tmp_path)
    assert "Point at a line" in many and "Point at a line" not in dom
    assert 'class="name' not in many.split('aria-label="trust received over rounds"')[1].split("</svg>")[0]


@needs_chromium
def test_the_address_selects_the_round(tmp_path: Path) -> None:
    run = make_run()
    dom = drawn(run, tmp_path, "#round=7")
    assert ">round 7</output>" in dom
    np.testing.assert_allclose(cell_values(dom), run.trust[-1].ravel(), rtol=1e-3)


@needs_chromium
def test_slider_diagonal_and_selector_change_what_is_shown(tmp_path: Path) -> None:
    run = make_run()
    run.metrics["accuracy_own"] = 0.9876
    act = """
    const slider = document.getElementById("round");
    slider.value = 2; slider.dispatchEvent(new Event("input"));
    document.getElementById("diagonal").click();
    const place = document.querySelector("#help select");
    place.value = "each agent's own test data"; place.dispatchEvent(new Event("change"));
    document.querySelector(".cell").dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
    """
    dom = drawn(run, tmp_path, script=act)
    assert_ready(dom)
    np.testing.assert_allclose(cell_values(dom), run.trust[2].ravel(), rtol=1e-3)
    assert dom.count('class="cell masked"') == 0
    assert f"agent a trusts itself: {run.trust[2, 0, 0]:.3f}" in dom
    assert dom.split('id="agents"')[1].split("</section>")[0].count("0.988") == 4


@needs_chromium
def test_cells_by_keyboard_colours_by_round_and_files_to_take_along(tmp_path: Path) -> None:
    alone, naive = make_run(collaborates=False), make_run(method="naive")
    run = replace(make_run(), references={"alone": alone, "naive": naive})
    act = """
    const opacity = () => document.querySelectorAll(".cell")[1].getAttribute("fill-opacity"), before = opacity();
    document.getElementById("follow").click();
    document.title = `${before} ${opacity()}`;
    const press = key => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    document.querySelector(".cell[tabindex='0']").focus(); press("ArrowRight"); press("ArrowDown");
    HTMLAnchorElement.prototype.click = () => {};       // a real download would keep the browser busy
    const show = text => document.body.append(Object.assign(document.createElement("pre"), { textContent: text }));
    URL.createObjectURL = blob => { blob.text().then(show); return "blob:"; };
    document.querySelectorAll("#trust .save button").forEach(button => button.click());
    document.querySelector("#agents .save button").click();
    """
    dom = drawn(run, tmp_path, script=act)
    assert_ready(dom)
    before, after = map(float, re.findall(r"<title>([\d.]+) ([\d.]+)</title>", dom)[0])
    off = run.trust[0] - np.diag(np.diag(run.trust[0]))
    assert after == pytest.approx(run.trust[0, 0, 1] / off.max(), abs=2e-3) and after >= before
    assert ">round 3</output>" in dom, "the matrix opens at the first exchange"
    assert f"agent b trusts itself: {run.trust[0, 1, 1]:.3f}" in re.findall(r'id="tip"[^>]*>([^<]*)<', dom)[0]
    svg, trust, agents = re.findall(r"<pre>(.*?)</pre>", dom, re.DOTALL)
    assert svg.startswith("&lt;svg xmlns=") and "var(--" not in svg and "rgb(" in svg
    assert f"7,b,b,{run.trust[-1, 1, 1]:.4g}" in trust.splitlines()
    assert "a,mlp,30,accuracy,the target domain,0.350,0.350,0.000,-" in agents.splitlines()
    assert len(re.findall(r'<path class="curve other"[^>]* d="M', dom)) == 4 + 1, "naive beside it, and the legend"


@needs_chromium
def test_a_browser_shows_hostile_names_as_text(tmp_path: Path) -> None:
    dom = drawn(make_run(["a", HOSTILE, "<img src=x onerror=document.title=1>", "d"]), tmp_path)
    assert_ready(dom)
    assert "&lt;/script&gt;&lt;b&gt;x" in dom
    assert "<b>x" not in dom
    assert "<img" not in dom


@needs_chromium
@pytest.mark.parametrize(
    ("run", "there", "missing"),
    [
        (
            make_run(columns=[f"rmse_{p}" for p in ("shared", "target", "own")], classes=[], task="regression"),
            "lower is better",
            "accuracy",
        ),
        (without_scores(make_run()), "No labels were given", 'id="help"'),
        (make_run(collaborates=False), "Nobody collaborated", 'id="trust"'),
        (one_site(make_run(), "c"), "elsewhere", 'id="influence"'),
        (one_site(make_run(incidents=["b was absent in round 3."]), "c"), "b was absent in round 3.", "eceived"),
    ],
    ids=["regression", "no labels", "alone", "one site", "absence"],
)
def test_a_browser_draws_runs_that_lack_something(run: Run, there: str, missing: str, tmp_path: Path) -> None:
    dom = drawn(run, tmp_path)
    assert_ready(dom)
    assert there in dom
    assert missing not in dom


@needs_chromium
def test_a_failed_drawing_is_told_and_not_called_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "influence", lambda *_: {"product": None})
    dom = drawn(make_run(), tmp_path)
    assert 'data-ready="no"' in dom
    assert "This part could not be drawn" in dom
    assert 'id="sent"' in dom
