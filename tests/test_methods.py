"""Methods by name: the registry, short forms, options in brackets, and tables of a settings file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from consilience import (
    FD,
    Alone,
    Consensus,
    ConsilienceError,
    Cosine,
    Entropy,
    FedAvg,
    FedDF,
    FedDyn,
    FedProx,
    Gaussian,
    OneSet,
    Paper,
    Revisit,
    Scaffold,
    Sequential,
    Sparse,
    Uniform,
    Wire,
)
from consilience.base.options import Options, from_table, option, to_table
from consilience.extend import METHODS, TRUST, ServerMethod
from consilience.methods import method_named, method_names
from consilience.methods.aliases import ALIASES
from consilience.methods.learning.joint import Joint
from consilience.methods.trust.ktpfl import KTpFL
from consilience.methods.trust.labels import FilteredMean, MeanLogits, SharpenedMean, Vote


@dataclass(frozen=True)
class Chosen(Options):
    method: Any = option(Consensus(), "of a settings file", resolve=method_named)


def method_from(value: Any, where: str) -> Any:
    return from_table(Chosen, {where: value}, "").method


def method_table(method: Any) -> dict[str, Any]:
    return to_table(Chosen(method))["method"]


EVERY = [
    Alone(),
    Consensus(),
    Consensus(2, 0.25, Entropy(0.5, 0.125), "every-3", Wire("top-k", 5), learning=Joint(warmup_shared=True)),
    Consensus(listening=Sparse(5, 2), prior="even", duals=1.0),
    Consensus(trust=Uniform()),
    Consensus(trust=Cosine(), schedule="static"),
    Consensus(trust=Gaussian(), wire=Wire("float16")),
    Consensus(trust=KTpFL(0.3, 0.1), learning=Sequential(2)),
    FedAvg(),
    FedAvg(keep_optimizer=True),
    FedProx(mu=0.5),
    Scaffold(variates="steps", keep_optimizer=True),
    FedDyn(alpha=2.5),
    FedDF(passes=2),
    Consensus(2, 0.5, trust=MeanLogits(0.01), learning=Revisit(3, (0, 1, 1), 4)),
    Consensus(trust=SharpenedMean(0.5), learning=Sequential(2), wire=Wire("float16")),
    Consensus(1, trust=Vote(), learning=OneSet(), wire=Wire("label")),
    Consensus(trust=FilteredMean(0.4), learning=OneSet(2.0)),
    FD(gamma=0.5),
]
KNOWN = f"Known: {', '.join(method_names())}."
DOCS = Path(__file__).parents[1] / "docs"


def test_every_method_is_registered_under_its_name():
    for name in METHODS.names():
        assert METHODS.find(name).name == name
        assert method_named(name) == METHODS.find(name)()


def test_every_method_and_every_trust_rule_has_a_row_in_the_documents():
    methods, rules = (DOCS / "reference" / "methods.md").read_text(), (DOCS / "reference" / "trust.md").read_text()
    assert [name for name in method_names() if f"`{name}`" not in methods] == []
    assert [name for name in TRUST.names() if f"`{name}`" not in rules] == []


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("consensus", Consensus()),
        ("paper", Consensus(trust=Paper())),
        ("static", Consensus(schedule="static")),
        ("every-4", Consensus(schedule="every-4")),
        ("naive", Consensus(trust=Uniform())),
        ("kt-pfl", Consensus(trust=KTpFL(), learning=Sequential())),
        ("kt-pfl(step=0.5, passes=2)", Consensus(trust=KTpFL(0.5), learning=Sequential(2))),
        ("consensus(listening='sparse', peers=3)", Consensus(listening=Sparse(3))),
        ("alone", Alone()),
        ("fedprox(mu=0.1)", FedProx(mu=0.1)),
        ("fedprox(mu = 1, keep_optimizer = true)", FedProx(mu=1.0, keep_optimizer=True)),
        ("scaffold(variates='steps')", Scaffold(variates="steps")),
        ("naive(lam=1)", Consensus(trust=Uniform(), lam=1.0)),
        ("static(trust='cosine', warmup=2)", Consensus(schedule="static", trust=Cosine(), warmup=2)),
        ("consensus(trust={name='entropy', offset=0})", Consensus(trust=Entropy(offset=0.0))),
        ("paper(wire={form='float16'})", Consensus(trust=Paper(), wire=Wire("float16"))),
        ("fedavg()", FedAvg()),
        ("ds-fl(temperature=0.2)", Consensus(trust=SharpenedMean(0.2), learning=Sequential())),
        ("fedmd(shared_labels=[0, 2])", Consensus(trust=MeanLogits(), learning=Revisit(shared_labels=(0, 2)))),
    ],
)
def test_methods_by_name(name, method):
    assert method_named(name) == method


def test_options_that_are_not_given_are_those_of_the_method_beside_it():
    like = Consensus(lam=0.2, warmup=1, trust=Cosine(), schedule="every-2")
    assert method_named("static", like) == Consensus(lam=0.2, warmup=1, trust=Cosine(), schedule="static")
    assert method_named("naive", like) == Consensus(lam=0.2, warmup=1, trust=Uniform(), schedule="dynamic")
    assert method_named("consensus", like) == like
    assert method_named("paper(lam=0.3)", like) == Consensus(lam=0.3, warmup=1, trust=Paper())
    assert method_named("fedmd", like) == Consensus(trust=MeanLogits(), learning=Revisit())
    assert method_named("fedprox", like) == FedProx()
    assert method_named("fedprox", FedProx(mu=3.0)) == FedProx(mu=3.0)
    assert method_named("fedprox(keep_optimizer=true)", FedProx(mu=3.0)) == FedProx(True, mu=3.0)
    assert method_named("fedavg", FedProx(mu=3.0)) == FedAvg()
    assert method_named("static", FedProx()) == Consensus(schedule="static")


def test_a_function_as_trust_is_carried_over_to_the_other_schedules():
    def mine(f):
        return f

    assert method_named("static", Consensus(trust=mine)).trust is mine
    assert method_named("consensus", Consensus(trust=mine)).trust is mine


def test_beside_naive_static_trust_is_that_of_the_paper():
    naive = method_named("naive", Consensus(lam=0.2))
    assert method_named("paper", naive) == Consensus(lam=0.2, trust=Paper())
    assert method_named("static", naive) == Consensus(lam=0.2, schedule="static")
    assert method_named("every-2", naive) == Consensus(lam=0.2, schedule="every-2")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fedprx", f"unknown method 'fedprx'. Did you mean 'fedprox'? {KNOWN}"),
        ("xyz", f"unknown method 'xyz'. {KNOWN}"),
        ("papr", f"unknown method 'papr'. Did you mean 'paper'? {KNOWN}"),
        ("fedprox(mu=0.1", "the method 'fedprox(mu=0.1' lacks a closing bracket. Write it as name(option=value)."),
        ("fedprox(mu=)", "the method 'fedprox(mu=)' is not valid TOML: "),
        ("fedprox(nu=0.1)", "fedprox(nu=0.1): unknown setting 'nu'. Did you mean 'mu'? Known: keep_optimizer, "),
        ("fedprox(mu=-1)", "fedprox(mu=-1): mu is -1.0; it must be at least 0 "),
        ("every-x", "schedule is 'every-x'; it must be one of these (trust is computed dynamic"),
    ],
)
def test_names_that_are_none_are_refused_with_a_hint(name, message):
    with pytest.raises(ConsilienceError) as error:
        method_named(name)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("method", EVERY)
def test_a_method_as_a_table_and_back_is_the_same(method):
    assert method_from(method_table(method), "method") == method


def test_a_table_is_complete_and_begins_with_the_name():
    assert method_table(Alone()) == {"name": "alone"}
    table = method_table(FedProx(mu=0.5))
    assert list(table) == ["name", "keep_optimizer", "warmup", "server_ema", "mu"] and table["mu"] == 0.5
    table = method_table(Consensus(trust=Uniform(), wire=Wire("float16")))
    parts = ["listening", "prior", "mean", "most_samples", "duals", "learning"]
    assert list(table) == ["name", "warmup", "lam", "trust", "schedule", "wire", *parts]
    assert table["trust"] == {"name": "uniform"} and table["wire"] == {"form": "float16", "top": 3}


def test_what_a_settings_file_may_say():
    assert method_from("fedprox(mu=0.1)", "method") == FedProx(mu=0.1)
    assert method_from({"lam": 0.1}, "method") == Consensus(lam=0.1)
    assert method_from({"name": "naive", "lam": 0.1}, "method") == Consensus(lam=0.1, trust=Uniform())
    assert method_from({"name": "feddyn"}, "method") == FedDyn()
    table = {"name": "fedavg"}
    method_from(table, "method")
    assert table == {"name": "fedavg"}, "the table is not changed"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, "method is 5; it must be a name, or a table with a name and options."),
        ({"name": "fedprox", "alpha": 1.0}, "method: unknown setting 'alpha'. "),
        ({"name": "fedsgd"}, "unknown method 'fedsgd'. "),
    ],
)
def test_tables_that_are_no_method_are_refused(value, message):
    with pytest.raises(ConsilienceError) as error:
        method_from(value, "method")
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FedProx(mu=-0.1), "mu is -0.1; it must be at least 0 (weight of the distance to the server's model)."),
        (lambda: FedProx(mu=float("inf")), "mu is inf; it must be a finite number"),
        (lambda: FedDyn(alpha=0.0), "alpha is 0.0; it must be above 0 (weight of the dynamic regulariser)."),
        (lambda: FedDyn(alpha=float("nan")), "alpha is nan; it must be a finite number"),
        (lambda: Scaffold(variates="both"), "variates is 'both'; it must be one of gradients, steps"),
        (lambda: FedAvg(keep_optimizer="no"), "keep_optimizer is 'no'; it must be true or false"),
    ],
)
def test_options_out_of_their_range_are_refused(make, message):
    with pytest.raises(ConsilienceError) as error:
        make()
    assert str(error.value).startswith(message)


def test_defaults_and_whole_numbers():
    assert (FedProx().mu, FedDyn().alpha, Scaffold().variates) == (0.01, 0.1, "gradients")
    assert not FedAvg().keep_optimizer
    assert FedProx(mu=0).mu == 0.0 and isinstance(FedProx(mu=0).mu, float)


def test_labels_and_titles():
    names = {
        type(method).__name__: (method.label, method.title) for method in EVERY if not isinstance(method, Consensus)
    }
    assert names == {
        "Alone": ("alone", "alone"),
        "FedAvg": ("fedavg", "FedAvg"),
        "FedProx": ("fedprox", "FedProx"),
        "Scaffold": ("scaffold", "SCAFFOLD"),
        "FedDyn": ("feddyn", "FedDyn"),
        "FedDF": ("feddf", "FedDF"),
        "FD": ("fd", "FD"),
    }
    for method in EVERY:
        together = isinstance(method, Consensus)
        assert method.uses_shared == together
        if not together:
            assert (method.warmup, method.wire) == (isinstance(method, FD), Wire())
    for name, alias in ALIASES.items():
        assert (method_named(name).label, method_named(name).title) == (name, alias.title)
    assert method_named("fedct").wire == Wire("label")
    assert (Consensus(trust=KTpFL()).label, Consensus(trust=KTpFL()).title) == ("kt-pfl", "consensus (kt-pfl)")


def test_another_package_brings_a_method_by_registering_it(monkeypatch):
    monkeypatch.setattr(METHODS, "_found", dict(METHODS._all()))

    @METHODS.add("fedmine")
    @dataclass(frozen=True)
    class FedMine(ServerMethod):
        speed: float = 1.0

    assert method_named("fedmine(speed=2.5)") == FedMine(speed=2.5)
    assert method_table(FedMine()) == method_table(FedAvg()) | {"name": "fedmine", "speed": 1.0}
    assert method_from(method_table(FedMine(speed=3.0)), "method") == FedMine(speed=3.0)
    assert FedMine().label == "fedmine"
