"""A file of the user's brings a trust rule, which works on several workers as it does on one."""

import subprocess
import sys
import textwrap
from multiprocessing import active_children

import numpy as np
import pytest

from consilience import ConsilienceError, load_run
from consilience.experiments.run import run_experiment
from consilience.extend import TRUST
from consilience.runtime import checkpoint
from consilience.settings.presets import read_settings
from tests.conftest import Hears
from tests.test_same_everywhere import Stopped, same_folder, stop_after_two_rounds

SETTINGS = {"rounds": 4, "method.warmup": 1, "agents.count": 4, "models": ["mlp"], "epochs": 1}
SETTINGS |= {"low_quality": [], "references": []}
PLUGIN = """
    from dataclasses import dataclass
    import numpy as np
    import consilience as cs

    @cs.extend.TRUST.add("stubborn")
    @dataclass(frozen=True)
    class Stubborn:
        '''Half for oneself, the rest as the mean of the entropy trust of all rounds.'''
        self_trust: float = cs.extend.option(0.5, "for oneself", at_least=0, below=1)

        def __call__(self, f, context):
            total = context.memory.get("total", 0) + cs.core.entropy_trust(f)
            mean = total / total.sum(axis=1, keepdims=True)
            trust = self.self_trust * np.eye(len(f)) + (1 - self.self_trust) * mean
            return cs.extend.TrustResult(trust, memory={"total": total})

    @cs.extend.TRUST.add("sure")
    def sure(f):
        return np.eye(len(f))

    @cs.extend.TRUST.add("broken")
    def broken(f):
        raise ZeroDivisionError("never divide")

    @cs.extend.TRUST.add("wrong")
    def wrong(f):
        return np.eye(2)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the plugin, in which the user is; registries are as before afterwards."""
    monkeypatch.setattr(TRUST, "_found", dict(TRUST._all()))
    (tmp_path / "mine.py").write_text(textwrap.dedent(PLUGIN))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_rule_of_the_users_own_with_options_and_memory_on_two_workers(folder):
    """Named in the settings by a path that is relative to where the user is; stopped, and resumed."""
    rule = {"name": "stubborn", "self_trust": 0.25}
    settings = read_settings("digits", SETTINGS | {"plugins": ["mine.py"], "method.trust": rule})
    run_experiment(settings, folder / "one", 1)
    with pytest.raises(Stopped):
        run_experiment(settings, folder / "two", 2, [Hears(stop_after_two_rounds)])
    run_experiment(settings, folder / "two", 2)
    same_folder(folder / "one", folder / "two")
    trust = load_run(folder / "two").trust
    assert trust.shape == (3, 4, 4)
    assert (trust[:, range(4), range(4)] > 0.25).all()
    _, arrays, _ = checkpoint.read(folder / "two" / "checkpoint")
    np.testing.assert_allclose(arrays["common/total"].sum(axis=1), 3, err_msg="three rounds of collaboration")


def test_a_registered_function_on_two_workers(folder):
    settings = read_settings("digits", SETTINGS | {"plugins": "mine.py", "method.trust": "sure"})
    run = run_experiment(settings, folder / "run", 2)
    np.testing.assert_array_equal(run.trust, [np.eye(4)] * 3)


@pytest.mark.parametrize(
    ("rule", "error", "message"),
    [
        (
            "broken",
            ConsilienceError,
            r"mine\.py, line 24, in broken: raise ZeroDivisionError.*\nZeroDivisionError: never divide",
        ),
        ("wrong", ConsilienceError, r"^the trust rule wrong returned an array of shape \(2, 2\) for 4 agents"),
    ],
)
def test_what_goes_wrong_in_a_worker_is_heard(folder, rule, error, message):
    """A mistake in the user's code with its line, what the user can mend in a sentence."""
    settings = read_settings("digits", SETTINGS | {"plugins": ["mine.py"], "method.trust": rule})
    with pytest.raises(error, match=message):
        run_experiment(settings, folder / "run", 2)
    assert not active_children()


def test_without_the_plugin_the_rule_is_not_known(folder):
    with pytest.raises(ConsilienceError, match="unknown trust rule 'stubborn'"):
        read_settings("digits", SETTINGS | {"method.trust": "stubborn"})
    with pytest.raises(ConsilienceError, match=r"other.py is no Python file"):
        read_settings("digits", SETTINGS | {"plugins": ["other.py"]})


def test_a_folder_that_is_resumed_brings_no_plugins_of_its_own(folder):
    """What config.toml names is run by no worker, unless the user names it, too."""
    run_experiment(read_settings("digits", SETTINGS | {"rounds": 3}), folder / "run", 1)
    (folder / "evil.py").write_text("from pathlib import Path\nPath(__file__).with_name('was-run').touch()\n")
    config = folder / "run" / "config.toml"
    text = config.read_text()
    assert "plugins = []" in text
    config.write_text(
        text.replace("plugins = []", f'plugins = ["{folder}/evil.py"]').replace("rounds = 3", "rounds = 4")
    )
    for name in ("summary.json", "SHA256SUMS"):
        (folder / "run" / name).unlink()
    command = [sys.executable, "-m", "consilience", "run", "--resume", "--out", "run", "--workers", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert load_run(folder / "run").summary.rounds == 4
    assert not (folder / "was-run").exists()
