"""What happens to rows of a site before its model sees them."""

from pathlib import Path

import numpy as np
import pytest

from consilience.federation.site import load_site
from tests.federation.conftest import change

pytest.importorskip("zenoh", reason="needs consilience[peers]")


def test_standardising_is_by_the_shared_data(site: Path) -> None:
    prepared = load_site(site)
    scaled = prepared.features(prepared.shared)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.std(axis=0), 1, atol=1e-6)
    change(site, "standardise = true", "standardise = false")
    assert load_site(site).features(prepared.shared) is prepared.shared
