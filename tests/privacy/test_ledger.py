"""A ledger that was cut or changed is refused, and a kill takes nothing from it that was entered."""

import hashlib
import json

import pytest

from consilience import ConsilienceError
from tests.privacy.test_mechanism import agent


@pytest.fixture
def spent(rows, ledger):
    """A ledger of two rounds that was closed: the file, the lines in it, and the agent that wrote them."""
    _, _, shared, _ = rows
    one, file = agent(rows), ledger()
    one.mechanism.keep(file)
    one.mechanism.plan(4)
    one.train(shared, None, 0.0)
    one.train(shared, None, 0.0)
    file.close()
    lines = file.path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 3 and (file.path.stat().st_mode & 0o077) == 0
    return file.path, lines, one


def test_a_ledger_of_which_any_byte_was_changed_is_refused(spent, ledger):
    """Also in its last line and in its head. But for the first line, where that lets the ledger be another's."""
    path, lines, _ = spent
    whole, start = b"".join(lines), len(lines[0])
    for at in [*range(start, len(whole), 7), len(whole) - 3, len(whole) - 1]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(ConsilienceError, match="without"):
            ledger()
    path.write_bytes(whole.replace(b'"steps": 6', b'"steps": 1'))
    with pytest.raises(ConsilienceError, match=r"line 3 of the privacy ledger .* was changed or damaged"):
        ledger()
    path.write_bytes(b"".join(lines[:2]) + lines[2].replace(b'"steps": 6', b'"steps": 1'))
    with pytest.raises(ConsilienceError, match="cut, changed or damaged: its head says otherwise"):
        ledger()
    path.write_bytes(whole)
    head = path.with_suffix(".head").read_bytes()
    for at in range(len(head) - 1):
        path.with_suffix(".head").write_bytes(head[:at] + bytes([head[at] ^ 1]) + head[at + 1 :])
        with pytest.raises(ConsilienceError, match="cut, changed or damaged"):
            ledger()
    path.with_suffix(".head").write_bytes(head)
    assert len(ledger().entries) == 2


def test_a_ledger_that_was_cut_anywhere_is_refused(spent, ledger):
    """Within a line, or after one; and without the head, or with nothing but the head."""
    path, lines, _ = spent
    whole = b"".join(lines)
    for left in [0, 10, len(lines[0]), len(lines[0] + lines[1]), *range(len(whole) - len(lines[2]), len(whole), 5)]:
        path.write_bytes(whole[:left])
        with pytest.raises(ConsilienceError, match=r"it had 3 lines and has [012]"):
            ledger()
    path.unlink()
    with pytest.raises(ConsilienceError, match="it had 3 lines and has 0"):
        ledger()
    path.write_bytes(whole)
    path.with_suffix(".head").unlink()
    with pytest.raises(ConsilienceError, match=r"its head .* is missing"):
        ledger()


def test_a_kill_at_any_byte_of_a_line_or_before_its_head_costs_nothing_that_was_entered(rows, spent, ledger):
    """What a kill leaves behind: a part of a line, or the whole line under the head of the line before."""
    path, lines, one = spent
    head = path.with_suffix(".head").read_bytes()
    file = ledger()
    file.add("other", one.mechanism.entries[0])
    file.close()
    fourth = path.read_bytes().splitlines(keepends=True)[3]
    for part in range(0, len(fourth) + 1, 9):
        path.write_bytes(b"".join(lines) + fourth[:part])
        path.with_suffix(".head").write_bytes(head)
        again = ledger()
        assert len(again.entries) == 2
        again.add("other", one.mechanism.entries[0])
        again.close()
        last = ledger()
        assert len(last.entries) == 3
        last.close()
    path.write_bytes(b"".join(lines) + fourth)
    path.with_suffix(".head").write_bytes(head)
    last = ledger()
    assert len(last.entries) == 3, "whole, so it counts"
    last.close()
    path.write_bytes(b"".join(lines))
    with pytest.raises(ConsilienceError, match="it had 4 lines and has 3"):
        ledger()


def test_a_ledger_of_an_earlier_version_is_read_and_gets_a_head(spent, ledger):
    path, lines, _ = spent
    old, before = [], ""
    for line in lines:
        content = json.loads(line) | {"before": before}
        content.pop("head", None)
        old.append(json.dumps(content).encode() + b"\n")
        before = hashlib.sha256(old[-1][:-1]).hexdigest()[:32]
    path.write_bytes(b"".join(old))
    path.with_suffix(".head").unlink()
    file = ledger()
    assert len(file.entries) == 2
    file.close()
    path.write_bytes(b"".join(old[:2]))
    with pytest.raises(ConsilienceError, match="it had 3 lines and has 2"):
        ledger()


def test_a_run_whose_ledger_was_put_back_to_an_earlier_state_is_refused(rows, spent, ledger):
    """The file and its head together: only the run's checkpoint can know."""
    _, _, shared, _ = rows
    path, lines, one = spent
    state = one.state()
    path.write_bytes(b"".join(lines[:2]))
    short = hashlib.sha256(lines[1][:-1]).hexdigest()[:32]
    path.with_suffix(".head").write_bytes(f"{2:012d} {short}\n".encode())
    one.mechanism.keep(ledger())
    with pytest.raises(ConsilienceError, match="lacks 1 rounds that the run has spent"):
        one.restore(state, shared)
