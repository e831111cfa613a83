"""The results of many runs, in every form."""

import pandas as pd

from consilience.report.results_page import write_report
from consilience.report.tables import Grid


def test_the_answer_stands_in_every_form_that_has_words(tmp_path):
    grid = Grid("Scores", ("method", "mean"), [("paper", "0.9"), ("50 %", "0.8")])
    words = ("Two methods", "Means.", "Which?", ["The first."])
    data = pd.DataFrame({"method": ["paper"], "score": [0.9]})
    path = tmp_path / "new" / "compare"
    written = write_report(path, *words, [grid], {"A drawing": "<svg/>"}, data, note="* a note.")
    texts = {path.suffix: path.read_text() for path in written}
    assert list(texts) == [".csv", ".md", ".tex", ".html", ".svg"]
    assert texts[".csv"] == "method,score\npaper,0.9\n" and texts[".svg"] == "<svg/>"
    assert "- The first." in texts[".md"] and "| paper | 0.9 |" in texts[".md"] and "* a note." in texts[".md"]
    assert r"50 \%" in texts[".tex"]
    assert all(words in texts[".html"] for words in ("Which?", "The first.", "<svg/>", "* a note.", "<td>0.9</td>"))
    assert "Every run" not in texts[".html"], "there are none in the folder"
