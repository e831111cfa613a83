"""Sites that exchange files in a folder: on a disk, in memory, in a bucket; and what others may do to the files."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest

pytest.importorskip("zenoh", reason="needs consilience[peers]")
pytest.importorskip("fsspec", reason="needs consilience[folder]")

import fsspec

from consilience.federation.peers import folder_carrier
from consilience.federation.peers.audit import AuditLog, read_audit
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.network import Network
from consilience.federation.peers.site_exchange import SiteExchange
from tests.federation.peers.conftest import SIGNING, SITE_KEYS, federation_of

HOURS = 3 * 3600.0
FEDERATION = replace(federation_of(3, 2), deadline=HOURS, settings={"run": {"rounds": 4}, "method": {"lam": 0.5}})
PREDICTIONS = np.random.default_rng(0).dirichlet(np.ones(2), (3, 5, 6)).astype(np.float32)
"""(agents, rounds, samples, classes)."""


@pytest.fixture
def memory() -> Iterator[str]:
    yield "memory://shared"
    fsspec.filesystem("memory").rm("/shared", recursive=True)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of a server on this machine that speaks S3."""
    pytest.importorskip("s3fs", reason="pip install s3fs 'moto[server]'")
    server = pytest.importorskip("moto.server", reason="pip install s3fs 'moto[server]'").ThreadedMotoServer(
        "127.0.0.1", 0
    )
    server.start()
    host, port = server.get_host_and_port()
    for name, value in (("ACCESS_KEY_ID", "a"), ("SECRET_ACCESS_KEY", "b"), ("ENDPOINT_URL", f"http://{host}:{port}")):
        monkeypatch.setenv(f"AWS_{name}", value)
    fsspec.filesystem("s3", skip_instance_cache=True).mkdir("heart")
    yield "s3://heart/rounds"
    server.stop()


class Sites:
    """Members of one federation in threads, over a shared folder."""

    def __init__(self, home: Path, folder: str, federation: Federation = FEDERATION) -> None:
        self.home, self.folder, self.federation, self.open = home, folder, federation, list[SiteExchange]()

    def site(self, name: str) -> SiteExchange:
        place = self.federation.names.index(name)
        home = self.home / name
        home.mkdir(exist_ok=True)
        log = AuditLog(home / "audit.jsonl", SIGNING[place])
        network = Network("folder", folder=self.folder)
        self.open.append(SiteExchange(self.federation, name, SITE_KEYS[place], network, home, log, lambda text: None))
        return self.open[-1]

    def run(self, *names: str, rounds: int = 4, before: Callable[[int], None] = lambda number: None) -> list[Any]:
        """What each of these sites heard in each round."""

        def one(name: str) -> list[Any]:
            site, place = self.site(name), self.federation.names.index(name)
            site.wait_for_peers()
            heard = []
            for number in range(1, rounds + 1):
                before(number)
                heard.append(site.gather(number, {name: PREDICTIONS[place, number]}).predictions)
            site.finish(10.0)
            return heard

        with ThreadPoolExecutor(len(names)) as pool:
            return [result.result(120) for result in [pool.submit(one, name) for name in names]]

    def events(self, name: str, kind: str) -> list[dict[str, Any]]:
        return [event for event in read_audit(self.home / name / "audit.jsonl") if event["event"] == kind]

    def close(self) -> None:
        for site in self.open:
            site.close()


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Sites]:
    made = Sites(tmp_path, str(tmp_path / "shared"))
    yield made
    made.close()


@pytest.mark.parametrize("where", ["disk", "memory", pytest.param("bucket", marks=pytest.mark.slow)])
def test_sites_hear_each_other_to_the_bit_and_leave_few_files(where: str, tmp_path: Path, request) -> None:
    """The deadline is three hours, and no round waits for it."""
    folder = str(tmp_path / "shared") if where == "disk" else request.getfixturevalue(where)
    sites = Sites(tmp_path, folder)
    for heard in sites.run("a", "b", "c"):
        for number, predictions in enumerate(heard, 1):
            assert list(predictions) == ["a", "b", "c"]
            np.testing.assert_array_equal(np.stack(list(predictions.values())), PREDICTIONS[:, number])
    fs, root = fsspec.url_to_fs(folder)

    def names() -> set[str]:
        return {str(path).rpartition("/rounds/" if where == "bucket" else "/shared/")[2] for path in fs.find(root)}

    files = ("federation", "finished", "status", "receipts-3", "receipts-4", "round-3", "round-4")
    assert names() == {f"1/1/{site}/agent/{file}" for site in "abc" for file in files}
    later = Sites(tmp_path / "later", folder, replace(FEDERATION, epoch=2))
    later.home.mkdir()
    later.site("a")
    assert {name for name in names() if name.startswith("1/1/a/")} == set(), "files of the epoch before"
    assert "1/1/b/agent/round-4" in names(), "those of others"
    later.close()
    sites.close()


def test_what_others_do_to_the_files_is_noticed_or_harmless(sites: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    """All three are needed. Files are swapped, put back, cut, removed, huge, pipes, links, and many."""
    monkeypatch.setattr(folder_carrier, "CHECK", 2.0)
    sites.federation = replace(FEDERATION, quorum=3)
    root = Path(sites.folder) / "1" / "1"

    def spoil(file: Path, kind: int) -> None:
        other = root / ("b" if "/a/" in str(file) else "a") / "agent" / file.name
        if kind == 0 and other.is_file():
            shutil.copy(other, file)
        elif kind == 1:
            file.write_bytes(file.read_bytes()[:-1])
        elif kind == 2:
            file.write_bytes(bytes(8_000_000))
        elif kind in (3, 4, 5):
            file.unlink()
            if kind == 3:
                os.mkfifo(file)
            elif kind == 4:
                file.symlink_to("/dev/zero")
        else:
            shutil.copy(file, file.with_name(f"{file.name}-{kind}"))

    spoiling = Lock()

    def before(number: int) -> None:
        with spoiling:
            for index, file in enumerate(sorted(root.glob("*/agent/*"))):
                names = ("status", "finished", f"round-{number - 1}", f"receipts-{number - 1}")
                if file.is_file() and file.name in names:
                    with suppress(OSError):  # the site was faster
                        spoil(file, (number + index) % 7)

    for heard in sites.run("a", "b", "c", before=before):
        for predictions in heard:
            assert list(predictions) == ["a", "b", "c"]
            for f, sent in zip(predictions.values(), PREDICTIONS, strict=True):
                assert any(np.array_equal(f, own) for own in sent), "nobody's predictions"


def test_a_missing_file_does_not_mean_that_its_site_has_left_the_round(sites: Sites) -> None:
    """Its status says the next round, in which it still has the frame of this one, and will write it again."""
    sites.federation = replace(FEDERATION, quorum=3)
    frame = Path(sites.folder) / "1" / "1" / "b" / "agent" / "round-1"
    one, other = sites.site("a"), sites.site("b")
    sites.site("c").close()
    other._outbox.publish(1, PREDICTIONS[1, 1], {})
    other._session.publish("round", 1)
    other._outbox.publish(2, PREDICTIONS[1, 2], {})
    other._session.publish("round", 2)
    end = time.monotonic() + 20
    while not frame.is_file() or "b" not in one._session.alive:
        assert time.monotonic() < end
        one._inbox.next_event(0.1)
    frame.unlink()
    one._session.ask("b", "round/1", 1)
    time.sleep(1.0)
    seen = [one._inbox.next_event(0.1) for _ in range(10)]
    assert not [event for event in seen if event is not None and event.kind == "ahead"]


def test_an_old_frame_status_or_word_of_the_end_is_not_taken_for_a_new_one(sites: Sites) -> None:
    sites.run("a", "b", "c")
    old = Path(sites.folder) / "1" / "1" / "b" / "agent"
    kept = {file.name: file.read_bytes() for file in old.iterdir()}
    again = Sites(sites.home / "again", str(sites.home / "other"), replace(FEDERATION, epoch=2))
    again.home.mkdir()
    folder = Path(again.folder) / "1" / "2" / "b" / "agent"
    folder.mkdir(parents=True)
    for name, data in kept.items():
        (folder / name).write_bytes(data)
    site, _ = again.site("a"), again.site("c")
    assert site.statuses(3.0, ["b", "c"])["c"].same_run and site._session.alive == {"c"}
    site.finish(1.0)
    assert site._inbox.checked == {"c"} and "b" not in site._outbox.finished and not site._inbox.refused
    again.close()


@pytest.mark.parametrize("link", ["1", "1/1", "1/1/a", "1/1/a/agent"])
def test_a_link_in_the_folder_leads_no_site_to_files_of_its_own(sites: Sites, link: str) -> None:
    """A site removes what is in its folder when it begins; who may write there could make that its home."""
    private = sites.home / "home" / "1/1/a/agent".removeprefix(link).strip("/") / "status"
    private.parent.mkdir(parents=True)
    private.write_text("private")
    place = Path(sites.folder) / link
    place.parent.mkdir(parents=True)
    place.symlink_to(sites.home / "home")
    with pytest.raises(folder_carrier.ConsilienceError, match="leads elsewhere"):
        sites.site("a")
    assert private.read_text() == "private" and [*private.parent.iterdir()] == [private]


def test_who_removes_files_while_a_site_begins_keeps_it_from_nothing(sites: Sites) -> None:
    """The temporary file of each is gone before it can be put into its place, for a while."""
    replace_file, left = Path.replace, [5]

    def spoilt(path: Path, target: Path) -> Path:
        if left[0] and "shared" in str(path):
            left[0] -= 1
            path.unlink()
        return replace_file(path, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", spoilt)
        sites.site("a")
    folder = Path(sites.folder) / "1" / "1" / "a" / "agent"
    assert left == [0] and {file.name for file in folder.iterdir()} == {"federation", "status"}


def test_nobody_is_believed_to_have_finished_because_a_file_says_so(sites: Sites) -> None:
    site = sites.site("a")
    sites.site("b")
    home = Path(sites.folder) / "1" / "1" / "b" / "agent"
    (home / "finished").write_bytes(b"noise")
    site.finish(1.5)
    assert "b" not in site._outbox.finished
    shutil.copy(home / "status", home / "finished")
    site.finish(1.5)
    assert "b" not in site._outbox.finished, "its status is of no last round"


def test_who_renews_no_status_is_gone_after_its_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is done with the old one: put back, or copied."""
    monkeypatch.setattr(folder_carrier, "LEASE", 1.5)
    sites = Sites(tmp_path, str(tmp_path / "shared"), replace(FEDERATION, deadline=1.0))
    site, other = sites.site("a"), sites.site("b")
    status = tmp_path / "shared" / "1" / "1" / "b" / "agent" / "status"
    first = status.read_bytes()
    end = time.monotonic() + 20
    while "b" not in site._session.alive:
        assert time.monotonic() < end
        site._inbox.next_event(0.1)
    other.close()
    last = status.read_bytes()
    while "b" in site._session.alive:
        assert time.monotonic() < end
        site._inbox.next_event(0.1)
        status.write_bytes(first if status.read_bytes() == last else last)
    sites.open.remove(other)
    sites.close()


def test_a_folder_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, folder, why in (
        ("a", str(tmp_path / "file"), "cannot be written to"),
        ("b", "nothing://y", "cannot be opened"),
    ):
        with pytest.raises(folder_carrier.ConsilienceError, match=why):
            Sites(tmp_path, folder).site(name)
