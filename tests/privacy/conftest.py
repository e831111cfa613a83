"""What tests of privacy share."""

import numpy as np
import pytest

from consilience.privacy.ledger import LedgerFile

pytest.importorskip("opacus", reason="privacy needs the extra packages: pip install 'consilience[privacy]'")
pytest.importorskip("dp_accounting", reason="privacy needs the extra packages: pip install 'consilience[privacy]'")


@pytest.fixture
def rows():
    """Private rows (x, y) and shared rows with pseudo-labels."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(24, 6)).astype(np.float32)
    y = draw.integers(0, 3, 24)
    shared = draw.normal(size=(40, 6)).astype(np.float32)
    labels = draw.dirichlet(np.ones(3), 40).astype(np.float32)
    return x, y, shared, labels


@pytest.fixture
def ledger(rows, tmp_path):
    """Opens the ledger of the rows."""
    opened = []

    def open_it(x=rows[0], owner=None):
        opened.append(LedgerFile(tmp_path / "ledger", x, owner))
        return opened[-1]

    yield open_it
    for one in opened:
        one.close()
