"""What an agent promises its private rows."""

import pytest

from consilience.base.errors import ConsilienceError
from consilience.privacy.options import Privacy


def test_a_delta_that_allows_to_publish_a_row_is_refused():
    Privacy(epsilon=1, delta=1e-3).check("a", 999)
    with pytest.raises(ConsilienceError, match=r"agent 'a': delta is 0\.001 for 1000 private rows.*such as 1e-04"):
        Privacy(epsilon=1, delta=1e-3).check("a", 1000)


@pytest.mark.parametrize("wrong", [{"epsilon": -1.0}, {"delta": 0.0}, {"delta": 1.0}, {"clip": 0.0}, {"noise": -0.1}])
def test_numbers_that_promise_nothing_are_refused(wrong):
    with pytest.raises(ConsilienceError, match=next(iter(wrong))):
        Privacy(**wrong)
