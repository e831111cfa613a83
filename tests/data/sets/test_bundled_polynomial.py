"""The regression example of the paper's appendix."""

import numpy as np
import pytest

from consilience import ConsilienceError
from consilience.data.scenario import polynomial


def cubic(x):
    return 0.5 * x**3 + 0.3 * x**2 - 5 * x + 4


def test_the_polynomial_of_the_paper():
    scenario = polynomial(0)
    x = scenario.shared[:, 0]
    assert (x.min(), x.max(), len(x)) == (-4, 4, 50)
    np.testing.assert_allclose(np.diff(x), 8 / 49, rtol=1e-5)
    np.testing.assert_allclose(scenario.shared_y[:, 0], cubic(x), rtol=1e-4, atol=1e-4)
    assert scenario.target_x.shape == (400, 1)
    assert -4 <= scenario.target_x.min() < -3.8
    assert 3.8 < scenario.target_x.max() <= 4
    np.testing.assert_allclose(scenario.target_y, cubic(scenario.target_x), rtol=1e-4, atol=1e-4)
    assert (scenario.task, scenario.classes) == ("regression", ())
    arrays = (scenario.shared, scenario.shared_y, scenario.target_x, scenario.target_y)
    assert {array.dtype for array in arrays} == {np.dtype(np.float32)}
    assert tuple(scenario.shares) == ("0", "1", "2")


def test_agents_of_the_polynomial_see_different_ranges_with_unit_noise():
    scenario = polynomial(0, agents=4, samples=2000)
    for mean, share in zip([-2, 0, 2, 3], scenario.shares.values(), strict=True):
        for x, y in ((share.x, share.y), (share.test_x, share.test_y)):
            assert x.shape == y.shape == (2000, 1)
            assert x.dtype == y.dtype == np.float32
            assert x.mean() == pytest.approx(mean, abs=0.1)
            assert x.std() == pytest.approx(1, abs=0.1)
            assert (y - cubic(x)).mean() == pytest.approx(0, abs=0.1)
            assert (y - cubic(x)).std() == pytest.approx(1, abs=0.1)
        assert np.intersect1d(share.x, share.test_x).size < 10


def test_the_polynomial_is_the_same_on_every_machine_and_in_every_version():
    scenario = polynomial(0)
    assert len(scenario.shares["0"].x) == 50
    first = [[part[0, 0] for part in (s.x, s.y, s.test_x, s.test_y)] for s in scenario.shares.values()]
    known = [
        [-1.6690319776535034, 11.299412727355957, -2.5913195610046387, 10.364830017089844],
        [-0.23217172920703888, 4.9328999519348145, 0.3761392831802368, 2.9274682998657227],
        [1.513949990272522, -0.5765716433525085, 0.4620380997657776, 1.784521460533142],
    ]
    np.testing.assert_allclose(first, known, rtol=1e-5)
    np.testing.assert_allclose(scenario.target_x[:2, 0], [-1.5894765, 3.695867], rtol=1e-6)


def test_the_polynomial_has_at_most_four_agents():
    with pytest.raises(ConsilienceError, match=r"at most 4 agents, not 5"):
        polynomial(0, agents=5)
