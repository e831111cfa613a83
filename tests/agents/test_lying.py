"""The wrapper that lies: usable wherever an agent is."""

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from consilience import Consensus, ConsilienceError, SklearnAgent, check_agent, collaborate
from consilience.agents.lying import Lying
from consilience.core.attacks import Targeted
from tests.conftest import blobs

OWN_ALONE = [
    "flip",
    "random",
    "constant",
    "stale",
    "least-likely",
    "runner-up",
    "sleeper",
    "collusion",
    "echo",
    "stratum",
]


def agent(x: np.ndarray, y: np.ndarray, name: str) -> SklearnAgent:
    return SklearnAgent(GaussianNB(), x, y, name)


def three(attack: object) -> list:
    agents = [agent(*blobs(30, seed), name) for seed, name in enumerate("abc")]
    return [*agents[:2], Lying(agents[2], attack)]


@pytest.mark.parametrize("attack", OWN_ALONE)
def test_a_lying_agent_conforms(attack):
    check_agent(lambda x, y, name: Lying(agent(x, y, name), attack))


def test_it_trains_and_predicts_as_the_agent_does_and_publishes_the_lie(shared):
    honest, liar = agent(*blobs(30, 0), "a"), Lying(agent(*blobs(30, 0), "a"), "flip")
    for one in (honest, liar):
        one.train(shared, None, 0.0)
    np.testing.assert_array_equal(honest.predict(shared), liar.predict(shared))
    np.testing.assert_array_equal(liar.publish(shared), np.roll(honest.predict(shared), 1, axis=1))


def test_stale_repeats_the_first_words_that_were_exchanged_not_those_of_the_warm_up(shared):
    result = collaborate(three("stale"), shared, rounds=6, method=Consensus(warmup=2))
    liar = result.agents[2]
    again = collaborate(three("none"), shared, rounds=2, method=Consensus(warmup=2)).agents[2]
    np.testing.assert_array_equal(liar.publish(shared), again.predict(shared))
    assert np.abs(liar.publish(shared) - liar.predict(shared)).max() > 0


@pytest.mark.parametrize("attack", ["stale", "sleeper(rounds=2)", "random"])
def test_a_collaboration_with_a_liar_goes_on_from_its_checkpoint(tmp_path, shared, attack):
    method = Consensus(warmup=1)
    whole = collaborate(three(attack), shared, rounds=6, method=method)
    collaborate(three(attack), shared, rounds=3, method=method, out=tmp_path / "run")
    resumed = collaborate(three(attack), shared, rounds=6, method=method, out=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(whole.trust, resumed.trust)


def test_a_sleeper_wakes_after_so_many_exchanges(shared):
    method = Consensus(warmup=1)
    honest = collaborate(three("none"), shared, rounds=5, method=method).trust
    lied = collaborate(three("sleeper(rounds=2)"), shared, rounds=5, method=method).trust
    np.testing.assert_array_equal(honest[:2], lied[:2])
    assert (lied[2, :2, 2] < honest[2, :2, 2]).all()


def test_attacks_that_need_others_are_refused(shared):
    for attack in ("copy", "worst-honest", "echo-each"):
        with pytest.raises(ConsilienceError, match=f"{attack} needs the predictions of others"):
            three(attack)
    assert three(Targeted(0, 1))[2].publish
