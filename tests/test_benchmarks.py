"""`make bench`: its page is of numbers that were all measured, and what is measured is not measured again."""

import sys
from importlib import import_module
from types import SimpleNamespace

import pytest
from benchmarks import __main__ as bench
from benchmarks.timing import over, ranged, table, turns


@pytest.mark.parametrize("name", bench.SECTIONS)
def test_every_benchmark_fits_the_package(name):
    assert callable(import_module(f"benchmarks.{name}").run)


def test_a_page_that_was_interrupted_goes_on_where_it_stopped(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / bench.PAGE).parent.mkdir(parents=True)
    monkeypatch.setattr(bench, "SECTIONS", ("first", "second"))
    monkeypatch.setattr(sys, "argv", ["benchmarks"])
    begun = []

    def section(name, error=None):
        def run():
            begun.append(name)
            if error is not None:
                raise error
            return f"## {name}\n"

        monkeypatch.setitem(sys.modules, f"benchmarks.{name}", SimpleNamespace(run=run))

    section("first")
    section("second", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        bench.main()
    assert not (tmp_path / bench.PAGE).exists()
    section("second")
    bench.main()
    assert begun == ["first", "second", "second"]
    page = (tmp_path / bench.PAGE).read_text()
    assert page.index("`make bench`") < page.index("## first") < page.index("## second")
    assert page.count(" s, load ") == 2 and not (tmp_path / bench.KEPT).exists()
    monkeypatch.setattr(sys, "argv", ["benchmarks", "third"])
    with pytest.raises(SystemExit, match=r"unknown benchmark 'third'\. Known: first, second"):
        bench.main()


def test_numbers_have_their_range_and_things_take_turns():
    assert ranged([0.0011, 0.0012, 0.0014], 1e3, "ms") == "1.2 (1.1-1.4) ms"
    assert over([2.0, 9.0], [1.0, 3.0]) == [2.0, 3.0]
    assert table(["", "a"], [["x", 1]]) == "|  | a |\n| --- | ---: |\n| x | 1 |\n"
    order = []
    seconds = turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")})
    assert order == ["a", "b"] * 4 and [len(taken) for taken in seconds.values()] == [3, 3]
