"""The command `reproduce`."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from consilience import ConsilienceError
from consilience.cli.main import app
from consilience.paper.artefacts import ARTEFACTS
from consilience.paper.scales import CAVEATS


def test_the_command_lists_every_artefact() -> None:
    done = CliRunner().invoke(app, ["reproduce"])
    assert done.exit_code == 0
    assert all(one.name in done.stdout for one in ARTEFACTS)


def test_the_command_prints_a_toy_without_a_caveat(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = CliRunner().invoke(app, ["reproduce", "fig2", "--scale", "smoke", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    text = " ".join(done.stdout.split())
    assert "Expected: Good agents are better with dynamic than with naive trust" in text
    assert "- The agent with flipped labels receives the least trust in every round. holds: in 25 of 25 rounds" in text
    assert CAVEATS["smoke"] not in text
    assert sorted(path.name for path in (tmp_path / "smoke").glob("fig*")) == [
        "fig2.csv",
        "fig2.json",
        "fig2.png",
        "fig2.svg",
    ]
    page = (tmp_path / "smoke" / "index.html").read_text()
    assert "The agent with flipped labels receives the least trust in every round. holds" in page
    assert "data:image/svg+xml;base64," in page
    assert "fig2.csv" in page


@pytest.mark.parametrize("arguments", [["table2"], ["fig1", "--scale", "huge"]])
def test_the_command_refuses_what_it_does_not_know_before_anything_is_written(
    arguments: list[str], tmp_path: Path
) -> None:
    done = CliRunner().invoke(app, ["reproduce", *arguments, "--out", str(tmp_path / "out")])
    assert isinstance(done.exception, ConsilienceError)
    assert not (tmp_path / "out").exists()
