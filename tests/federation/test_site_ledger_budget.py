"""Private sites between real peers: what they say of their budget, and that it never becomes less, whatever happens."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opacus", reason="privacy needs the extra packages: pip install 'consilience[privacy]'")
pytest.importorskip("dp_accounting", reason="privacy needs the extra packages: pip install 'consilience[privacy]'")

from consilience.base.files import write_atomically
from consilience.export.manifest import read_manifest
from consilience.federation import demo as trial
from consilience.federation.membership import write_site
from consilience.federation.peers.untrusted_input import read_federation
from consilience.federation.site import read_site
from consilience.privacy.accountants import LedgerEntry, epsilon_of_record, used
from consilience.privacy.options import Privacy
from consilience.runtime.run import load_run
from consilience.settings.presets import read_settings
from consilience.settings.wiring import build_scenario
from tests.federation.conftest import Launcher, Trial, slowness

pytestmark = pytest.mark.faults
DELTA, ROUNDS = 1e-4, 6
Make = Callable[..., Trial]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the operator's programs keep their state: the ledgers are there by themselves."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def at_home(home: Path) -> Iterator[Launcher]:
    pytest.importorskip("zenoh")
    started = Launcher(XDG_STATE_HOME=str(home))
    yield started
    started.close()


@pytest.fixture
def make(at_home: Launcher, home: Path, tmp_path: Path) -> Iterator[Make]:
    """Four sites that read digits with a layer of weights each; the first is private."""
    trials: list[Trial] = []
    shutil.rmtree(home / "consilience", ignore_errors=True)

    def lay_out(privacy: Privacy, seed: int = 0, baseline: bool = False, quorum: int = 3, **changes: Any) -> Trial:
        slow = slowness()
        options = {"agents.count": 4, "models": ["linear"], "low_quality": [], "rounds": ROUNDS, "warmup": 1}
        settings = read_settings("digits", options | {"limit": 40, "shared_per_agent": 12, "seed": seed} | changes)
        folder = tmp_path / f"trial-{len(trials)}"
        sites = trial.lay_out(settings, build_scenario(settings), folder, 10.0 * slow, quorum, start_wait=20.0 * slow)
        for number, path in enumerate(sites.values()):
            mine = privacy if number == 0 else Privacy()
            write_site(path, replace(read_site(path), privacy=mine, baseline=baseline and not number))
        trials.append(Trial(at_home, folder, sites, slow))
        return trials[-1]

    yield lay_out
    for one in trials:
        one.end()


def entries(home: Path) -> list[LedgerEntry]:
    """What is in all ledgers of the operator."""
    found = []
    for path in sorted((home / "consilience" / "ledger").glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_bytes().splitlines() if line.endswith(b"}")]
        found += [LedgerEntry(*(line[key] for key in LedgerEntry._fields)) for line in lines[1:]]
    return found


def spent(home: Path) -> float:
    return epsilon_of_record(used(entries(home)), DELTA)


def frames(path: Path) -> dict[int, bytes]:
    """What a site published, by round."""
    found = (path.parent / "run" / "published").glob("*.frame")
    return {int(trial.stem): trial.read_bytes() for trial in found}


def test_a_private_site_says_what_it_spends_in_log_ledger_and_report(make: Make, home: Path) -> None:
    trial = make(Privacy(epsilon=3, delta=DELTA), baseline=True)
    trial.start()
    trial.finish()
    trial.check(*trial.names, rounds=ROUNDS)
    site = trial.sites["0"].parent
    logged = trial.events("0", "privacy")
    epsilons = [event["epsilon"] for event in logged]
    assert [event["round"] for event in logged] == list(range(1, ROUNDS + 1)) and all(e["trained"] for e in logged)
    assert epsilons == sorted(set(epsilons)) and 0.99 * 3 <= epsilons[-1] <= 3
    assert len(entries(home)) == ROUNDS, "the copy that trains alone enters nothing"
    assert spent(home) == pytest.approx(epsilons[-1])
    run = load_run(site / "run")
    assert run.metrics["epsilon"].tolist() == epsilons
    assert f"epsilon {epsilons[-1]:.3f}" in trial.output("0")
    assert run.summary.agents[0].privacy["epsilon"] == pytest.approx(epsilons[-1])
    assert run.summary.agents[0].privacy["generator"] == "secret"
    assert run.summary.agents[0].class_counts == [] and "data" not in trial.events("0", "ledger")[0]
    training, scores = (getattr(read_manifest(site / "run" / "model"), name) for name in ("training", "scores"))
    assert "epsilon" in training["privacy"] and scores == {}
    assert {"class_counts", "samples", "private_data", "data"}.isdisjoint(training)
    for name in trial.names[1:]:
        files = [path for path in (trial.sites[name].parent / "run").rglob("*") if path.suffix in (".json", ".jsonl")]
        assert files and not any(b'"epsilon":' in path.read_bytes() for path in files), "peers are not told"
    page = (site / "run" / "report.html").read_text()
    assert "one private row (added or removed)" in page and "from a secret of the site" in page
    assert trial.events("1", "privacy") == [], "the others promise nothing"


@pytest.mark.minutes
def test_killed_deleted_installed_anew_a_site_has_spent_what_it_has_spent(make: Make, home: Path) -> None:
    """Real kills at random moments; then a new run without the run folder; then a new installation on the same rows."""
    draw = random.Random(5)
    trial = make(Privacy(epsilon=8, delta=DELTA, noise=20.0), quorum=4, rounds=80)
    trial.start()
    last, kills = 0.0, 0
    while kills < 5 and not trial.events("0", "finished"):
        known = len(trial.events("0"))
        trial.until(lambda known=known: len(trial.events("0")) > known or trial.events("0", "finished"), "life")
        trial.sleep(draw.random() * 0.3)
        if trial.pids["0"] in trial.launcher.codes:
            break
        trial.kill("0")
        kills += 1
        now = spent(home)
        assert len(trial.events("0", "privacy")) <= len(entries(home)) and now >= last
        last = now
        trial.start("0")
    assert kills >= 3
    trial.finish()
    assert spent(home) >= last and broken_log(trial, "0") is None
    last, finished = spent(home), trial.events("0", "privacy")[-1]["epsilon"]
    assert finished == pytest.approx(last)

    for path in trial.sites.values():
        shutil.rmtree(path.parent / "run")
    again = replace(read_federation(trial.folder / "federation.toml"), epoch=2)
    write_atomically(trial.folder / "federation.toml", again.to_toml().encode())
    trial.start()
    trial.finish()
    assert f"epsilon {last:.3f} of 8 is spent on these private rows already" in trial.output("0")
    [opened] = trial.events("0", "ledger")
    assert opened["spent"] == pytest.approx(last) and trial.events("0", "privacy")[0]["epsilon"] > last
    last = spent(home)

    anew = make(Privacy(epsilon=8, delta=DELTA, noise=20.0))
    anew.start()
    anew.finish()
    assert f"epsilon {last:.3f} of 8 is spent" in anew.output("0")
    assert anew.events("0", "privacy")[0]["epsilon"] > last and spent(home) > last
    ledgers = [path.stem.split("-") for path in sorted((home / "consilience" / "ledger").glob("*.jsonl"))]
    assert len(ledgers) == 2 and ledgers[0][1] == ledgers[1][1], "one for each key, of the same rows"


def test_a_site_whose_budget_ends_trains_no_more_and_goes_on_to_answer(make: Make, home: Path) -> None:
    noise = 12.0
    rate, steps = 1.0, 5  # fewer rows than a batch holds, five epochs
    three = epsilon_of_record(((noise, rate, 3 * steps),), DELTA)
    trial = make(Privacy(epsilon=three * 1.02, delta=DELTA, noise=noise))
    trial.start()
    trial.finish()
    trial.check(*trial.names, rounds=ROUNDS)
    made = entries(home)
    assert {(entry.rate, entry.steps) for entry in made} == {(rate, steps)}, "the budget above is of this plan"
    assert [entry.round for entry in made] == [1, 2, 3] and spent(home) == pytest.approx(three)
    logged = trial.events("0", "privacy")
    assert [event["trained"] for event in logged] == [True] * 3 + [False] * (ROUNDS - 3)
    assert all(event["epsilon"] <= three * 1.02 for event in logged)
    assert trial.output("0").count("the privacy budget is spent") == 1
    losses = trial.metrics("0")["log_loss_target"].tolist()
    assert len(set(losses[2:])) == 1 and len(set(losses)) == 3, "its model stays as round 3 left it"
    for name in trial.names[1:]:
        assert all(event["absent"] == [] for event in trial.events(name, "round")), "it was heard to the end"
    assert "was spent before round 4" in (trial.sites["0"].parent / "run" / "report.html").read_text()


def test_a_new_run_without_budget_is_refused_before_anything_leaves(make: Make, home: Path) -> None:
    first = make(Privacy(epsilon=1, delta=DELTA))
    first.start()
    first.finish()
    second = make(Privacy(epsilon=1, delta=DELTA))
    second.start("0")
    assert second.code("0") == 2
    assert "leaves nothing for 6 rounds on these private rows" in " ".join(second.output("0").split())
    assert frames(second.sites["0"]) == {} and spent(home) <= 1


def test_a_site_whose_ledger_is_gone_is_refused_until_its_rows_are_others(make: Make, home: Path) -> None:
    trial = make(Privacy(epsilon=8, delta=DELTA))
    trial.start()
    trial.finish()
    [ledger] = (home / "consilience" / "ledger").glob("*.jsonl")
    for path in (home / "consilience", *(path.parent / "run" for path in trial.sites.values())):
        shutil.rmtree(path)
    again = replace(read_federation(trial.folder / "federation.toml"), epoch=2)
    write_atomically(trial.folder / "federation.toml", again.to_toml().encode())
    trial.start("0")
    assert trial.code("0") == 2
    output = " ".join(trial.output("0").split())
    assert f"has begun the privacy ledger {ledger.stem}, and it is not in" in output
    assert f'other_ledgers = ["{ledger.stem}"]' in output
    write_site(trial.sites["0"], replace(read_site(trial.sites["0"]), other_ledgers=(ledger.stem,)))
    trial.start()
    trial.finish()
    assert len(entries(home)) == ROUNDS


AGENT = '''
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from hold import pause

import numpy as np
import torch
from consilience import Privacy, TorchAgent
from consilience.extend import Wrapper

HERE = Path(__file__).parent


class Held(Wrapper):
    """Can be held when it has trained and not yet spoken."""

    def predict(self, x):
        pause(f"predict-{self.agent._round + 1}")
        return self.agent.predict(x)


def make_agent(name, classes, seed):
    with np.load(HERE / "train.npz") as data:
        x, y = data["x"].reshape(len(data["x"]), -1), data["y"]
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(x.shape[1], len(classes)))
    return Held(TorchAgent(model, x, y, name, seed=seed, privacy=Privacy(epsilon=4, delta=1e-4)))
'''


def test_the_ledger_has_a_round_before_its_frame_is_made(make: Make, home: Path) -> None:
    """A site with an agent of its own, held when it has trained and not yet spoken."""
    trial = make(Privacy(epsilon=4, delta=DELTA))
    folder = trial.sites["0"].parent
    shutil.copy(Path(__file__).parent / "agent.py", folder / "hold.py")
    (folder / "agent.py").write_text(AGENT)
    own = replace(read_site(trial.sites["0"]), python="agent.py", model="", data="", test="", target="")
    write_site(trial.sites["0"], own)
    for number in (2, 4):
        trial.hold("0", f"predict-{number}")
    trial.start()
    for number in (2, 4):
        trial.until_held("0", f"predict-{number}")
        assert [entry.round for entry in entries(home)] == list(range(1, number))
        assert number not in frames(trial.sites["0"])
        trial.release("0", f"predict-{number}")
    trial.finish()
    assert len(entries(home)) == ROUNDS


def broken_log(trial: Trial, name: str) -> int | None:
    from consilience.federation.peers.audit import broken_at

    return broken_at(trial.sites[name].parent / "run" / "audit.jsonl")
