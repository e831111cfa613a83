"""Federations of real processes on this machine, and what they leave behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import slowness

HERE = Path(__file__).parent
ROGUE = HERE / "rogue.py"
STRANGER = HERE / "stranger.py"
HOSTILE_RELAY = HERE / "hostile_relay.py"
PATIENCE = 90.0
"""Seconds for anything that should happen; only a failure takes so long."""


class Launcher:
    """Processes with torch and the like loaded; see launcher.py."""

    def __init__(self, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "launcher.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "250"} | environment,
        )
        self._started: SimpleQueue[int] = SimpleQueue()
        self.codes: dict[int, int] = {}
        Thread(target=self._read, daemon=True).start()
        self._started.get(timeout=PATIENCE * slowness())

    def start(
        self,
        log: Path,
        argv: list[str],
        script: Path | None = None,
        network: str = "",
        files: tuple[int, int] | None = None,
        folder: Path | None = None,
    ) -> int:
        """The id of a new process. `files` are the soft and the hard limit of open files."""
        assert self._process.stdin
        order: dict[str, Any] = {"argv": argv, "log": str(log), "script": script and str(script), "network": network}
        order["files"] = files
        order["folder"] = str(folder) if folder else ""
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._started.get(timeout=PATIENCE * slowness())

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            message = json.loads(line)
            if "ended" in message:
                self.codes[message["ended"]] = message["code"]
            else:
                pid = message.get("started", 0)
                self.codes.pop(pid, None)  # of an earlier process with the same number
                self._started.put(pid)


class Trial:
    """Sites of one federation in a folder, and their processes."""

    def __init__(self, launcher: Launcher, folder: Path, sites: dict[str, Path], slow: float = 1.0) -> None:
        self.launcher, self.folder, self.sites, self.slow = launcher, folder, sites, slow
        self.pids: dict[str, int] = {}
        self.network: dict[str, str] = {}
        self.files: tuple[int, int] | None = None
        """The soft and the hard limit of open files of every site."""
        self.relays: list[str] = []
        """Addresses of the relays that the sites dial."""
        self._read: dict[str, tuple[tuple[int, ...], list[dict[str, Any]]]] = {}
        """Audit logs as they were read last, with their size and time then."""

    @property
    def names(self) -> list[str]:
        return list(self.sites)

    def start(self, *names: str, more: tuple[str, ...] = ()) -> None:
        """Starts sites with the command of an operator: all, or those named."""
        for name in names or self.sites:
            argv = ["consilience", "site", "run", "--site", str(self.sites[name]), *more]
            self.pids[name] = self.launcher.start(
                self.log(name),
                argv,
                network=self.network.get(name, ""),
                files=self.files,
                folder=self.sites[name].parent,
            )

    def start_beside(self, name: str, command: str, *more: str) -> str:
        """Starts another command of a site, such as check; the name under which its process is known."""
        other = f"{name}-{command}-{len(self.pids)}"
        argv = ["consilience", "site", command, "--site", str(self.sites[name]), *more]
        self.pids[other] = self.launcher.start(self.log(other), argv, network=self.network.get(name, ""))
        return other

    def start_script(self, name: str, script: Path, *argv: str) -> None:
        """Starts another program in the place of a site."""
        self.pids[name] = self.launcher.start(
            self.log(name), [str(script), *argv], script=script, network=self.network.get(name, "")
        )

    def dial(self, *relays: str) -> None:
        """Makes the sites dial relays at these addresses, from now on."""
        from consilience.federation.membership import write_site
        from consilience.federation.site import read_site

        self.relays = list(relays)
        for path in self.sites.values():
            write_site(path, replace(read_site(path), relay=relays))

    def start_relay(self, number: int = 0) -> str:
        """Starts one of the relays; the name of its process, when it listens."""
        name, ca = f"relay-{number}", str(self.folder / "trial-ca")
        before = self.output(name).count("listening")
        argv = ["consilience", "relay", "--listen", self.relays[number], "--trial-ca", ca]
        argv += ["--allow", str(self.folder / "federation.toml")]
        self.pids[name] = self.launcher.start(self.log(name), argv, network=self.network.get("relay", ""))
        self.until(lambda: self.output(name).count("listening") > before, f"{name} listening")
        return name

    def start_hostile_relay(self, mode: str, host: str = "127.0.0.1", after: tuple[str, ...] = ()) -> Path:
        """Starts a relay that does what it likes, which the sites dial (after other ones); what it writes down."""
        from consilience.federation.membership import write_site
        from consilience.federation.peers.ports import SITE_PORTS, free_ports
        from consilience.federation.site import read_site

        self.network["hostile-relay"] = self.network.get("relay", "")
        pairs, seen = list[str](), self.folder / "seen"
        for (name, path), port in zip(self.sites.items(), free_ports(len(self.sites), SITE_PORTS), strict=True):
            pairs.append(f"{name}={host}:{port}")
            write_site(path, replace(read_site(path), relay=(*after, f"{host}:{port}")))
        file, ca = self.folder / "federation.toml", self.folder / "trial-ca"
        self.start_script("hostile-relay", HOSTILE_RELAY, str(file), str(ca), str(seen), mode, *pairs)
        self.until_said("hostile-relay", "ready")
        return seen

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Sends a signal; after SIGKILL the process is gone when this returns."""
        try:
            os.kill(self.pids[name], number)
        except ProcessLookupError:
            raise ProcessLookupError(f"{name} had ended before:\n{self.output(name)}") from None
        if number == signal.SIGKILL:
            self.code(name)

    def code(self, name: str) -> int:
        """The exit code of a site, when it has ended."""
        pid = self.pids[name]
        self.until(lambda: pid in self.launcher.codes, f"the end of {name}")
        return self.launcher.codes[pid]

    def finish(self, *names: str) -> None:
        """Waits until sites (all, or those named) have come to a good end."""
        for name in names or self.sites:
            assert self.code(name) == 0, f"{name} failed:\n{self.output(name)}"

    def end(self) -> None:
        """Kills whatever still runs."""
        for pid in self.pids.values():
            if pid not in self.launcher.codes:
                os.kill(pid, signal.SIGKILL)

    def until(self, true: Callable[[], Any], what: str, seconds: float = PATIENCE) -> None:
        """Waits for something to be true."""
        end = time.monotonic() + seconds * self.slow
        while not true():
            if time.monotonic() > end:
                logs = "\n\n".join(f"--- {name}\n{self.output(name)}" for name in self.sites)
                raise AssertionError(f"not seen: {what}\n{logs}")
            time.sleep(0.05)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def output(self, name: str) -> str:
        """What a site has said so far, in all its processes."""
        return self.log(name).read_text() if self.log(name).exists() else ""

    def events(self, name: str, kind: str = "") -> list[dict[str, Any]]:
        """A site's audit log so far."""
        from consilience.federation.peers.audit import read_audit

        path = self.sites[name].parent / "run" / "audit.jsonl"
        if not path.exists():
            return []
        found = path.stat()
        state = found.st_size, found.st_mtime_ns
        if self._read.get(name, ((), []))[0] != state:
            self._read[name] = state, read_audit(path)
        return [event for event in self._read[name][1] if kind in ("", event["event"])]

    def until_event(self, name: str, kind: str, **facts: Any) -> None:
        """Waits for an entry in a site's audit log."""

        def there() -> bool:
            return any(facts.items() <= event.items() for event in self.events(name, kind))

        self.until(there, f"{kind} {facts} in the log of {name}")

    def until_said(self, name: str, words: str) -> None:
        """Waits for words of a site."""
        self.until(lambda: words in self.output(name), f"{words!r} of {name}")

    def hold(self, name: str, phase: str, seconds: str = "") -> None:
        """Makes a site stop in a phase of a round, for so many seconds or until it is let go."""
        (self.sites[name].parent / "hold").mkdir(exist_ok=True)
        (self.sites[name].parent / "hold" / phase).write_text(str(float(seconds) * self.slow) if seconds else "")

    def sleep(self, seconds: float) -> None:
        """Waits so long, as time goes on this machine now."""
        time.sleep(seconds * self.slow)

    def spread(self, places: list[str]) -> None:
        """Gives every site one of the network namespaces 10.199.0.1, .2, ..., and a certificate for it."""
        from consilience.federation.peers.keys import issue_certificate

        text = (self.folder / "federation.toml").read_text()
        for number, (name, place) in enumerate(zip(self.names, places, strict=True), 1):
            before = tomllib.loads((self.sites[name].parent / "member.toml").read_text())["address"]
            text = text.replace(f'"{before}"', f'"10.199.0.{number}:7447"')
            folder = self.sites[name].parent / "keys"
            for old in ("tls.key", "tls.crt"):
                (folder / old).unlink()
            issue_certificate(self.folder / "trial-ca", folder, name, f"10.199.0.{number}")
            self.network[name] = place
        (self.folder / "federation.toml").write_text(text)
        sign(self.folder / "federation.toml", *self.sites.values())

    def until_held(self, name: str, phase: str) -> None:
        self.until((self.sites[name].parent / "at" / phase).exists, f"{name} in {phase}")

    def release(self, name: str, phase: str) -> None:
        (self.sites[name].parent / "hold" / phase).unlink()

    def metrics(self, name: str) -> Any:
        """A finished site's table."""
        from consilience.runtime.run import load_run

        return load_run(self.sites[name].parent / "run").metrics

    def check(self, *whole: str, rounds: int) -> None:
        """No round counted twice, logs whole; those named in `whole` took part in every round."""
        from consilience.federation.peers.audit import broken_at

        for name in self.sites:
            run = self.sites[name].parent / "run"
            if not (run / "summary.json").is_file():
                continue
            found = self.metrics(name)["round"].tolist()
            assert found == sorted(set(found)) and found[-1] == rounds, (name, found)
            if name in whole:
                assert found == list(range(1, rounds + 1)), (name, found)
            assert broken_at(run / "audit.jsonl") is None


def lay_out(
    folder: Path,
    agents: int,
    rounds: int = 6,
    deadline: float = 4.0,
    quorum: int | None = None,
    limit: int = 40,
    start_wait: float | None = None,
    carrier: str = "direct",
) -> dict[str, Path]:
    """Sites that read digits, each with little data; their agent is that of agent.py. `Trial.dial` names relays."""
    from consilience.federation import demo as trial
    from consilience.federation.membership import write_site
    from consilience.federation.site import read_site
    from consilience.settings.presets import read_settings
    from consilience.settings.wiring import build_scenario

    changes = {"agents.count": agents, "models": ["logistic"], "low_quality": [], "rounds": rounds, "warmup": 1}
    settings = read_settings("digits", changes | {"limit": limit, "shared_per_agent": 12})
    scenario, wait = build_scenario(settings), start_wait or deadline
    entries = trial.entries_of(carrier, "127.0.0.1:1")
    sites = trial.lay_out(settings, scenario, folder, deadline, quorum, wait, entries)
    for path in sites.values():
        shutil.copy(HERE / "agent.py", path.parent / "agent.py")
        write_site(path, replace(read_site(path), python="agent.py", model="", data="", test="", baseline=False))
    return sites


def sign(file: Path, *sites: Path) -> None:
    """Sites sign a federation file, in place of signatures of something else."""
    from consilience.federation.membership import sign_federation

    for site in sites:
        sign_federation(file, site)


def signed(trial: Trial, revoked: str, signers: Iterable[str]) -> Any:
    """A change of the federation file that revokes a member, signed by others."""
    from consilience.federation.peers.change import Change
    from consilience.federation.peers.keys import read_signing_key
    from consilience.federation.peers.untrusted_input import read_federation

    agreed = read_federation(trial.folder / "federation.toml")
    change = Change(agreed.identity().hex(), (revoked,), (), {})
    for name in signers:
        change = change.with_signature(
            agreed, name, read_signing_key(trial.sites[name].parent / "keys" / "signing.key")
        )
    return change


def give(trial: Trial, change: Any, sites: Iterable[str]) -> None:
    """Puts a change beside the site.toml of sites."""
    from consilience.base.files import write_atomically

    for name in sites:
        write_atomically(trial.sites[name].parent / "change.toml", change.to_toml().encode())


def memory(pid: int) -> float:
    """Megabytes that a process holds."""
    fields = Path(f"/proc/{pid}/status").read_text().split("\n")
    return int(next(line for line in fields if line.startswith("VmRSS")).split()[1]) / 1000


def addresses_of(trial, names) -> list[str]:
    return [tomllib.loads((trial.sites[name].parent / "member.toml").read_text())["address"] for name in names]


@pytest.fixture(scope="session", autouse=True)
def own_ports() -> Iterator[None]:
    """Sites of this process have ports of their own: an address may be in nobody's use, and yet be meant for a site."""
    from consilience.federation.peers import ports

    everyone = ports.SITE_PORTS
    share, place = len(everyone) // 16, int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 16
    ports.SITE_PORTS = everyone[place * share : (place + 1) * share]
    yield
    ports.SITE_PORTS = everyone


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    pytest.importorskip("zenoh")
    started = Launcher()
    yield started
    started.close()


@pytest.fixture
def federate(launcher: Launcher, tmp_path: Path) -> Iterator[Callable[..., Trial]]:
    """Makes a federation of so many sites; what is left of it is killed after the test."""
    trials: list[Trial] = []

    def make(agents: int, slow: float | None = None, **options: Any) -> Trial:
        folder, slow = tmp_path / f"trial-{len(trials)}", slow or slowness()
        options["deadline"] = options.get("deadline", 4.0) * slow
        options["start_wait"] = options.get("start_wait", options["deadline"] / slow) * slow
        trials.append(Trial(launcher, folder, lay_out(folder, agents, **options), slow))
        return trials[-1]

    yield make
    for trial in trials:
        trial.end()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site with a forest on a CSV file, in a federation of three."""
    from consilience.federation.membership import make_keys, new_federation

    draw = np.random.default_rng(0)
    for number, name in enumerate(("a", "b", "c")):
        make_keys(tmp_path / name, name, f"127.0.0.1:{7000 + number}", tmp_path / "ca")
    table = pd.DataFrame(draw.normal(3, 2, (40, 2)), columns=["age", "pressure"])
    folder = tmp_path / "a"
    table.iloc[:15].to_csv(folder / "shared.csv", index=False)
    table.iloc[15:].assign(label=np.arange(25) % 2).to_csv(folder / "patients.csv", index=False)
    members = [tmp_path / name / "member.toml" for name in "abc"]
    agreed = new_federation("t", folder / "shared.csv", ["healthy", "ill"], members, {"rounds": 4}, 5.0)
    (folder / "federation.toml").write_text(agreed.to_toml())
    path = folder / "site.toml"
    sign(folder / "federation.toml", path, tmp_path / "b" / "site.toml")
    assert 'shared = "shared.csv"' in path.read_text(), "the name that the documents use"
    return path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
