"""A ledger that was cut or changed is refused, and a kill takes nothing from it that was entered."""

import hashlib
import json
import shutil

import numpy as np
import pytest

from consilience import ConsilienceError
from consilience.privacy.accountants import LedgerEntry
from consilience.privacy.ledger_files import LedgerOwner
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


def test_a_kill_at_any_byte_of_a_line_or_its_head_loses_no_entry(rows, spent, ledger):
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


def test_a_ledger_without_a_format_is_refused(tmp_path, ledger):
    old = b'{"time": "", "data": "00", "head": true, "rows": ["00"], "before": ""}\n'
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "00.jsonl").write_bytes(old)
    with pytest.raises(ConsilienceError, match=r"line 1 of the privacy ledger .* was changed or damaged"):
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
    with pytest.raises(ConsilienceError, match=r"lacks rounds that the run has spent \(1, first"):
        one.restore(state, shared)


@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("noise", value) for value in ("NaN", "-2.0", "Infinity", "1e999", "0")],
        *[("rate", value) for value in ("NaN", "-0.5", "1.5")],
        *[("steps", "-3"), ("steps", "NaN"), ("round", "-1")],
    ],
)
def test_forged_values_that_no_training_can_have_are_refused(tmp_path, rows, ledger, site, key, value, owned):
    """Also where whoever forged them has made the chain and the head fit."""
    file = ledger(owner=site() if owned else None)
    file.add("run", LedgerEntry(1, 0.5, 2.0, 10))
    file.close()
    first, last = file.path.read_bytes().splitlines()
    text = str(json.loads(last)[key]).encode()
    forged = last.replace(b'"%s": %s' % (key.encode(), text), b'"%s": %s' % (key.encode(), value.encode()))
    assert forged != last
    rewrite(file.path, [first, forged])
    with pytest.raises(ConsilienceError, match=r"line 2 of the privacy ledger .* was changed or damaged"):
        ledger(owner=site() if owned else None)


def test_a_chain_that_was_rewritten_is_refused_where_the_site_signs(ledger, site):
    """The attack: epsilon 16.6 becomes 0.0005, with every hash and the head made to fit."""
    file = ledger(owner=site())
    for number in (1, 2):
        file.add("run", LedgerEntry(number, 0.5, 1.0, 100))
    file.close()
    lines = file.path.read_bytes().splitlines()
    head = file.path.with_suffix(".head").read_bytes()
    rewrite(file.path, [lines[0], *(line.replace(b'"noise": 1.0', b'"noise": 900.0') for line in lines[1:])])
    with pytest.raises(ConsilienceError, match=r"line 2 .*it is not signed with the key of its site"):
        ledger(owner=site())
    rewrite(file.path, lines[:2])
    with pytest.raises(ConsilienceError, match=r"the end of the privacy ledger .* its head says otherwise"):
        ledger(owner=site())
    file.path.write_bytes(b"".join(line + b"\n" for line in lines))
    file.path.with_suffix(".head").write_bytes(head)
    assert len(ledger(owner=site()).entries) == 2


def test_a_chain_that_was_signed_with_another_key_is_refused(tmp_path, ledger, site):
    file = ledger(owner=site())
    file.add("run", LedgerEntry(1, 0.5, 1.0, 100))
    file.close()
    name = file.path
    shutil.move(tmp_path / "ledger", tmp_path / "kept")
    other = ledger(owner=site("another"))
    other.close()
    shutil.copy(tmp_path / "kept" / ".secret", tmp_path / "ledger" / ".secret")
    other.path.rename(name)
    other.path.with_suffix(".head").rename(name.with_suffix(".head"))
    with pytest.raises(ConsilienceError, match=r"line 1 .*it is of another site than the name of the file says"):
        ledger(owner=site())


def test_a_new_ledger_beside_an_old_one_of_the_same_site_is_asked_about(ledger, site):
    draw = np.random.default_rng(5)
    old, new = draw.normal(size=(30, 5)), draw.exponential(size=(28, 5))
    file = ledger(old, site())
    file.add("run", LedgerEntry(1, 0.5, 1.0, 100))
    file.close()
    with pytest.raises(ConsilienceError, match="these private rows have no ledger, and this site has spent") as asked:
        ledger(new, site())
    assert f'other_ledgers = ["{file.name}"]' in str(asked.value)
    another = ledger(new**3, site("another"))
    assert not another.entries, "ledgers of other sites, on other rows, raise no question"
    another.close()
    confirmed = ledger(new, site(other_ledgers=(file.name,)))
    assert not confirmed.entries
    confirmed.close()
    assert not ledger(new, site()).entries, "it is asked about once"
    with pytest.raises(ConsilienceError, match="another run is spending"):
        ledger(new[:3], site(other_ledgers=(file.name, confirmed.name)))


def test_rows_that_are_equal_count_whatever_the_site_says_of_the_ledger(rows, ledger, site):
    file = ledger(owner=site())
    file.add("run", LedgerEntry(1, 0.5, 1.0, 100))
    file.close()
    assert len(ledger(rows[0][:3], site(other_ledgers=(file.name,))).entries) == 1


def test_without_its_secret_a_folder_of_ledgers_is_refused(tmp_path, spent, ledger):
    path = tmp_path / "ledger" / ".secret"
    secret = path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0
    path.write_bytes(secret[:20])
    with pytest.raises(ConsilienceError, match="do not know their rows again, is missing or damaged"):
        ledger()
    path.unlink()
    with pytest.raises(ConsilienceError, match="do not know their rows again, is missing or damaged"):
        ledger()
    path.write_bytes(secret[::-1].strip() + b"\n")
    with pytest.raises(ConsilienceError, match="was written with another secret"):
        ledger(rows_of(3))


def test_a_checkpoint_with_forged_entries_is_refused(rows, spent):
    _, _, one = spent
    for key, value in (("noise", float("nan")), ("noise", -1.0), ("entries", np.array([[1, np.nan, 2.0, 3]]))):
        state = one.state() | {f"privacy.{key}": np.asarray(value)}
        with pytest.raises(ConsilienceError, match="what its checkpoint says of its privacy budget is damaged"):
            one.restore(state, rows[2])


def rows_of(seed):
    return np.random.default_rng(seed).normal(size=(20, 4)) ** 3


@pytest.fixture
def site():
    """Makes the owner of ledgers by a name; the same name has the same key."""
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519", reason="needs [peers]")
    from consilience.federation.peers import keys

    def make(name="site", other_ledgers=()):
        signing = ed25519.Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())
        return LedgerOwner(keys.public_key(signing), signing.sign, keys.is_signed, other_ledgers)

    return make


def rewrite(path, lines):
    """What somebody can do who has the files and no key: a whole chain of other lines, and the head for it."""
    before, written = "", []
    for line in lines:
        old = json.loads(line)["before"] if b"NaN" not in line else None
        found = line.replace(b'"before": "%s"' % old.encode(), b'"before": "%s"' % before.encode()) if old else line
        before = hashlib.sha256(found).hexdigest()[:32]
        written.append(found)
    path.write_bytes(b"".join(line + b"\n" for line in written))
    signature = path.with_suffix(".head").read_text().strip().split(" ")[2:]
    path.with_suffix(".head").write_text(" ".join([f"{len(lines):012d}", before, *signature]) + "\n")
