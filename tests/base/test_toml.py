"""TOML: what is written can be read again, whatever it holds."""

import math
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consilience import ConsilienceError
from consilience.base import toml

LONG = ".".join("aaaaaaaaaa")
SCALARS = (
    st.text(max_size=20)
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.sampled_from(['host"x:1', "C:\\new\\table", "a\nb", "", "#no comment", "'", '"""', "\x7f\x00\t", "] = 1"])
)
KEYS = st.text(max_size=8) | st.sampled_from(["a.b", 'a"b', "a b", "", "a = 1", "[x]", "#", "\\", "ä", "1", "\n"])
LISTS = st.lists(SCALARS | st.lists(SCALARS, max_size=3), max_size=4)
TABLES = st.recursive(
    st.dictionaries(KEYS, SCALARS | LISTS, max_size=4),
    lambda inner: st.dictionaries(KEYS, SCALARS | LISTS | inner | st.lists(inner, min_size=1, max_size=3), max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(TABLES)
def test_what_is_written_is_read_again(tables):
    assert toml.parse(toml.dump(tables), "the text") == tables


@settings(max_examples=100, deadline=None)
@given(SCALARS | LISTS)
def test_one_value_is_read_as_it_was_written(value):
    text = toml.dump({"x": value}).removeprefix("x = ")
    assert toml.value(text) == value


def test_quotes_and_backslashes_in_an_address():
    """Once written by hand, and unreadable."""
    for address in ('host"x:1', "host\\x:1", "tcp/[::1]:7447", 'a"\n[b]\nc="'):
        assert toml.parse(toml.dump({"address": address, "member": {"address": address}}), "it") == {
            "address": address,
            "member": {"address": address},
        }


def test_values_come_before_tables_and_lists_of_tables_and_before_their_meanings():
    text = toml.dump(
        {"run": {"seed": 0, "deep": {"on": True}}, "name": "a", "rows": [{"x": 1}, {"x": [1, 2], "in": {"y": 2}}]},
        {"run.seed": "of everything random", "run.deep.on": "whether", "name": "", "nobody": "asked"},
    )
    assert (
        text
        == """name = "a"

[run]
seed = 0  # of everything random

[run.deep]
on = true  # whether

[[rows]]
x = 1

[[rows]]
x = [1, 2]

[rows.in]
y = 2
"""
    )


def test_text_that_begins_with_a_table_has_no_empty_line_before_it():
    assert toml.dump({"run": {"seed": 0}}) == "[run]\nseed = 0\n"
    assert toml.dump({}) == "\n"
    assert toml.parse(toml.dump({}), "nothing") == {}


def test_tables_and_values_in_one_list_stay_on_its_line():
    table = {"mixed": [1, {"a.b": [2, {"c": "x"}]}, "y"], "tuple": (1, 2), "rows": ({"x": 1},)}
    read = toml.parse(toml.dump(table), "it")
    assert read == {"mixed": [1, {"a.b": [2, {"c": "x"}]}, "y"], "tuple": [1, 2], "rows": [{"x": 1}]}


def test_numbers_that_are_none_are_written_too():
    read = toml.parse(toml.dump({"a": float("nan"), "b": float("-inf")}), "it")
    assert math.isnan(read["a"])
    assert read["b"] == float("-inf")


@pytest.mark.parametrize(
    "text", ["a = ", "a = 1\na = 2", "[a", "a = " + "9" * 5000, "a = " + "[" * 100_000], ids=lambda t: t[:9]
)
def test_text_that_is_not_toml_is_refused_with_its_place(text):
    with pytest.raises(ConsilienceError, match=r"^the file x is not valid TOML: "):
        toml.parse(text, "the file x")


@pytest.mark.parametrize(
    "text",
    [
        f"{LONG} = 1",
        f"[{LONG}]",
        f"[[ {LONG.replace('.', ' . ')} ]]",
        f"{LONG.replace('a', chr(34) + 'a b' + chr(34))} = 1",
        f"x = [1, {{{LONG} = 1}}]",
        f'x = ["""a"""", {{{LONG} = 1}}, "b"]',
        f"x = ['''a''''', {{{LONG} = 1}}, 'b']",
        f"x = '\\' # \"\n{LONG} = 1",
    ],
)
def test_a_key_of_many_parts_is_refused_wherever_it_stands(text):
    with pytest.raises(ConsilienceError, match=r"^it is not read: a key has more than 8 dots"):
        toml.parse(text, "it")


@pytest.mark.parametrize(
    "text",
    [
        f'x = "{LONG}"',
        f"x = '{LONG}'  # {LONG}",
        f'x = """\n{LONG} \\""""""',
        "x = " + str([0.5] * 1000),
        f"{LONG[4:]} = 1",
    ],
    ids=lambda text: text[:12],
)
def test_dots_in_strings_comments_and_numbers_do_no_harm(text):
    assert toml.parse(text, "it")


@pytest.mark.parametrize("piece", ['"""', "'''", '"""\\', '"', '\\"', ".", "a.", '"\\\n', "#\n"])
def test_counting_dots_takes_no_longer_than_the_text_is_long(piece):
    began = time.perf_counter()
    with pytest.raises(ConsilienceError):
        toml.parse("x = " + piece * (500_000 // len(piece)) + "\x00", "it")
    assert time.perf_counter() - began < 5


def test_files_are_read_up_to_a_size(tmp_path: Path):
    path = tmp_path / "site.toml"
    path.write_text('name = "ä"\n', encoding="utf-8")
    assert toml.read(path) == {"name": "ä"}
    assert toml.read(path, largest=12) == {"name": "ä"}
    with pytest.raises(ConsilienceError, match=r"site.toml is too large \(12 bytes; at most 11 are read\)"):
        toml.read(path, largest=11)


def test_a_file_that_cannot_be_read_is_named_with_advice(tmp_path: Path):
    with pytest.raises(ConsilienceError, match=r"none.toml cannot be read \(No such file or directory\)\. Make one\.$"):
        toml.read(tmp_path / "none.toml", "Make one.")
    with pytest.raises(ConsilienceError, match=r"cannot be read \(Is a directory\)\.$"):
        toml.read(tmp_path)
    (tmp_path / "noise.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConsilienceError, match=r"noise.toml is not valid TOML: it is no text"):
        toml.read(tmp_path / "noise.toml")
    (tmp_path / "wrong.toml").write_text("a = ")
    with pytest.raises(ConsilienceError, match=r"wrong.toml is not valid TOML: "):
        toml.read(tmp_path / "wrong.toml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("0.5", 0.5),
        ("true", True),
        ('"5"', "5"),
        ("[1, 2]", [1, 2]),
        ("naive", "naive"),
        (" every-5 ", "every-5"),
        ("", ""),
        ("{ a = 1 }", {"a": 1}),
        ("1e400", math.inf),
        ("[" * 100_000, "[" * 100_000),
    ],
    ids=lambda part: repr(part)[:20],
)
def test_one_value_of_a_command_line(text, value):
    assert toml.value(text) == value
