"""ExpGuard: weights of agents that are updated from round to round."""

import numpy as np

from consilience import Consensus
from consilience.core.robust import coordinate_median
from consilience.methods.trust.expguard import ExpGuard
from tests.methods.parrot import NAMES, Lossy, first_words, parrots, rounds_of


def test_expguard_with_plain_loops():
    loss, f = np.zeros(4), first_words()
    agents = parrots()
    for done in rounds_of(Consensus(trust=ExpGuard(step=3.0), warmup=0), 3, agents=agents):
        centre = coordinate_median(f)
        for j in range(4):
            loss[j] += np.mean([np.sqrt(sum((f[j, s] - centre[s]) ** 2)) for s in range(f.shape[1])])
        p = np.exp(-3 * loss)
        for row in done.record.trust:
            np.testing.assert_allclose(row, p / p.sum(), rtol=1e-4)
        f = np.stack([done.record.predictions[name] for name in NAMES])


def test_expguard_does_not_forget_whom_it_did_not_hear():
    heard = rounds_of(Consensus(trust=ExpGuard(), warmup=0), 3, Lossy({2: {"d"}}))
    assert heard[1].memory.common["d"] == heard[0].memory.common["d"]
    assert heard[1].memory.common["d"] > 0
