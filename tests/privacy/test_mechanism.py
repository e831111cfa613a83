"""A private agent's budget: planned, entered, never exceeded, and the same after any interruption."""

import numpy as np
import pytest
import torch
from torch import nn

import consilience as cs
from consilience import ConsilienceError, TorchAgent, check_agent
from consilience.agents.batched import units
from consilience.agents.models import AgentSpec, build_agent
from consilience.agents.protocol import copied
from consilience.agents.training import Training
from consilience.privacy.accountants import epsilon_of_record, used
from consilience.privacy.options import Privacy
from consilience.report.live_data import snapshot
from consilience.report.privacy import privacy_card
from consilience.report.progress import Lines
from consilience.runtime.callbacks import Callback
from consilience.runtime.privacy_budget import mechanism_of
from consilience.tasks import TASKS
from tests.torch_options import torch_options

FEW = Privacy(epsilon=4, delta=1e-3)


def agent(rows, name="a", privacy=FEW, seed=0, **more):
    x, y, _, _ = rows
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    return TorchAgent(model, x, y, name, **torch_options(epochs=2, batch=8, **more), privacy=privacy, seed=seed)


def test_the_planned_rounds_spend_the_budget_and_the_next_does_not_take_place(rows):
    _, _, shared, labels = rows
    one = agent(rows)
    one.mechanism.plan(3)
    for _ in range(3):
        one.train(shared, labels, 0.5)
    assert 0.99 * 4 <= one.mechanism.record() <= 4
    before = one.predict(shared)
    losses = one.train(shared, labels, 0.5)
    assert np.isnan(losses.local) and (one.predict(shared) == before).all()
    spent = one.mechanism.spent()
    assert (spent.stopped, spent.rounds, spent.steps) == (4, 3, 18) and spent.epsilon <= 4


def test_an_explicit_noise_stops_before_the_budget_is_exceeded(rows):
    _, _, shared, _ = rows
    one = agent(rows, privacy=Privacy(epsilon=1, delta=1e-3, noise=4.0))
    for _ in range(8):
        one.train(shared, None, 0.0)
    done = len(one.mechanism.entries)
    entry = one.mechanism.entries[0]
    more = used([*one.mechanism.entries, entry])
    assert 0 < done < 8 and one.mechanism.record() <= 1 < epsilon_of_record(more, 1e-3)


def test_a_plan_is_needed_unless_the_noise_is_given(rows):
    with pytest.raises(ConsilienceError, match=r"Call plan\(rounds\)"):
        agent(rows).train(rows[2], None, 0.0)


def test_a_delta_that_promises_nothing_is_refused(rows):
    with pytest.raises(ConsilienceError, match="far below 1 / rows"):
        agent(rows, privacy=Privacy(epsilon=1, delta=0.05))


def test_private_agents_pass_the_conformance_suite():
    privacy = Privacy(epsilon=9, delta=1e-4, noise=2.0)

    def make(x, y, name):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = nn.Linear(x.shape[1], int(y.max()) + 1)
        return TorchAgent(model, x, y, name, training=Training(batch=8), privacy=privacy)

    check_agent(make)


def test_a_private_agent_is_in_no_batch(rows):
    assert sorted(map(len, units([agent(rows, "a"), agent(rows, "b")]))) == [1, 1]
    assert sorted(map(len, units([agent(rows, "a", None), agent(rows, "b", None)]))) == [2]


def test_its_own_noise_does_not_depend_on_who_else_trains(rows):
    _, _, shared, _ = rows
    both, alone = [agent(rows, "a"), agent(rows, "b")], agent(rows, "a")
    run = cs.collaborate(both, shared, method="alone", rounds=2)
    alone.mechanism.plan(2)
    for _ in range(2):
        alone.train(shared, None, 0.0)
    assert (both[0].predict(shared) == alone.predict(shared)).all()
    assert (both[0].predict(shared) != both[1].predict(shared)).any()
    assert run.history["epsilon"].groupby(run.history["round"]).nunique().tolist() == [1, 1]
    assert run.history["epsilon"].iloc[-1] == pytest.approx(4, rel=0.02)


def test_every_place_shows_the_epsilon_of_record_never_above_the_budget(rows, tmp_path):
    """History, callbacks, the line of a round, the report while the run is under way, and the summary after it."""
    x, y, shared, _ = rows
    lines, told = [], []

    class Told(Callback):
        def round(self, run, news):
            told.append(news)

    agents = [agent(rows, "a"), agent(rows, "b")]
    callbacks = [Told(), Lines(lines.append, 3)]
    run = cs.collaborate(
        agents,
        shared,
        method=cs.Consensus(warmup=1),
        rounds=3,
        own={"a": (x, y)},
        out=tmp_path / "run",
        callbacks=callbacks,
        progress=False,
    )
    entries = agents[0].mechanism.entries
    record = [epsilon_of_record(used(entries[:number]), 1e-3) for number in (1, 2, 3)]
    assert record[-1] == agents[0].mechanism.record() <= 4
    shown = run.history[run.history["agent"] == "a"]["epsilon"].tolist()
    assert shown == record and [news.agents["a"]["epsilon"] for news in told] == record
    assert [line.rpartition("epsilon ")[2] for line in lines] == [f"{value:.3f}" for value in record]
    assert run.run.summary.agents[0].privacy["epsilon"] == record[-1]
    (tmp_path / "run" / "summary.json").unlink()
    card = privacy_card(snapshot(tmp_path / "run"))
    assert [one["epsilon"] for one in card["agents"]] == [record[-1]] * 2


def test_regression_measures_no_noise_of_private_rows(rows):
    x, y, shared, _ = rows
    privacy = Privacy(epsilon=4, delta=1e-3, noise=5.0)
    one = TorchAgent(nn.Linear(6, 1), x, 100.0 * y, "a", task="regression", privacy=privacy)
    one.train(shared, None, 0.0)
    assert one.noise == 1.0


def test_agents_that_are_interrupted_go_on_to_the_same_bits(rows, tmp_path):
    _, _, shared, _ = rows

    def run(rounds, folder, resume=False):
        agents = [agent(rows, name, Privacy(epsilon=4, delta=1e-3, noise=4.0)) for name in "ab"]
        cs.collaborate(agents, shared, method=cs.Consensus(warmup=1), rounds=rounds, out=folder, resume=resume)
        return agents

    whole = run(4, tmp_path / "whole")
    run(2, tmp_path / "parts")
    (tmp_path / "parts" / "summary.json").unlink()
    parts = run(4, tmp_path / "parts", resume=True)
    for one, other in zip(whole, parts, strict=True):
        assert (one.predict(shared) == other.predict(shared)).all()
        assert one.mechanism.entries == other.mechanism.entries and len(one.mechanism.entries) == 4


def test_secure_noise_never_comes_back(rows):
    _, _, shared, _ = rows
    found = []
    for _ in range(2):
        one = agent(rows, privacy=Privacy(epsilon=4, delta=1e-3, noise=4.0, secure=True))
        one.train(shared, None, 0.0)
        found.append(one.predict(shared))
    assert (found[0] != found[1]).any() and one.mechanism.spent().generator == "operating system"


def test_a_checkpoint_of_an_agent_that_was_not_private_is_refused(rows):
    with pytest.raises(ConsilienceError, match="not known what its predictions have given away"):
        agent(rows).restore(agent(rows, privacy=None).state(), rows[2])


def test_a_copy_that_trains_beside_enters_nothing_and_has_noise_of_its_own(rows, ledger):
    _, _, shared, _ = rows
    one = agent(rows)
    one.mechanism.keep(ledger())
    one.mechanism.plan(2)
    copy = copied(one)
    for each in (one, copy):
        each.train(shared, None, 0.0)
    assert len(one.mechanism.file.entries) == 1 and copy.mechanism.file is None
    assert copy.mechanism.noise == one.mechanism.noise and (one.predict(shared) != copy.predict(shared)).any()
    one.train(shared, None, 0.0)
    one.train(shared, None, 0.0)
    before = copy.predict(shared)
    copy.train(shared, None, 0.0)
    assert one.mechanism.stopped and (copy.predict(shared) == before).all(), "the copy stops when the agent does"


def test_a_new_run_on_the_same_rows_goes_on_in_the_ledger(rows, ledger):
    _, _, shared, _ = rows
    first = agent(rows, privacy=Privacy(epsilon=1, delta=1e-3))
    file = ledger()
    first.mechanism.keep(file)
    first.mechanism.plan(2)
    first.train(shared, None, 0.0)
    first.train(shared, None, 0.0)
    file.close()
    x, y, _, _ = rows
    order = np.random.default_rng(1).permutation(len(y))
    again = agent(rows)
    again.mechanism.keep(ledger(x[order]))
    assert again.mechanism.record() == pytest.approx(first.mechanism.record())
    again.mechanism.plan(2)
    again.train(shared, None, 0.0)
    again.train(shared, None, 0.0)
    assert 3.9 < again.mechanism.record() <= 4 and again.mechanism.spent().earlier == pytest.approx(1, rel=0.01)
    assert again.mechanism.noise > first.mechanism.noise / 4


def test_a_run_on_some_of_the_rows_counts_what_was_spent_on_them(rows, ledger):
    x, y, shared, _ = rows
    first = agent(rows)
    file = ledger()
    first.mechanism.keep(file)
    first.mechanism.plan(1)
    first.train(shared, None, 0.0)
    with pytest.raises(ConsilienceError, match="another run is spending on some of the same private rows"):
        ledger(x[:5])
    file.close()
    part = agent((x[:20], y[:20], shared, None))
    part.mechanism.keep(ledger(x[:20]))
    with pytest.raises(ConsilienceError, match=r"leaves nothing for 2 rounds.* 4 is spent already"):
        part.mechanism.plan(2)
    other = agent(rows)
    other.mechanism.keep(ledger(x**2))
    assert other.mechanism.record() == 0


def test_a_round_that_is_trained_again_counts_again_with_other_noise(rows, ledger):
    """A checkpoint was lost after its round was entered: what left before shares no noise with what leaves now."""
    _, _, shared, _ = rows
    one = agent(rows)
    one.mechanism.keep(ledger())
    one.mechanism.plan(4)
    state = one.state()
    one.train(shared, None, 0.0)
    first, spent = one.predict(shared), one.mechanism.record()
    one.restore(state, shared)
    one.train(shared, None, 0.0)
    assert (one.predict(shared) != first).any() and one.mechanism.record() > spent


@pytest.mark.parametrize("model", ["forest", "boosting", "neighbours"])
def test_other_models_are_refused(rows, model):
    x, y, _, _ = rows
    task = TASKS.find("classification")
    with pytest.raises(ConsilienceError, match=f"{model} cannot be trained privately.*Use logistic"):
        build_agent(AgentSpec("a", model, x, y, 3, task, privacy=FEW))


def test_private_logistic_regression_is_a_torch_model_of_that_name(rows):
    x, y, _, _ = rows
    one = build_agent(AgentSpec("a", "logistic", x, y, 3, TASKS.find("classification"), privacy=FEW))
    assert one.kind == "logistic" and mechanism_of(one).privacy == FEW and one.parameters == 6 * 3 + 3
