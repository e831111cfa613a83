"""Three real processes that talk to each other."""

import os
from multiprocessing import get_context

import numpy as np
import pytest
import torch.distributed as dist

from consilience import ConsilienceError
from consilience.extend import InMemory, Losses, Memory, Record, Round
from consilience.runtime.privacy_budget import STOPPED, all_stopped
from consilience.workers.group import WorkerExchange, WorkerGroup, join
from consilience.workers.pool import _PRELOAD
from consilience.workers.work import _check_same_data

AGENTS, ROSTER = [["a", "d"], ["b"], ["c"]], ("a", "b", "c", "d")


def predictions(names) -> dict[str, np.ndarray]:
    return {n: np.random.default_rng(ord(n)).dirichlet(np.ones(3), 5).astype(np.float32) for n in names}


def one_of_three(number: int, meeting: str, pipe, task) -> None:
    join(number, 3, meeting)
    try:
        pipe.send(task(WorkerGroup(AGENTS, number, ROSTER)))
    except ConsilienceError as error:
        pipe.send(str(error))


def in_three_processes(task, tmp_path) -> list:
    """What `task` gives, or the error it ends with, in each of three processes."""
    context = get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    pipes = []
    for number in range(3):
        here, there = context.Pipe(duplex=False)
        context.Process(
            target=one_of_three, args=(number, f"file://{tmp_path}/meeting", there, task), daemon=True
        ).start()
        there.close()
        pipes.append(here)

    def heard(pipe):
        assert pipe.poll(60)
        try:
            return pipe.recv()
        except EOFError:
            return None

    return [heard(pipe) for pipe in pipes]


def a_round(names, warmup: bool) -> tuple[Round, dict[str, dict[str, float]]]:
    """What one process knows of a round in which every number says whose it is."""
    place = {name: ROSTER.index(name) for name in names}
    record = Record(
        predictions(names),
        {
            name: Losses(place[name] + 0.5, float("nan") if warmup else place[name] + 0.25, 3, place[name])
            for name in names
        },
        {name: 10 * place[name] for name in names},
        () if warmup else ROSTER,
        {} if warmup else predictions(ROSTER),
        None if warmup else np.array([np.roll([0.1, 0.2, 0.3, 0.4], place[name]) for name in names]),
    )
    own = {} if warmup else {name: {"trust": np.full(4, place[name]), "x/y": np.ones(1)} for name in names}
    scores = {name: {"accuracy": place[name] / 10, "auc": place[name] / 100} for name in names}
    return Round(7, record, Memory({"c": np.zeros(2)}, own)), scores


def exchange(group: WorkerGroup) -> tuple:
    names = group.agents_by_worker[group.number]
    own = predictions(names)
    travels = WorkerExchange(InMemory(ROSTER), group)
    received = travels.gather(1, own)
    mine = {f"{group.number}/{name}": f.T for name, f in own.items()} | {f"{group.number}": np.array(7)}
    shared = travels.share({name: {"weight": f.T, "bias": np.array(1.5)} for name, f in own.items()})
    empty = travels.share({name: {} for name in names})
    rounds = [group.complete(*a_round(names, warmup)) for warmup in (True, False)]
    return received, group.to_first(mine), group.from_first(mine), shared, empty, rounds


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory) -> list[tuple]:
    return in_three_processes(exchange, tmp_path_factory.mktemp("exchange"))


def test_predictions_arrive_as_they_were_sent_and_bytes_are_those_of_the_method(exchanged):
    expected = InMemory(ROSTER).gather(1, predictions(ROSTER))
    for number, (received, *_) in enumerate(exchanged):
        assert received.sent == {name: expected.sent[name] for name in AGENTS[number]}
        assert received.predictions.keys() == set(ROSTER)
        for name, f in expected.predictions.items():
            np.testing.assert_array_equal(received.predictions[name], f)


def test_arrays_go_to_the_first_and_from_the_first(exchanged):
    for number, (_, at_first, from_first, *_) in enumerate(exchanged):
        everything = {"0", "1", "2", "0/a", "0/d", "1/b", "2/c"}
        assert at_first.keys() == (everything if number == 0 else set())
        assert from_first.keys() == {"0", "0/a", "0/d"}
        np.testing.assert_array_equal(from_first["0/a"], predictions("a")["a"].T)
        assert from_first["0"] == 7


def test_weights_of_all_agents_are_everywhere_in_the_order_of_the_roster(exchanged):
    for _, _, _, shared, empty, _ in exchanged:
        assert tuple(shared) == ROSTER
        for name, f in predictions(ROSTER).items():
            np.testing.assert_array_equal(shared[name]["weight"], f.T)
            assert shared[name]["bias"] == 1.5
        assert empty == {}


@pytest.mark.parametrize("warmup", [True, False])
def test_the_first_worker_alone_knows_the_whole_round(exchanged, warmup):
    expected, expected_scores = a_round(ROSTER, warmup)
    for number, (*_, rounds) in enumerate(exchanged):
        done, scores = rounds[not warmup]
        assert done.record.received == {}  # everyone's predictions would take as much memory again
        if number:
            assert tuple(scores) == tuple(done.record.losses) == tuple(AGENTS[number])
            continue
        assert done.number == 7
        assert scores == expected_scores
        for name in ROSTER:
            mine, other = done.record.losses[name], expected.record.losses[name]
            np.testing.assert_array_equal(list(vars(mine).values()), list(vars(other).values()))
            np.testing.assert_array_equal(done.record.predictions[name], expected.record.predictions[name])
        assert done.record.sent == expected.record.sent
        assert done.record.heard == expected.record.heard
        if warmup:
            assert done.record.trust is None and done.memory.own == {}
        else:
            np.testing.assert_array_equal(done.record.trust, expected.record.trust)
        assert done.memory.own.keys() == expected.memory.own.keys()
        for name, kept in expected.memory.own.items():
            assert done.memory.own[name].keys() == kept.keys()
            np.testing.assert_array_equal(done.memory.own[name]["trust"], kept["trust"])
        np.testing.assert_array_equal(done.memory.common["c"], np.zeros(2))


def all_stopped_of(group: WorkerGroup) -> tuple[bool, bool]:
    """Whether workers that have seen the same rounds go on: all agents have stopped, then one has not."""
    names, answers = group.agents_by_worker[group.number], []
    for still_training in ("", "b"):
        done, _ = a_round(names, warmup=True)
        scores = {name: {STOPPED: float(name != still_training)} for name in names}
        answers.append(all_stopped(group.complete(done, scores)[1], ROSTER, group))
    return tuple(answers)


def test_all_workers_stop_when_every_agent_has_spent_its_budget(tmp_path):
    assert in_three_processes(all_stopped_of, tmp_path) == [(True, False)] * 3


def die_or_wait(group: WorkerGroup) -> None:
    dist.barrier()  # all have met
    if group.number == 2:
        os._exit(9)
    group.to_first({"x": np.zeros(1)})


def other_data(group: WorkerGroup) -> None:
    _check_same_data("f00" if group.number == 1 else "ba5", group)


def test_a_worker_that_died_is_named(tmp_path):
    first, _, dead = in_three_processes(die_or_wait, tmp_path)
    assert first == (
        "worker 2, which trained agents c, has died or cannot be reached. Finished rounds are saved; resume the run."
    )
    assert dead is None


def test_other_data_are_refused(tmp_path):
    first, second, third = in_three_processes(other_data, tmp_path)
    assert first is third is None
    assert "worker 1 read other data (fingerprint f00) than the first (ba5)" in second
