"""The report of robustness: tables and a drawing."""

import re

from consilience.experiments.robustness import NOBODY
from consilience.report.robustness import class_grid, draw, score_grid, worst_grid, write_robustness
from tests.experiments.test_robustness import FOUND, table


def test_the_tables_have_a_line_per_attack_and_a_column_per_rule(tmp_path):
    grid = score_grid(FOUND)
    assert grid.headings == ("attack", "attackers", "alone", "entropy", "median")
    assert grid.rows[0] == ("-", "0 of 10", "0.600", "0.910 ± 0.025", "0.890 ± 0.025")
    assert [row[:2] for row in grid.rows[1:]] == [
        ("flip", "1 of 10"),
        ("flip", "2 of 10"),
        ("targeted", "1 of 10"),
        ("targeted", "2 of 10"),
    ]
    assert score_grid(FOUND, short=True).rows[0][3] == "0.910"
    assert worst_grid(FOUND).rows[4][2] == "0.400"
    assert [row[0] for row in class_grid(FOUND).rows] == ["-", "targeted", "targeted"]
    assert class_grid(table({("a", NOBODY, 0): [0.9], ("a", "flip", 1): [0.8]})) is None
    write_robustness(FOUND, tmp_path, "digits")
    text = (tmp_path / "robustness.md").read_text()
    assert "| flip | 2 of 10 | 0.600 |" in text and "- entropy: fails" in text
    assert grid.best and "- median leaves the honest best off in " in text
    row, column = min(grid.best)
    assert f"**{grid.rows[row][column]}**" in text


def test_the_drawing_has_a_panel_per_attack_and_a_point_per_line():
    image = draw(FOUND)
    assert image.count("<circle") == 2 * 2 * 3, "rules x attacks x numbers of attackers, zero included"
    assert ">flip</text>" in image and ">targeted</text>" in image
    for y in re.findall(r'cy="([\d.]+)"', image):
        assert 0 < float(y) < 190
