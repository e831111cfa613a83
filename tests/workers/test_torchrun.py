"""Machines that would not give the same numbers are refused."""

import pytest
from consilience.experiments.cluster import _same_versions

from consilience import ConsilienceError
from consilience.runtime.run import versions


def test_other_versions_are_refused_and_named():
    _same_versions(versions(), 1)
    with pytest.raises(ConsilienceError, match=r"worker 3 on .* has torch .*, not 1.0 .*Install the same versions"):
        _same_versions(versions() | {"torch": "1.0"}, 3)
