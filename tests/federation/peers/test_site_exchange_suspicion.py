"""A site that does not say what its own model predicts is named by its peers within two rounds."""

from pathlib import Path

import pytest

from consilience import load_run
from consilience.base import toml
from tests.federation.conftest import sign

pytestmark = pytest.mark.faults

LIAR = '''
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from honest import make_agent as honest_agent

import numpy as np
from consilience.extend import Wrapper

HERE = Path(__file__).parent


class Liar(Wrapper):
    """Says what it said first, or what a neighbour, whose folder it can read, published last."""

    said = None

    def publish(self, shared):
        own = self.agent.predict(shared)
        frames = sorted((HERE.parent / "VICTIM" / "run" / "published").glob("*.frame"), key=lambda path: int(path.stem))
        if "VICTIM" == "self":
            self.said = own if self.said is None else self.said
            return self.said
        if not frames:
            return own
        payload = frames[-1].read_bytes()[:-64][-4 * own.size :]
        return np.frombuffer(payload, "<f4").reshape(own.shape)


def make_agent(name, classes, seed):
    return Liar(honest_agent(name, classes, seed))
'''


def make_liar(trial, name: str, victim: str) -> None:
    folder: Path = trial.sites[name].parent
    (folder / "agent.py").rename(folder / "honest.py")
    (folder / "agent.py").write_text(LIAR.replace("VICTIM", victim))


@pytest.mark.parametrize(("victim", "sign"), [("self", "stale"), ("0", "echo"), ("1", "copy")])
def test_a_stale_an_echoing_and_a_copying_site_are_named_within_two_rounds(federate, victim, sign):
    trial = federate(4, rounds=5, start_wait=60.0)
    make_liar(trial, "3", victim)
    trial.start()
    trial.finish()
    named = [event for event in trial.events("0", "suspicious") if event["agent"] == "3"]
    assert named, trial.output("0")
    signs = {event["sign"] for event in named}
    assert sign in signs and signs <= {sign, "stale"}, "who is slow may repeat the same frame of its victim"
    exchanges = [event["round"] for event in trial.events("0", "round")]
    assert named[0]["round"] <= exchanges[2], "the first exchange has nothing to compare with; then two rounds"
    honest = {event["agent"] for name in "012" for event in trial.events(name, "suspicious")} - {"3"}
    assert honest <= {victim}, "of two that are the same, both may be named"
    assert "suspicious: 3 said the same" in trial.output("0")
    assert "3 said the same" in (trial.sites["0"].parent / "run" / "report.html").read_text()


def test_a_federation_may_agree_to_leave_suspicious_peers_out(federate):
    """In a round in which it repeats itself; who was late in the round before has nothing to repeat yet."""
    trial = federate(4, rounds=5, deadline=10.0, start_wait=60.0)
    file = trial.folder / "federation.toml"
    file.write_text(toml.dump(toml.read(file) | {"on_suspicion": "exclude"}))
    sign(file, *trial.sites.values())
    make_liar(trial, "3", "self")
    trial.start()
    trial.finish("0", "1", "2")
    run = load_run(trial.sites["0"].parent / "run")
    heard = {event["round"]: "3" in event["heard"] for event in trial.events("0", "round")}
    repeats = [number for number in heard if heard[number] and heard.get(number - 1)]
    assert heard[2] and repeats, "it was never heard twice"
    assert [event["round"] for event in trial.events("0", "suspicious") if event["agent"] == "3"] == repeats
    trusted = dict(zip(run.trust_rounds.tolist(), (run.trust[:, 0, 3] > 0).tolist(), strict=True))
    assert trusted == {number: heard[number] and number not in repeats for number in heard}
