"""What follows where every agent learns one layer on a backbone."""

from dataclasses import replace

import pytest

from consilience.methods.consensus import HEADS_NOTE, Consensus
from consilience.settings.heads import heads_notes
from consilience.settings.presets import read_settings
from consilience.settings.settings import Settings, changed

HEADS = {"models": ["minilm", "hf:somewhere"]}


def test_heads_have_exact_steps_duals_and_no_warm_up_unasked_and_one_line_says_so():
    settings = read_settings("digits", HEADS)
    assert settings.method == Consensus.for_heads()
    assert (settings.method.warmup, settings.method.duals, settings.method.mean) == (0, 1.0, "geometric")
    assert (settings.training.solver, settings.training.epochs, settings.run.rounds) == ("auto", 1, 30)
    assert heads_notes(settings) == [HEADS_NOTE]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"duals": 0.0}, replace(Consensus.for_heads(), duals=0.0)),
        ({"warmup": 2, "trust": "stratified"}, None),
        ({"method": "consensus(lam=0.5)"}, None),
    ],
)
def test_what_the_user_sets_is_kept(changes, expected):
    method = read_settings("digits", HEADS | changes).method
    if expected is not None:
        assert method == expected
    usual = changed(Settings(method=Consensus.for_heads()), changes).method
    assert method == usual


def test_the_method_of_the_paper_does_not_inherit_what_heads_have():
    method = read_settings("cifar10-pretrained", {"method": "paper"}).method
    assert (method.label, method.mean, method.duals, method.most_samples) == ("paper", "arithmetic", 0.0, 0.0)


@pytest.mark.parametrize(
    "changes",
    [{"models": ["minilm", "mlp"]}, HEADS | {"epsilon": 2.0}, HEADS | {"data.task": "regression"}, {"models": ["mlp"]}],
)
def test_nothing_follows_for_other_agents(changes):
    settings = read_settings("digits", changes)
    assert (settings.method, settings.run.rounds) == (Consensus(), 15)
    assert heads_notes(settings) == []
