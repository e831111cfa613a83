"""Settings: read, changed, refused."""

import tomllib

import pytest
from consilience.experiments.settings import Settings, parse_change, preset_names, read_settings
from consilience.runtime.wire import Wire

from consilience import ConsilienceError


def test_toml_round_trip():
    settings = read_settings("polynomial", {"lam": 2})
    assert (
        Settings(**{k: tuple(v) if isinstance(v, list) else v for k, v in tomllib.loads(settings.to_toml()).items()})
        == settings
    )


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_valid_and_says_what_it_is(name):
    from consilience.experiments.settings import preset_text

    assert preset_text(name).startswith("# ")
    assert isinstance(read_settings(name, {}), Settings)


def test_changes_come_on_top_of_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('rounds = 7\nmodels = ["mlp"]\n')
    settings = read_settings(str(path), dict([parse_change("rounds=9"), parse_change("method=every-2")]))
    assert (settings.rounds, settings.models, settings.method) == (9, ("mlp",), "every-2")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("lambda=1", "unknown setting 'lambda'. Did you mean 'lam'?"),
        ("low_qualty=[1]", "Did you mean 'low_quality'"),
        ("rounds=many", "must be of type int"),
        ("rounds=2.5", "must be of type int"),
        ("models=[1]", "a list of words"),
        ("lam=-1", "lam is -1"),
        ("agents=1", "at least two agents"),
        ("low_quality=[10]", "agents are 0 to 9"),
        ("method=blind", "unknown trust 'blind'"),
        ("partition=fair", "unknown partition"),
        ("target_fraction=1", "between 0 and 1"),
        ("batch=0", "at least 1"),
        ("seed=-1", "seed must be at least 0"),
        ("wire=float8", "unknown wire 'float8'"),
        ("wire_top=0", "wire_top is 0"),
        ("rounds", "write it as key=value"),
    ],
)
def test_a_wrong_setting_is_refused_with_advice(change, says):
    with pytest.raises(ConsilienceError, match=says.replace("[", r"\[").replace("?", r"\?")):
        read_settings("digits", dict([parse_change(change)]))


def test_neither_preset_nor_file():
    with pytest.raises(ConsilienceError, match=r"'digit' is neither a preset nor a file. Presets: digits"):
        read_settings("digit", {})


def test_broken_toml_says_where(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("rounds = \n")
    with pytest.raises(ConsilienceError, match="line 1"):
        read_settings(str(path), {})


def test_speed_and_wire_reach_the_method():
    settings = read_settings("digits", {"wire": "top-k", "wire_top": 2, "warmup_shared": True, "batched": False})
    method = settings.algorithm("dynamic")
    assert (method.wire, method.warmup_shared, method.batched) == (Wire("top-k", 2), True, False)
    assert not settings.algorithm("alone").warmup_shared, "who is alone has no shared data"
