"""Three real processes that talk to each other."""

import os
from multiprocessing import get_context

import numpy as np
from consilience.experiments.jobs import _PRELOAD
from consilience.experiments.method import _same_data
from consilience.runtime.workers import Group, Spread, join

from consilience import ConsilienceError, InMemory

HOLDERS, ROSTER = [["a", "d"], ["b"], ["c"]], ("a", "b", "c", "d")


def predictions(names) -> dict[str, np.ndarray]:
    return {n: np.random.default_rng(ord(n)).dirichlet(np.ones(3), 5).astype(np.float32) for n in names}


def one_of_three(number: int, meeting: str, pipe, task) -> None:
    join(number, 3, meeting)
    try:
        pipe.send(task(Group(HOLDERS, number, ROSTER)))
    except ConsilienceError as error:
        pipe.send(str(error))


def in_three_processes(task, tmp_path) -> list:
    """What `task` gives, or the error it ends with, in each of three processes."""
    context = get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    found = []
    for number in range(3):
        here, there = context.Pipe(duplex=False)
        context.Process(
            target=one_of_three, args=(number, f"file://{tmp_path}/meeting", there, task), daemon=True
        ).start()
        there.close()
        found.append(here)

    def heard(pipe):
        assert pipe.poll(60)
        try:
            return pipe.recv()
        except EOFError:
            return None

    return [heard(pipe) for pipe in found]


def exchange(group: Group) -> tuple:
    spoken = predictions(group.holders[group.number])
    heard = Spread(InMemory(ROSTER), group).gather(1, spoken)
    mine = {f"{group.number}/{name}": f.T for name, f in spoken.items()} | {f"{group.number}": np.array(7)}
    return heard.predictions, heard.sent, group.to_first(mine), group.together(mine), group.from_first(mine)


def test_everything_arrives_as_it_was_sent_and_bytes_are_those_of_the_method(tmp_path):
    found = in_three_processes(exchange, tmp_path)
    expected = InMemory(ROSTER).gather(1, predictions(ROSTER))
    all_keys = {"0", "1", "2", "0/a", "0/d", "1/b", "2/c"}
    for number, (heard, sent, at_first, together, from_first) in enumerate(found):
        assert sent == {name: expected.sent[name] for name in HOLDERS[number]}
        assert at_first.keys() == (all_keys if number == 0 else set())
        assert together.keys() == all_keys
        assert from_first.keys() == {"0", "0/a", "0/d"}
        for name, f in expected.predictions.items():
            np.testing.assert_array_equal(heard[name], f)
        np.testing.assert_array_equal(together["1/b"], expected.predictions["b"].T)


def die_or_wait(group: Group) -> None:
    if group.number == 2:
        os._exit(9)
    group.to_first({"x": np.zeros(1)})


def other_data(group: Group) -> None:
    _same_data("f00" if group.number == 1 else "ba5", group)


def test_a_worker_that_died_is_named(tmp_path):
    first, _, dead = in_three_processes(die_or_wait, tmp_path)
    assert first.startswith("worker 2, which trained agents c, has died")
    assert dead is None


def test_other_data_are_refused(tmp_path):
    first, second, third = in_three_processes(other_data, tmp_path)
    assert first is third is None
    assert "worker 1 read other data (fingerprint f00) than the first (ba5)" in second


def test_a_group_of_one_talks_to_nobody():
    group, arrays = Group(), predictions("ab")
    for answer in (group.everyone(arrays), group.to_first(arrays), group.from_first(arrays), group.together(arrays)):
        assert answer == arrays
