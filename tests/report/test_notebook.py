"""What a notebook shows of a result: one line, or a table of gains and a picture of trust."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from torch import nn

import consilience as cs
from consilience.report.notebook import MOST_CELLS, trust_picture
from tests.conftest import CLASSES, FEATURES, blobs


@pytest.fixture(scope="module")
def result():
    agents = [
        cs.TorchAgent(nn.Linear(FEATURES, CLASSES), *blobs(30, 1), "net"),
        cs.SklearnAgent(LogisticRegression(), *blobs(40, 2), "<words> & more"),
    ]
    return cs.collaborate(
        agents, blobs(60, 5)[0], rounds=3, method=cs.Consensus(warmup=1), target=blobs(200, 7), progress=False
    )


def test_what_is_printed_fits_into_a_line(result):
    gains = result.gains[result.gains["score"] == "accuracy"].set_index("agent")
    assert repr(result).startswith("Result(consensus, 2 agents, 3 rounds; accuracy on the target domain: net ")
    assert f"net {gains.loc['net', 'together']:.3f}" in repr(result)
    assert repr(result.run) == "Run(consensus, 3 rounds, 2 agents: net, <words> & more; beside it alone)"
    assert repr(result.agents) == (
        "[CalibratedAgent(<TorchAgent 'net': Linear, 30 samples, 3 classes>), "
        "CalibratedAgent(<SklearnAgent '<words> & more': LogisticRegression, 40 samples, 3 classes>)]"
    )
    assert repr(cs.Consensus(lam=0.2, trust=cs.Entropy())) == "Consensus(lam=0.2, trust=Entropy())"
    for thing in (result, result.run, *result.agents, cs.Consensus()):
        assert len(repr(thing)) < 300


def test_a_notebook_shows_gains_and_the_last_trust_matrix(result):
    page = ET.fromstring(f"<div>{result._repr_html_()}</div>")  # well-formed: names are escaped
    rows = [[cell.text for cell in row] for row in page.iter("tr")]
    assert rows[0] == ["agent", "alone", "together", "gain", "95 % interval"]
    gains = result.gains[result.gains["score"] == "accuracy"].set_index("agent")
    for row in rows[1:]:
        assert row[1:3] == [f"{gains.loc[row[0], column]:.3f}" for column in ("alone", "together")]
    svg = "{http://www.w3.org/2000/svg}"
    drawn = [title.text.rsplit(" ", 1)[1] for title in page.iter(f"{svg}title")]
    np.testing.assert_allclose(np.array(drawn, float).reshape(2, 2), result.trust[-1], atol=6e-4)


def test_without_labels_or_trust_there_is_neither(shared):
    agents = [cs.SklearnAgent(LogisticRegression(), *blobs(40, seed), f"{seed}") for seed in range(2)]
    result = cs.collaborate(agents, shared, rounds=2, method="alone", progress=False)
    assert repr(result) == "Result(alone, 2 agents, 2 rounds)"
    assert "<table" not in result._repr_html_()
    assert "<svg" not in result._repr_html_()


def test_a_picture_of_many_agents_is_small_and_the_darkest_cell_most_trusted():
    n = MOST_CELLS
    w = np.full((n, n), 0.5 / (n - 1))
    w[:, 3] = 0.5
    root = ET.fromstring(trust_picture(w, [f"agent {i} with a long name" for i in range(n)]))
    fills = [cell.get("fill") for cell in root if cell.tag.endswith("rect")]
    assert fills[3] == min(fills)
    assert float(root.get("width")) < 1000
