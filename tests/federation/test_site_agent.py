"""A site's own Python file makes its agent."""

from pathlib import Path

import pytest

from consilience.base.errors import ConsilienceError
from consilience.federation.site import load_site
from consilience.federation.site_agent import build_site_agent
from tests.federation.conftest import change

pytest.importorskip("zenoh", reason="needs consilience[peers]")

OWN_AGENT = """
import numpy as np
from sklearn.linear_model import LogisticRegression
import consilience as cs

def make_agent(name, classes, seed):
    x = np.arange(20, dtype="float32").reshape(10, 2)
    return cs.SklearnAgent(LogisticRegression(), x, np.arange(10) % 2, "any", classes=len(classes), seed=seed)
"""


def test_a_python_file_may_make_the_agent(site: Path) -> None:
    (site.parent / "agent.py").write_text(OWN_AGENT)
    change(site, 'python = ""', 'python = "agent.py"')
    change(site, 'model = "forest"', 'model = ""')
    agent, _ = build_site_agent(load_site(site))
    assert (agent.name, agent.kind) == ("a", "LogisticRegression")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("return object()", "returned object, which does not implement Agent; missing: name, task"),
        ("agent.task = 'classification'; return agent", "has the task 'classification'. Use consilience.extend.TASKS"),
        ("return cs.SklearnAgent(LogisticRegression(), x, y % 3, name)", "must predict the 2 classes healthy, ill"),
    ],
)
def test_what_is_wrong_with_a_sites_own_agent_is_said(site: Path, line: str, message: str) -> None:
    code = OWN_AGENT.replace("    return ", "    y = np.arange(10)\n    agent = ") + f"    {line}\n"
    (site.parent / "agent.py").write_text(code)
    change(site, 'python = ""', 'python = "agent.py"')
    change(site, 'model = "forest"', 'model = ""')
    with pytest.raises(ConsilienceError, match=message):
        build_site_agent(load_site(site))
