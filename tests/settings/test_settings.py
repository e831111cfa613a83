"""Settings: read, changed, refused. Options are declared once, and everything else follows from them."""

import re
from itertools import permutations

import pytest

from consilience import Consensus, ConsilienceError, Cosine, Entropy, FedProx, Scaffold, Uniform, Wire
from consilience.base import toml
from consilience.base.options import flat, to_table
from consilience.methods import METHODS
from consilience.settings.presets import preset_names, preset_text, read_settings, settings_of, write_config
from consilience.settings.settings import Settings, agreed, changed, parse_change, settings_agreed, settings_from


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_valid_and_says_what_it_is(name):
    assert preset_text(name).startswith("# ")
    assert isinstance(read_settings(name), Settings)


@pytest.mark.parametrize("method", METHODS.names())
def test_what_is_written_is_read_again(method):
    settings = changed(Settings(), {"method": method, "seed": 3})
    again = settings_from(toml.parse(settings.to_toml(), "here"), "")
    assert again == settings
    assert again.method == settings.method


def test_every_setting_is_written_with_its_meaning():
    text = Settings().to_toml()
    for line in text.splitlines():
        assert not line or line.startswith("[") or line.startswith("name =") or re.search(r" = .+  # .+", line), line
    assert "lam = 0.5  # weight of the disagreement with the pseudo-labels" in text
    assert "[method.trust]" in text


def test_changes_come_on_top_of_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('method = "naive"\n[run]\nrounds = 7\n[agents]\nmodels = ["mlp"]\n')
    settings = read_settings(str(path), dict([parse_change("rounds=9"), parse_change("method=every-2")]))
    assert (settings.run.rounds, settings.agents.models) == (9, ("mlp",))
    assert settings.method == Consensus(schedule="every-2")


def test_a_unique_last_part_suffices():
    settings = changed(Settings(), {"lam": 1, "epochs": 2, "wire.form": "float16", "trust": "cosine", "dataset": "x"})
    assert settings.method == Consensus(lam=1.0, wire=Wire("float16"), trust=Cosine())
    assert (settings.training.epochs, settings.data.dataset) == (2, "x")


def test_a_last_part_that_is_not_unique_is_refused_with_both_places():
    feddyn = changed(Settings(), {"method": "feddyn"})
    with pytest.raises(ConsilienceError, match=r"'alpha' is ambiguous; write data.alpha or method.alpha"):
        changed(feddyn, {"alpha": 1})
    assert changed(feddyn, {"method.alpha": 1}).method.alpha == 1.0


def test_options_of_a_trust_rule_are_settings():
    settings = changed(Settings(), {"method.trust": "entropy", "method.trust.offset": 0})
    assert settings.method.trust == Entropy(offset=0.0)
    with pytest.raises(ConsilienceError, match=r"unknown setting 'p'. Known: offset, floor"):
        changed(settings, {"method.trust.p": 2})


@pytest.mark.parametrize(
    ("changes", "method"),
    [
        (
            {"variates": "steps", "method.server_ema": 0.5, "method": "scaffold"},
            Scaffold(variates="steps", server_ema=0.5),
        ),
        (
            {"trust.offset": 0.0, "trust": "entropy", "lam": 2.0, "method": "consensus"},
            Consensus(trust=Entropy(offset=0.0), lam=2.0),
        ),
    ],
)
def test_the_order_of_changes_does_not_matter(changes, method):
    for order in permutations(changes):
        assert changed(Settings(), {key: changes[key] for key in order}).method == method


def test_another_method_keeps_the_options_they_share():
    hospitals = read_settings("hospitals")
    assert hospitals.method.lam == 0.3
    assert hospitals.with_method("naive").method == Consensus(lam=0.3, trust=Uniform())
    assert hospitals.with_method("naive").with_method("static").method == Consensus(lam=0.3, schedule="static")
    assert hospitals.with_method("fedprox(mu=0.5)").method == FedProx(mu=0.5)
    assert changed(hospitals, {"method": "scaffold", "variates": "steps"}).method == Scaffold(variates="steps")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("lambda=1", "unknown setting 'lambda'. Did you mean 'method.lam'?"),
        ("low_qualty=[1]", "Did you mean 'data.low_quality'"),
        ("rounds=many", "rounds is 'many'; it must be a whole number (with the warm-up)"),
        ("rounds=2.5", "must be a whole number"),
        ("rounds=true", "must be a whole number"),
        ("models=[1]", "a list of words"),
        ("models=[]", "must hold at least 1"),
        ("lam=-1", "lam is -1.0; it must be at least 0"),
        ("lam=nan", "must be a finite number"),
        ("lam=inf", "must be a finite number"),
        ("agents.count=1", "at least 2"),
        ("agents=3", "settings.agents is 3; it must be a table with count, models, privacy."),
        ("low_quality=[10]", "agents are 0 to 9"),
        ("method=blind", "unknown method 'blind'"),
        ("method.trust=blind", "unknown trust rule 'blind'"),
        ("method=every-0", "schedule is 'every-0'"),
        ("partition=fair", "unknown partition 'fair'. Known: dirichlet, feature, iid"),
        ("target_fraction=1", "must be below 1"),
        ("batch=0", "at least 1"),
        ("seed=-1", "at least 0"),
        ("wire.form=float8", "must be one of float32, float16, top-k"),
        ("wire.top=0", "at least 1"),
        ("device=gpu", "must be one of cpu, cuda"),
        ("method.lam.x=1", "unknown setting"),
        ("data.nothing=1", "unknown setting 'nothing'"),
        ("rounds", "Write it as key=value"),
    ],
)
def test_a_wrong_setting_is_refused_with_advice(change, says):
    with pytest.raises(ConsilienceError, match=re.escape(says)):
        read_settings("digits", dict([parse_change(change)]))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rounds = 3", "It is run.rounds: write rounds under [run]."),
        ('method = "naive"\nagents = 3', "agents is 3; it must be a table."),
        (
            "[metod]\nlam = 1",
            "unknown setting 'metod'. Did you mean 'method'? Settings are in the tables data, ",
        ),
        ("[trainig]\nlr = 1", "unknown setting 'trainig'. Did you mean 'training'? "),
        ("[trust]\noffset = 1", "It is method.trust: write trust under [method]. "),
        ("[run]\nrouds = 1", "Did you mean 'rounds'?"),
        ("[method]\nlam = []", "lam is []; it must be a number"),
        ("rounds = \n", "line 1"),
    ],
)
def test_a_wrong_file_says_where_a_setting_belongs(text, says, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ConsilienceError, match=re.escape(says)):
        read_settings(str(path))


def test_neither_preset_nor_file():
    with pytest.raises(ConsilienceError, match=r"'digit' is neither a preset nor a file\. Did you mean 'digits'\? "):
        read_settings("digit")


def test_a_federation_agrees_on_method_training_and_rounds_but_not_on_machines():
    tables = agreed(changed(Settings(), {"lam": 2, "device": "cuda", "threads": 4}))
    assert set(tables) == {"method", "training", "run"}
    assert set(tables["run"]) == {"rounds", "seed"}
    assert settings_agreed(tables, "there").method.lam == 2.0
    for wrong in ({"run": {"plugins": ["evil.py"]}}, {"data": {}}, {"run": {"device": "cuda"}}):
        with pytest.raises(ConsilienceError, match="not for a federation to agree on"):
            settings_agreed(wrong, "there")


def test_a_folder_keeps_its_settings(tmp_path):
    settings = read_settings("digits", {"lam": 0.7})
    write_config(settings, tmp_path)
    assert settings_of(tmp_path) == settings
    write_config(settings, tmp_path)
    with pytest.raises(ConsilienceError, match=r"other settings: method.lam was 0.7, now 0.9"):
        write_config(read_settings("digits", {"lam": 0.9}), tmp_path)


def test_flat_names_every_setting_once():
    keys = list(flat(to_table(Settings())))
    assert len(keys) == len(set(keys)) > 30
