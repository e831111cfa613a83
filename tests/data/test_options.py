"""The options of the data are held to their ranges."""

import pytest

from consilience import ConsilienceError
from consilience.data.options import Data


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"partition": "random"}, "unknown partition 'random'. Known: dirichlet, feature, iid, natural"),
        ({"alpha": 0}, "alpha is 0.0; it must be above 0"),
        ({"target_fraction": 1}, "target_fraction is 1.0; it must be below 1"),
        ({"target_fraction": 0}, "target_fraction is 0.0; it must be above 0"),
        ({"test_fraction": 1.5}, "test_fraction is 1.5; it must be below 1"),
        ({"test_fraction": -0.1}, "test_fraction is -0.1; it must be above 0"),
        ({"shared_per_agent": 0}, "shared_per_agent is 0; it must be at least 1"),
        ({"limit": -1}, "limit is -1; it must be at least 0"),
        ({"side": -1}, "side is -1; it must be at least 0"),
        ({"low_quality": (0.5,)}, "low_quality is .*; it must be a list of numbers"),
        ({"shared_balanced": 1}, "shared_balanced is 1; it must be true or false"),
        ({"dataset": 3}, "dataset is 3; it must be a word"),
    ],
)
def test_impossible_options_are_refused(wrong, says):
    with pytest.raises(ConsilienceError, match=says):
        Data(**wrong)


def test_the_defaults_are_those_of_the_paper_on_digits():
    """A quarter of all data and a fifth of each agent's held out, Dirichlet(1), everyone's labels true."""
    assert Data() == Data("digits", 0, 0, "dirichlet", 1.0, 2, (), (), "labels", 0.25, 0.2, 30, False)
