"""The driver: any method's rounds, recorded, saved, told of, and taken up again."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_info

from consilience import (
    FD,
    Alone,
    Consensus,
    ConsilienceError,
    FedAvg,
    FedDF,
    FedDyn,
    FedProx,
    Scaffold,
    SklearnAgent,
    TorchAgent,
    Uniform,
    load_run,
)
from consilience.extend import InMemory
from consilience.methods import method_named
from consilience.methods.learning.joint import Joint
from consilience.methods.learning.separate import Sequential
from consilience.methods.trust.ktpfl import KTpFL
from consilience.methods.trust.labels import Vote
from consilience.runtime import checkpoint
from consilience.runtime.callbacks import Ended, Finished, Started, Trained
from consilience.runtime.driver import run_rounds
from consilience.runtime.history import Evaluation
from consilience.runtime.run import Run
from consilience.runtime.summary import AgentSummary, Summary, summarised, versions
from tests.conftest import blobs
from tests.methods.models import SIZES, classifiers, plain_network
from tests.runtime.known import NAMES, SHARED, Known, Script, evaluation_of, summary_of

METHODS = [
    Alone(),
    Consensus(warmup=1),
    Consensus(warmup=1, schedule="static"),
    Consensus(warmup=1, schedule="every-3"),
    Consensus(warmup=1, trust=Uniform()),
    Consensus(warmup=1, trust=Vote(), learning=Joint(warmup_shared=True)),
    FedAvg(),
    FedAvg(keep_optimizer=True),
    FedProx(mu=0.1),
    FedProx(mu=0.1, keep_optimizer=True),
    Scaffold(),
    Scaffold(variates="steps", keep_optimizer=True),
    FedDyn(),
    FedDyn(keep_optimizer=True),
    FedDF(),
    FedDF(keep_optimizer=True),
    method_named("fedmd(warmup=1)"),
    method_named(f"fedmd(warmup=3, shared_labels={[0, 1, 2, 1] * 10})"),
    method_named("ds-fl(warmup=1)"),
    method_named("fedct(warmup=1)"),
    method_named("cronus(warmup=1, share=0.4)"),
    Consensus(warmup=1, trust=KTpFL(), learning=Sequential(2)),
    FD(),
]


def run_of(agents, method, rounds, shared, folder=None, **more) -> Run:
    summary = Summary(method.label, method.title, "classification", rounds, method.warmup, len(shared))
    return run_rounds(agents, shared, InMemory(tuple(SIZES)), method, summary, folder=folder, **more)


def assert_same_checkpoint(one, two) -> None:
    (number, arrays, _), (also, others, _) = checkpoint.read(one / "checkpoint"), checkpoint.read(two / "checkpoint")
    assert number == also and arrays.keys() == others.keys()
    for key in arrays.keys() - {"seconds"}:
        np.testing.assert_array_equal(arrays[key], others[key], err_msg=key)
        assert arrays[key].dtype == others[key].dtype


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_resumed_run_ends_bit_identical(shared, tmp_path, method):
    """Stopped after rounds 2 and 3, in any order of agents; with networks that have batch norm and dropout."""
    expected = run_of(classifiers(), method, 5, shared, tmp_path / "whole")
    for rounds in (2, 3):
        run_of(classifiers(), method, rounds, shared, tmp_path / "parts")
    result = run_of(classifiers()[::-1], method, 5, shared, tmp_path / "parts")
    pd.testing.assert_frame_equal(expected.metrics, result.metrics, check_exact=True)
    np.testing.assert_array_equal(expected.trust, result.trust)
    np.testing.assert_array_equal(expected.trust_rounds, result.trust_rounds)
    assert_same_checkpoint(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize("method", METHODS[-6:], ids=str)
def test_estimators_and_networks_resume_bit_identical_too(shared, tmp_path, method):
    """An estimator is fitted anew from what its checkpoint holds."""

    def agents():
        estimators = {"b": LogisticRegression(), "c": KNeighborsClassifier(3)}
        others = [SklearnAgent(estimators[name], *blobs(30, SIZES[name]), name) for name in estimators]
        return [TorchAgent(plain_network(0), *blobs(30, 0), "a"), *others]

    expected = run_of(agents(), method, 5, shared, tmp_path / "whole")
    for rounds in (2, 3, 5):
        result = run_of(agents(), method, rounds, shared, tmp_path / "parts")
    pd.testing.assert_frame_equal(expected.metrics, result.metrics, check_exact=True)
    assert_same_checkpoint(tmp_path / "whole", tmp_path / "parts")


def test_networks_that_train_together_resume_bit_identical_too(shared, tmp_path):
    def agents():
        return [TorchAgent(plain_network(seed), *blobs(30, seed), name) for seed, name in enumerate(SIZES)]

    expected = run_of(agents(), Consensus(warmup=1), 4, shared)
    run_of(agents(), Consensus(warmup=1), 2, shared, tmp_path)
    result = run_of(agents(), Consensus(warmup=1), 4, shared, tmp_path)
    pd.testing.assert_frame_equal(expected.metrics, result.metrics, check_exact=True)


@pytest.mark.parametrize(
    ("method", "common", "own"),
    [
        (Alone(), 0, set()),
        (Consensus(warmup=0), 0, {"trust"}),
        (FedAvg(), 0, set()),
        (FedDyn(), 6, {"0.weight", "0.bias", "1.weight", "1.bias", "4.weight", "4.bias"}),
    ],
    ids=lambda given: getattr(given, "label", None),
)
def test_a_checkpoint_holds_agents_history_and_what_the_method_keeps(shared, tmp_path, method, common, own):
    run_of(classifiers(), method, 1, shared, tmp_path)
    number, arrays, _ = checkpoint.read(tmp_path / "checkpoint")
    assert number == 1
    assert len(checkpoint.with_prefix(arrays, "common/")) == common
    for name in SIZES:
        assert checkpoint.with_prefix(arrays, f"own/{name}/").keys() == own
        assert {"model.0.weight", "round"} < checkpoint.with_prefix(arrays, f"agent/{name}/").keys()
    assert {"trust", "trust_rounds", "column.00.round"} < checkpoint.with_prefix(arrays, "history/").keys()
    assert arrays["seconds"] >= 0


@pytest.mark.parametrize(
    ("first", "then"), [(Scaffold(), FedDyn()), (Consensus(), FedAvg()), (FedAvg(), Consensus()), (Alone(), FedAvg())]
)
def test_a_checkpoint_of_another_method_is_refused(shared, tmp_path, first, then):
    """SCAFFOLD and FedDyn keep tensors of the same names, which mean something else."""
    run_of(classifiers(), first, 1, shared, tmp_path)
    with pytest.raises(ConsilienceError) as error:
        run_of(classifiers(), then, 2, shared, tmp_path)
    made, asked = type(first).__name__, type(then).__name__
    assert f"is of another run; what differs is the method ({made}, now {asked})" in str(error.value)


def scripted(rounds, folder=None, names=NAMES, **more) -> Run:
    agents = [Known(name) for name in names]
    summary = summary_of("classification", rounds)
    evaluation = evaluation_of("classification")
    return run_rounds(agents, SHARED, InMemory(NAMES), Script(), summary, evaluation, folder=folder, **more)


def test_events_are_told_in_order_and_rounds_after_they_are_saved(tmp_path):
    told = []

    def emit(event):
        told.append(event)
        if isinstance(event, Finished):
            assert checkpoint.last_round(tmp_path / "checkpoint") == event.number == event.means["round"]
        elif isinstance(event, Ended):
            assert load_run(tmp_path).summary.seconds == event.seconds

    scripted(2, tmp_path, emit=emit)
    of_a_round = [Trained, Trained, Trained, Finished]
    assert [type(event) for event in told] == [Started, *of_a_round, *of_a_round, Ended]
    assert [event.agent for event in told if isinstance(event, Trained)] == ["a", "b", "c", "a", "b", "c"]
    assert told[0].done == 0
    assert told[0].agents_by_worker == (("a", "b", "c"),)
    told.clear()
    scripted(3, tmp_path, emit=emit)
    assert [type(event) for event in told] == [Started, *of_a_round, Ended]
    assert told[0].done == 2


def test_a_round_is_told_as_it_is_recorded():
    told = []
    run = scripted(3, emit=told.append)
    rounds = [event for event in told if isinstance(event, Finished)]
    assert [event.number for event in rounds] == [1, 2, 3]
    for event in rounds:
        table = run.metrics[run.metrics["round"] == event.number].set_index("agent").drop(columns="round")
        assert list(event.agents) == list(NAMES)
        pd.testing.assert_frame_equal(pd.DataFrame(event.agents).T, table, check_names=False, check_dtype=False)
        if event.number in run.trust_rounds:
            np.testing.assert_array_equal(event.trust, run.trust[list(run.trust_rounds).index(event.number)])
        else:
            assert event.trust is None


def test_a_finished_run_is_in_its_folder_and_seconds_add_up(tmp_path):
    first = scripted(1, tmp_path)
    run = scripted(3, tmp_path)
    loaded = load_run(tmp_path)
    pd.testing.assert_frame_equal(loaded.metrics, run.metrics, check_exact=True)
    np.testing.assert_array_equal(loaded.trust, run.trust)
    np.testing.assert_array_equal(loaded.trust_rounds, run.trust_rounds)
    assert loaded.summary == run.summary
    assert run.summary.versions == versions()
    _, arrays, _ = checkpoint.read(tmp_path / "checkpoint")
    assert 0 <= first.summary.seconds <= float(arrays["seconds"]) + 1e-3 <= run.summary.seconds + 2e-3


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scripted(2)
    assert list(tmp_path.iterdir()) == []


def nothing_is_done(event):
    assert not isinstance(event, Trained | Finished)


def test_a_finished_run_is_not_run_again_but_recorded_as_it_was(tmp_path):
    run = scripted(2, tmp_path)
    again = scripted(2, tmp_path, emit=nothing_is_done)
    pd.testing.assert_frame_equal(run.metrics, again.metrics, check_exact=True)


def test_damaged_checkpoints_are_passed_over_with_a_warning(tmp_path):
    whole = scripted(3)
    scripted(2, tmp_path)
    [last] = (tmp_path / "checkpoint").glob("round-00002*")
    last.write_bytes(b"damaged")
    with pytest.warns(UserWarning, match=rf"passed over damaged checkpoints: {last.name}; going on from round 1"):
        run = scripted(3, tmp_path)
    pd.testing.assert_frame_equal(run.metrics, whole.metrics, check_exact=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scripted(3, tmp_path)


def test_other_agents_cannot_take_up_a_run(tmp_path):
    scripted(1, tmp_path, names=("a", "b"))
    with pytest.raises(ConsilienceError, match=r"knows no agent 'c'\. Resume with the same agents\."):
        scripted(2, tmp_path)


def test_agents_in_the_summary_are_in_the_order_of_the_roster():
    agents = [Known(name) for name in "cab"]
    summary = Summary("script", "script", "classification", 1, 1, 9, agents=summarised(agents))
    run = run_rounds(agents, SHARED, InMemory(NAMES), Script(), summary)
    assert run.names == ["a", "b", "c"]
    assert run.summary.agents[0] == AgentSummary("a", "known", 5, False, None, [5, 0, 0])
    assert run.metrics["agent"].tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("threads", [1, 2])
def test_numerical_libraries_use_so_many_threads_and_are_left_as_they_were(threads):
    seen = []

    class Counting(Evaluation):
        def scores_of(self, *given):
            seen.append(torch.get_num_threads())
            seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
            return super().scores_of(*given)

    before = torch.get_num_threads()
    run_rounds(
        [Known("a")], SHARED, InMemory(("a",)), Script(), summary_of("classification", 1), Counting(), threads=threads
    )
    assert set(seen) == {threads}
    assert torch.get_num_threads() == before
    with pytest.raises(ConsilienceError):
        run_rounds([Known("a")], SHARED, InMemory(NAMES), FedAvg(), summary_of("classification", 1), threads=7)
    assert torch.get_num_threads() == before


def test_an_agent_whose_name_has_a_slash_is_refused_before_it_trains(tmp_path):
    """Settings can name agents after what a column of somebody's table says."""
    agents = [SklearnAgent(LogisticRegression(), *blobs(30, seed), name) for seed, name in enumerate(("a/b", "c"))]
    exchange, summary = InMemory(("a/b", "c")), Summary("consensus", "consensus", "classification", 2, 1, 20)
    with pytest.raises(ConsilienceError, match=r"called 'a/b', which cannot be part of a file's name"):
        run_rounds(agents, blobs(20, 9)[0], exchange, Consensus(), summary, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()
