"""Pages: names from others are text, never markup."""

from consilience.report import html
from consilience.report.tables import Grid

HOSTILE = "<img src=x onerror=alert(1)>"


def test_what_others_named_is_escaped_everywhere():
    grid = Grid(HOSTILE, (HOSTILE, "b"), [(HOSTILE, "1")], best=frozenset({(0, 0)}))
    body = [html.heading(HOSTILE), html.paragraph(HOSTILE), html.bullets([HOSTILE]), html.verdicts([HOSTILE])]
    body += [html.tiles([(HOSTILE, HOSTILE, HOSTILE)]), html.table(grid, ['"><script>'])]
    page = html.page(HOSTILE, body)
    assert "<img" not in page and "<script" not in page
    assert page.count("&lt;img") >= 10


def test_only_a_page_that_is_fetched_again_may_run_a_script():
    still, live = html.page("t", ["x"]), html.page("t", ["x"], refresh=2)
    assert "<script>" not in still and "script-src" not in still
    assert "setInterval" in live and "2000" in live and "script-src 'unsafe-inline'; connect-src 'self'" in live


def test_links_only_where_there_is_one():
    table = html.table(Grid("runs", ("run",), [("a",), ("b",)]), ["a/report.html", ""])
    assert '<a href="a/report.html">a</a>' in table and ">b</td>" in table
