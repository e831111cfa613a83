"""Names for things: those of the package, those of other packages, and those of a user's own file."""

import sys
from dataclasses import dataclass, field

import pytest

from consilience import ConsilienceError
from consilience.base.registry import Registry, load_plugin


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package whose two modules register themselves."""
    folder = tmp_path / "fruit_shop"
    folder.mkdir()
    (folder / "__init__.py").write_text("from consilience.base.registry import Registry\nFRUIT = None\n")
    for module, name in (("pome", "apple"), ("stone", "cherry")):
        (folder / f"{module}.py").write_text(f"import fruit_shop\nfruit_shop.FRUIT.add({name!r})({name.upper()!r})\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == "fruit_shop"]:
        del sys.modules[name]


@dataclass
class Point:
    name: str
    thing: object
    value: str = "other_package:thing"
    loads: list[str] = field(default_factory=list)

    def load(self):
        self.loads.append(self.name)
        if isinstance(self.thing, Exception):
            raise self.thing
        return self.thing


@pytest.fixture
def points(monkeypatch):
    """What installed packages bring to the group consilience.fruit."""
    brought: list[Point] = []
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: brought if group == "consilience.fruit" else []
    )
    return brought


@pytest.fixture
def fruit(package, points):
    import fruit_shop

    fruit_shop.FRUIT = Registry("kind of fruit", "fruit_shop", "consilience.fruit")
    return fruit_shop.FRUIT


def test_modules_of_the_package_register_themselves_when_a_name_is_asked_for(fruit):
    assert "fruit_shop.pome" not in sys.modules
    assert fruit.find("apple") == "APPLE"
    assert fruit.names() == ["apple", "cherry"]


def test_another_package_brings_more_through_an_entry_point(fruit, points):
    points.append(Point("durian", "DURIAN"))
    assert fruit.names() == ["apple", "cherry", "durian"]
    assert fruit.find("durian") == "DURIAN"
    assert points[0].loads == ["durian"]


def test_another_package_cannot_take_a_name_that_is_taken(fruit, points):
    points.append(Point("apple", "WAX"))
    assert fruit.find("apple") == "APPLE"
    assert points[0].loads == []


def test_an_entry_point_that_fails_is_named_every_time(fruit, points):
    points.append(Point("durian", ImportError("No module named 'smell'"), "tropics.fruit:Durian"))
    for _ in range(2):
        with pytest.raises(
            ConsilienceError,
            match=r"the kind of fruit 'durian', which an installed package brings \(tropics.fruit:Durian\), cannot be "
            r"loaded: No module named 'smell'",
        ):
            fruit.names()


def test_a_module_of_the_package_that_fails_is_not_passed_over_in_silence(fruit, package):
    (package / "zest.py").write_text("raise RuntimeError('peeled')\n")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="peeled"):
            fruit.names()


def test_anyone_may_register_a_thing_and_have_it_back(fruit):
    @fruit.add("fig")
    class Fig:
        pass

    assert fruit.find("fig") is Fig
    assert Fig.name == "fig"
    assert "fig" in fruit.names()
    assert Fig in fruit.all()


def test_an_unknown_name_is_an_error_that_names_the_known_ones(fruit, points):
    points.append(Point("durian", "DURIAN"))
    with pytest.raises(ConsilienceError) as error:
        fruit.find("aple")
    assert str(error.value).startswith(
        "unknown kind of fruit 'aple'. Did you mean 'apple'? Known: apple, cherry, durian. If it comes from a plugin"
    )
    with pytest.raises(ConsilienceError, match=r"unknown kind of fruit 'xyz'\. Known: apple, cherry, durian\."):
        fruit.find("xyz")


def test_a_module_may_hold_a_registry_without_being_a_package(points):
    alone = Registry("error", "consilience.base.errors", "consilience.fruit")
    assert alone.names() == []


def test_a_plugin_is_a_file_that_runs_once(tmp_path):
    path = tmp_path / "my-plugin.py"
    path.write_text("import builtins\nbuiltins.ran = getattr(builtins, 'ran', 0) + 1\nvalue = 5\n")
    import builtins

    try:
        one, two = load_plugin(path), load_plugin(str(path))
        assert one is two
        assert one.value == 5
        assert builtins.ran == 1
        other = tmp_path / "other"
        other.mkdir()
        (other / "my-plugin.py").write_text("value = 6\n")
        assert load_plugin(other / "my-plugin.py").value == 6
    finally:
        del builtins.ran
        sys.modules.pop("consilience_plugin_my-plugin", None)


def test_a_plugin_may_register_and_pickle_what_it_defines(tmp_path, fruit):
    import pickle

    path = tmp_path / "stand.py"
    path.write_text("import fruit_shop\n\n@fruit_shop.FRUIT.add('melon')\nclass Melon:\n    pass\n")
    module = load_plugin(path)
    assert fruit.find("melon") is module.Melon
    assert isinstance(pickle.loads(pickle.dumps(module.Melon())), module.Melon)
    del sys.modules[module.__name__]


def test_a_plugin_that_fails_says_so_every_time(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("raise KeyError('lost')\n")
    for _ in range(2):
        with pytest.raises(KeyError, match="lost"):
            load_plugin(path)


@pytest.mark.parametrize("name", ["none.py", "words.txt", "."])
def test_a_plugin_that_is_no_python_file_is_refused(tmp_path, name):
    (tmp_path / "words.txt").write_text("hello")
    with pytest.raises(ConsilienceError, match=r"is no Python file\."):
        load_plugin(tmp_path / name)
