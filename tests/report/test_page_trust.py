"""The parts of a page about trust and about what was sent."""

from dataclasses import replace

import numpy as np
import pytest

from consilience.core.consensus import influence, stationary, trust_received
from consilience.report import page_trust
from consilience.report.page import page_data
from tests.report.test_page import make_run


def test_trust_and_influence_are_those_of_the_core() -> None:
    run = make_run()
    data = page_data(run)
    np.testing.assert_allclose(data["trust"]["matrices"], run.trust, rtol=1e-3)
    np.testing.assert_allclose(data["trust"]["received"], [trust_received(w) for w in run.trust], rtol=1e-3)
    np.testing.assert_allclose([a["received"][1] for a in data["agents"]], trust_received(run.trust[-1]), rtol=1e-3)
    np.testing.assert_allclose(data["influence"]["product"], influence(run.trust), rtol=1e-3)
    np.testing.assert_allclose(data["influence"]["last"], stationary(run.trust[-1]), rtol=1e-3)
    np.testing.assert_allclose(data["agreement"]["confidence"]["values"][0], np.trace(run.trust[0]) / 4, rtol=1e-3)


def test_long_runs_show_fewer_rounds_but_the_first_and_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_trust, "MOST_TRUST_VALUES", 64)
    trust = page_data(make_run(rounds=30))["trust"]
    assert len(trust["matrices"]) == len(trust["rounds"]) == 4
    assert (trust["rounds"][0], trust["rounds"][-1], trust["of"]) == (3, 30, 28)


def test_the_cost_of_sharing_weights_is_two_ways_four_bytes_a_parameter() -> None:
    sent = page_data(make_run())["sent"]
    assert (sent["bytes"], sent["weights"]) == ([500] * 4, [2 * 4 * 1000 * 5] * 4)


def test_the_page_says_whose_models_cannot_share_weights() -> None:
    run = make_run()
    run.summary.agents[2] = replace(run.summary.agents[2], model="forest", parameters=None)
    sent = page_data(run)["sent"]
    assert sent["weights"] == []
    assert "agent c: forest, whose weights cannot be averaged" in sent["obstacle"]
