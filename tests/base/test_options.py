"""Options: types, ranges and tables follow from the fields of a dataclass."""

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import consilience as cs
import consilience.extend
from consilience import Consensus, ConsilienceError
from consilience.base.options import (
    Options,
    check_options,
    differences,
    flat,
    from_table,
    hint,
    meanings,
    option,
    to_table,
)


@dataclass(frozen=True)
class Coal(Options):
    name = "coal"
    tons: int = option(5, "of it", at_least=0)


class Tea:
    name = "tea"


@dataclass(frozen=True)
class Engine(Options):
    power: float = option(1.0, "in horses", above=0, below=1000)
    fuel: str = option("oil", "what it burns", one_of=("oil", "coal"))
    serial: str = option("a-1", "on its plate", pattern=r"[a-z]-\d+")


@dataclass(frozen=True)
class Ship(Options):
    name: str = option(meaning="painted on it")
    masts: int = option(3, "of wood", at_least=1)
    afloat: bool = option(True, "still")
    ports: tuple[str, ...] = option((), "on the way")
    rows: tuple[int, ...] = option((2, 2), "of oars")
    engine: Engine = option(Engine(), "below deck")
    cargo: Any = option(Coal(), "in its belly", resolve=lambda name: {"": Coal, "coal": Coal, "tea": Tea}[name]())
    crew: tuple[Engine, ...] = option((), "in reserve")
    plain: int = 7


def test_options_are_listed_in_the_docstring_with_those_that_are_inherited():
    @dataclass(frozen=True)
    class Steamer(Engine):
        """Goes without wind."""

        wheels: int = option(2, "at its sides")

    assert Engine.__doc__ == "Engine(power: float = 1.0, fuel: str = 'oil', serial: str = 'a-1')"
    assert Steamer.__doc__ == (
        "Goes without wind.\n\nArgs:\n    power: in horses.\n    fuel: what it burns.\n    serial: on its plate.\n"
        "    wheels: at its sides."
    )


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"masts": 0}, r"masts is 0; it must be at least 1 \(of wood\)\."),
        ({"masts": 2.0}, "masts is 2.0; it must be a whole number"),
        ({"masts": True}, "masts is True; it must be a whole number"),
        ({"masts": "3"}, "masts is '3'; it must be a whole number"),
        ({"afloat": 1}, "afloat is 1; it must be true or false"),
        ({"name": 5}, "name is 5; it must be a word"),
        ({"ports": "Brest"}, "ports is 'Brest'; it must be a list of words"),
        ({"ports": (1,)}, r"ports is \(1,\); it must be a list of words"),
        ({"rows": (1, 2.5)}, r"rows is \(1, 2.5\); it must be a list of numbers"),
        ({"rows": (True,)}, "it must be a list of numbers"),
    ],
)
def test_a_value_of_a_wrong_type_or_outside_its_range_is_refused_with_what_it_means(wrong, says):
    with pytest.raises(ConsilienceError, match=says):
        Ship(**({"name": "Argo"} | wrong))


@pytest.mark.parametrize(
    ("power", "says"),
    [
        (0, "power is 0.0; it must be above 0"),
        (-1.5, "power is -1.5; it must be above 0"),
        (1000, "power is 1000.0; it must be below 1000"),
        (float("nan"), "power is nan; it must be a finite number"),
        (float("inf"), "power is inf; it must be a finite number"),
        (float("-inf"), "power is -inf; it must be a finite number"),
        ("much", "power is 'much'; it must be a number"),
        (None, "power is None; it must be a number"),
        (False, "power is False; it must be a number"),
    ],
)
def test_numbers_outside_their_range_and_what_is_no_number_are_refused(power, says):
    with pytest.raises(ConsilienceError, match=says):
        Engine(power)


@pytest.mark.parametrize("power", [1e-300, 999.999, 1])
def test_borders_that_are_excluded_may_be_neared(power):
    assert Engine(power).power == power


def test_a_number_may_be_of_numpy_and_a_list_of_any_kind():
    engine = Engine(np.float32(0.5))
    assert type(engine.power) is float
    assert engine.power == 0.5
    assert type(Engine(np.int64(3)).power) is float
    ship = Ship("Argo", masts=np.int64(2), rows=[np.int16(1), 3], ports=["Brest"])
    assert type(ship.masts) is int
    assert ship.rows == (1, 3)
    assert {type(row) for row in ship.rows} == {int}
    assert ship.ports == ("Brest",)


def test_a_whole_number_becomes_a_float_where_one_is_wanted():
    assert type(Engine(5).power) is float


def test_one_of_names_the_choices():
    with pytest.raises(ConsilienceError, match="fuel is 'wood'; it must be one of oil, coal"):
        Engine(fuel="wood")


@pytest.mark.parametrize("lam", [float("nan"), float("inf"), 1e400, -0.1])
def test_a_method_refuses_impossible_weights(lam):
    with pytest.raises(ConsilienceError, match=r"lam is .*; it must be"):
        Consensus(lam=lam)


def test_annotations_may_be_text():
    """As in a module with `from __future__ import annotations`."""
    text: dict[str, object] = {}
    code = """
from __future__ import annotations
from dataclasses import dataclass
from typing import TYPE_CHECKING
from consilience.base.options import check_options, option
if TYPE_CHECKING:
    from decimal import Decimal
@dataclass(frozen=True)
class Kite:
    string: float = option(1.0, "its length", above=0)
    tails: tuple[str, ...] = option((), "behind it")
    price: Decimal | None = option(None, "in the shop")
    def __post_init__(self) -> None:
        check_options(self)
"""
    exec(code, text)
    kite = text["Kite"]
    made = from_table(kite, {"string": 2, "tails": ["red"]}, "kite")
    assert (made.string, type(made.string), made.tails) == (2.0, float, ("red",))
    for wrong in ({"string": 0}, {"string": "long"}, {"tails": [1]}):
        with pytest.raises(ConsilienceError, match=r"it must be"):
            from_table(kite, wrong, "kite")


def test_tables_within_tables_become_options_and_come_back():
    table = {"name": "Argo", "masts": 1, "ports": ["Brest"], "engine": {"power": 5}}
    ship = from_table(Ship, table, "ship")
    assert ship == Ship("Argo", 1, ports=("Brest",), engine=Engine(5.0))
    assert to_table(ship) == {
        "name": "Argo",
        "masts": 1,
        "afloat": True,
        "ports": ["Brest"],
        "rows": [2, 2],
        "engine": {"power": 5.0, "fuel": "oil", "serial": "a-1"},
        "cargo": {"name": "coal", "tons": 5},
        "crew": [],
        "plain": 7,
    }


def test_one_word_may_stand_for_a_list_of_one():
    assert from_table(Ship, {"name": "Argo", "ports": "Brest"}, "").ports == ("Brest",)


def test_one_of_several_kinds_of_things_is_named_with_or_without_options():
    def cargo(value: Any) -> Any:
        return from_table(Ship, {"name": "Argo", "cargo": value}, "ship").cargo

    assert cargo("coal") == Coal()
    assert cargo({"name": "coal", "tons": 2}) == cargo({"tons": 2}) == Coal(2)
    assert isinstance(cargo("tea"), Tea)
    assert to_table(Ship("Argo", cargo=Tea()))["cargo"] == {"name": "tea"}
    for value, says in (
        (5, "ship.cargo is 5; it must be a name, or a table with a name and options"),
        ({"name": "coal", "tns": 1}, "ship.cargo: unknown setting 'tns'. Did you mean 'tons'?"),
        ({"name": "tea", "tons": 1}, "ship.cargo: unknown setting 'tons'. There are none."),
    ):
        with pytest.raises(ConsilienceError, match=re.escape(says)):
            cargo(value)


def test_a_list_of_tables_becomes_a_tuple_of_options():
    ship = from_table(Ship, {"name": "Argo", "crew": [{"power": 2}, {"fuel": "coal"}]}, "ship")
    assert ship.crew == (Engine(2.0), Engine(fuel="coal"))
    assert to_table(ship)["crew"][1]["fuel"] == "coal"
    with pytest.raises(ConsilienceError, match=r"crew is 5; it must be a table"):
        from_table(Ship, {"name": "Argo", "crew": 5}, "ship")


def test_a_word_may_have_to_match_a_pattern_and_a_list_to_be_long_enough():
    assert Engine(serial="b-22").serial == "b-22"
    with pytest.raises(ConsilienceError, match=r"serial is '22'; it must be one of these"):
        Engine(serial="22")

    @dataclass(frozen=True)
    class Fleet(Options):
        ships: tuple[str, ...] = option(("a",), "at sea", at_least=1)

    with pytest.raises(ConsilienceError, match=r"ships is \(\); it must hold at least 1"):
        Fleet(())


def test_meanings_by_dotted_key():
    found = meanings(Ship("Argo"))
    assert found["masts"] == "of wood"
    assert found["engine.power"] == "in horses"
    assert found["cargo.name"] == "in its belly"
    assert found["cargo.tons"] == "of it"


@pytest.mark.parametrize(
    ("table", "where", "says"),
    [
        (
            {"name": "a", "mast": 2},
            "ship",
            r"^ship: unknown setting 'mast'\. Did you mean 'masts'\? Known: name, masts,",
        ),
        ({"name": "a", "zzz": 2}, "ship", r"^ship: unknown setting 'zzz'\. Known: name, masts, afloat"),
        ({"name": "a", "mast": 2}, "", r"^unknown setting 'mast'"),
        ({"masts": 2}, "ship", r"^ship: 'name' is missing\. The entries are name, masts"),
        ({"masts": 2}, "", r"^'name' is missing"),
        ({"name": "a", "masts": 0}, "ship", r"^ship: masts is 0; it must be at least 1"),
        ({"name": "a", "masts": 0}, "", r"^masts is 0"),
        ({"name": "a", "engine": 5}, "ship", r"^ship.engine is 5; it must be a table with power, fuel, serial\."),
        ({"name": "a", "engine": {"pwer": 5}}, "ship", r"^ship.engine: unknown setting 'pwer'\. Did you mean 'power'"),
        ({"name": "a", "engine": {"power": 0}}, "", r"^engine: power is 0.0; it must be above 0"),
        ("Argo", "ship", r"^ship is 'Argo'; it must be a table with name, masts"),
    ],
)
def test_a_wrong_table_is_an_error_that_says_where(table, where, says):
    with pytest.raises(ConsilienceError, match=says):
        from_table(Ship, table, where)


def test_fields_without_meaning_are_taken_as_they_are():
    @dataclass(frozen=True)
    class Note:
        text: str = "a"
        pages: list[int] = field(default_factory=list)
        weight: float = 1

        def __post_init__(self) -> None:
            check_options(self)

    note = from_table(Note, {"text": 5}, "note")
    assert (note.text, note.pages, note.weight) == (5, [], 1.0)
    assert type(note.weight) is float


def test_a_near_name_is_suggested_and_a_far_one_is_not():
    assert hint("rouns", ["rounds", "seed"]) == "Did you mean 'rounds'? "
    assert hint("xyz", ["rounds", "seed"]) == ""


def test_tables_flatten_to_dotted_keys():
    assert flat({"a": {"b": {"c": 1}, "d": []}, "e": "x"}) == {"a.b.c": 1, "a.d": [], "e": "x"}
    assert flat({}) == {}


def test_differences_name_what_was_and_what_is():
    before = {"run": {"seed": 1, "rounds": 5, "old": 2}, "same": 0}
    now = {"run": {"seed": 2, "rounds": 5}, "same": 0, "new": "x"}
    assert differences(before, now) == {
        "run.seed": "run.seed was 1, now 2",
        "new": "new was None, now 'x'",
        "run.old": "run.old was 2, now None",
    }
    assert differences(now, now) == {}


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Consensus(lamda=3), "Consensus has no option 'lamda'. Did you mean 'lam'? It has warmup, lam, "),
        (lambda: cs.FedProx(mo=3), "FedProx has no option 'mo'. Did you mean 'mu'? "),
        (lambda: cs.Privacy(epsilo=3), "Privacy has no option 'epsilo'. Did you mean 'epsilon'? "),
        (lambda: cs.Wire(frm="label"), "Wire has no option 'frm'. Did you mean 'form'? "),
        (lambda: cs.Entropy(ofset=1), "Entropy has no option 'ofset'. Did you mean 'offset'? "),
        (lambda: cs.Uniform(lam=1), "Uniform has no option 'lam'. It has none."),
        (lambda: Engine(powr=2), "Engine has no option 'powr'. Did you mean 'power'? It has power, fuel, serial."),
    ],
)
def test_an_unknown_option_in_python_is_answered_with_the_nearest(make, sentence):
    with pytest.raises(ConsilienceError) as error:
        make()
    assert str(error.value).startswith(sentence)


def test_every_public_option_dataclass_answers_an_unknown_option():
    kinds = [getattr(module, name) for module in (cs, consilience.extend) for name in module.__all__]
    kinds = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Options)]
    assert len(kinds) > 20
    for kind in kinds:
        with pytest.raises(ConsilienceError, match="has no option 'nonsense'"):
            kind(nonsense=1)


def test_options_show_what_is_not_the_default():
    assert repr(Consensus()) == "Consensus()"
    assert repr(Consensus(lam=3, trust=cs.Entropy(offset=0.5))) == "Consensus(lam=3.0, trust=Entropy(offset=0.5))"
    assert repr(Engine(power=2, fuel="coal")) == "Engine(power=2.0, fuel='coal')"
    assert eval(repr(cs.FedProx(mu=0.3)), {"FedProx": cs.FedProx}) == cs.FedProx(mu=0.3)


def test_a_required_option_is_always_shown():
    @dataclass(frozen=True)
    class Bridge(Options):
        length: float = option(meaning="in metres")

    assert repr(Bridge(5)) == "Bridge(length=5.0)"


def test_options_with_a_constructor_of_their_own_take_its_arguments():
    @dataclass(frozen=True, init=False)
    class Ship(Options):
        masts: int = option(2, "that carry sails")

        def __init__(self, sails: int) -> None:
            object.__setattr__(self, "masts", sails // 3)
            self.__post_init__()

    assert Ship(sails=9).masts == 3
