"""Seven sites, one of them hostile, while processes, links and clocks fail at random: `make chaos`.

They reach each other directly, through two relays, which fail as well and of which one may be hostile, or through a
folder whose files somebody damages. For every seed, after all faults have ended, each honest site must end with a
summary, and the audit logs must show a history in which nothing happened that must never happen (history.py).
Partitions and slow links need root, clocks that jump a C compiler; what is missing is left out, and said.
"""

import argparse
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from consilience.base.errors import ConsilienceError
from consilience.export.manifest import FILE
from consilience.federation.membership import write_site
from consilience.federation.networks import RELAY, star
from consilience.federation.peers.change import Change
from consilience.federation.peers.network import CARRIERS
from consilience.federation.peers.ports import free_addresses
from consilience.federation.site import read_site
from tests.conftest import namespaces, root, slowness
from tests.federation.conftest import Launcher, Trial, give, lay_out, signed
from tests.federation.history import problems

HERE = Path(__file__).parent
SITES, ROUNDS, DEADLINE, START, LONGEST, STORM = 7, 10, 3.0, 12.0, 150.0, 13.0
PAUSE = "0.25"
"""Seconds that a site trains longer than its small model needs, so that faults hit every phase."""
ATTACKS = ["frames", "processor", "revocation", "answering"]
"""What the hostile member does besides: nothing, federation texts that take long to read; it comes back after it was
revoked; it puts questions that no model can take. One of them for each seed, in turn."""
RELAYS = ["replay", "reorder", "mix", "withhold", "presence", "garble"]
"""What the second relay does in every other seed."""
HOSTILE = ["good", "equivocation", "silent", "random", "stale", "fuzz", "ahead", "garbled", "nan", "huge", "replayed"]


class Chaos:
    """The faults of one seed."""

    def __init__(self, trial: Trial, seed: int, carrier: str) -> None:
        self.trial, self.carrier, self.draw = trial, carrier, random.Random(f"{carrier} {seed}")
        self.rogue, *self.honest = trial.names
        self.kinds = ["kill", "kill"]
        self.switch = ""
        """The network namespace to which all sites have a cable; empty without root."""
        self.relays: list[str] = []
        """Processes of relays that can fail, and do not just now."""
        self.before_start: dict[str, int] = {}
        """Lines in the log of a site when it was started last."""
        self.done: Counter[str] = Counter()
        self.heal: list[tuple[float, Callable[[], None]]] = []
        """What ends a fault, and when."""
        self.change: Change | None = None
        """A revocation of the hostile member, and who does not have it yet."""
        self.without_change: list[str] = []

    def connect(self, stack: ExitStack, seed: int, clocks: bool) -> None:
        """Lays cables, starts relays or makes the folder; from then on the faults are known."""
        trial = self.trial
        if self.carrier == "direct":
            with suppress(pytest.skip.Exception):
                self.switch, *places = stack.enter_context(namespaces())(SITES)
                trial.spread(places)
        elif self.carrier == "relay":
            with suppress(ConsilienceError):
                trial.network = stack.enter_context(star(trial.names))
                trial.network["relay"] = self.switch = trial.network.pop("")
            host = RELAY if self.switch else "127.0.0.1"
            addresses = [f"{host}:7447", f"{host}:7448"] if self.switch else free_addresses(2)
            trial.dial(*addresses)
            self.relays = [trial.start_relay(0)]
            if seed % 2:
                mode = RELAYS[seed // 2 % len(RELAYS)]
                trial.start_hostile_relay(mode, host, after=(addresses[0],))
                self.done[f"relay that does {mode}"] = 1
            else:
                self.relays.append(trial.start_relay(1))
            self.kinds += ["relay killed", "relay stopped"]
        else:
            (trial.folder / "exchange").mkdir()
            for name, path in trial.sites.items():
                link = trial.folder / f"exchange-of-{name}"
                link.symlink_to(trial.folder / "exchange")
                write_site(path, replace(read_site(path), folder=f"file://{link}"))
            self.kinds.append("folder away")
        self.kinds += ["partition", "slow"] * bool(self.switch) + ["clock"] * clocks

    def running(self) -> list[str]:
        """Honest sites that have not ended."""
        return [name for name in self.honest if self.trial.pids[name] not in self.trial.launcher.codes]

    def unfinished(self) -> list[str]:
        """Honest sites that have no summary, or no model to answer with, yet."""
        runs = {name: self.trial.sites[name].parent / "run" for name in self.honest}
        last = ("summary.json", f"model/{FILE}")
        return [name for name, run in runs.items() if not all((run / path).is_file() for path in last)]

    def strike(self) -> None:
        """One fault, drawn at random."""
        kind, victim = self.draw.choice(self.kinds), self.draw.choice(self.running())
        port, seconds = f"port{1 + self.trial.names.index(victim)}", self.draw.uniform(1, 5)
        if kind == "kill":
            link = self.trial.folder / f"exchange-of-{victim}"
            if self.carrier == "folder" and not link.exists():
                return  # it would rightly say that there is no folder, and end
            with suppress(ProcessLookupError):
                self.trial.kill(victim)
            if self.trial.code(victim) == 0:
                return  # it had just ended
            self.before_start[victim] = len(self.trial.events(victim))
            self.trial.start(victim, more=("--serve",))
        elif kind == "partition" and self.carrier == "relay":
            root(f"ip -n {self.switch} link set {port} down")
            self._later(seconds, f"ip -n {self.switch} link set {port} up")
        elif kind == "partition":
            root(f"ip -n {self.switch} link set {port} nomaster")
            self._later(seconds, f"ip -n {self.switch} link set {port} master bridge")
        elif kind == "slow":
            root(f"tc -n {self.switch} qdisc replace dev {port} root tbf rate 200kbit burst 8kbit latency 500ms")
            self._later(seconds, f"tc -n {self.switch} qdisc replace dev {port} root pfifo limit 1000")
        elif kind == "folder away":
            if len(self.trial.events(victim)) < self.before_start.get(victim, 0) + 2:
                return  # it begins, and would rightly say that there is no folder, and end
            link = self.trial.folder / f"exchange-of-{victim}"
            self._point(link, "nowhere")
            self.heal.append((time.monotonic() + seconds, lambda: self._point(link, "exchange")))
        elif kind == "clock":
            near = self.carrier == "folder"  # where a clock that goes back makes a site look absent for as long
            offset = self.draw.choice((-5, -2, 2, 5) if near else (-240, -60, 60, 3600))
            (self.trial.sites[victim].parent / "clock.rc").write_text(f"{offset}\n")
        elif self.relays:
            self._stop_relay(kind, self.draw.choice(self.relays), seconds)
        else:
            return
        self.done[kind] += 1

    def _stop_relay(self, kind: str, relay: str, seconds: float) -> None:
        """Kills a relay or stops it, for a while."""
        self.relays.remove(relay)
        self.trial.kill(relay, signal.SIGKILL if kind == "relay killed" else signal.SIGSTOP)

        def heal() -> None:
            if kind == "relay killed":
                self.trial.start_relay(int(relay[-1]))
            else:
                self.trial.kill(relay, signal.SIGCONT)
            self.relays.append(relay)

        self.heal.append((time.monotonic() + seconds, heal))

    @staticmethod
    def _point(link: Path, target: str) -> None:
        other = link.with_name(f"{link.name}-next")
        other.symlink_to(link.with_name(target))
        other.replace(link)

    def revoke(self) -> None:
        """A quorum revokes the hostile member; the sites get the signed change one after another."""
        if self.change is None:
            self.change = signed(self.trial, self.rogue, self.honest)
            self.without_change = self.draw.sample(self.honest, len(self.honest))
        elif self.without_change:
            give(self.trial, self.change, [self.without_change.pop()])

    def _later(self, seconds: float, command: str) -> None:
        self.heal.append((time.monotonic() + seconds, lambda: root(command)))

    def mend(self, all_of_it: bool = False) -> None:
        """Ends the faults whose time has come."""
        due = [fault for fault in self.heal if all_of_it or fault[0] < time.monotonic()]
        self.heal = [fault for fault in self.heal if fault not in due]
        for _, end in due:
            end()


def run(launcher: Launcher, folder: Path, seed: int, clocks: bool, carrier: str) -> str:
    """What happened, in a line; an AssertionError if it must not."""
    slow = min(slowness(), 2 * busy())
    with ExitStack() as stack:
        times = {"deadline": DEADLINE * slow, "start_wait": START * slow}
        sites = lay_out(folder, SITES, rounds=ROUNDS, limit=60, carrier=carrier, **times)
        trial = Trial(launcher, folder, sites, slow)
        chaos = Chaos(trial, seed, carrier)
        stack.callback(trial.end)
        chaos.connect(stack, seed, clocks)
        for name in chaos.honest:
            trial.hold(name, "train", PAUSE)
        modes = [chaos.draw.choice(HOSTILE) for _ in range(ROUNDS)]
        attack = ATTACKS[seed % len(ATTACKS)]
        if carrier == "folder":
            attack = "revocation" if attack == "revocation" else "frames"
            trial.start_script(
                chaos.rogue, HERE / "hostile_folder.py", str(sites[chaos.rogue]), f"{folder}/exchange", *modes
            )
        else:
            if attack == "processor":
                modes = ["text=" + chaos.draw.choice(["dots998", "dots998new", "fieldsnew"])]
            comes_back = ["return:2"] * (attack in ("processor", "revocation"))
            trial.start_script(chaos.rogue, HERE / "rogue.py", str(sites[chaos.rogue]), *modes, *comes_back)
        trial.start(*chaos.honest, more=("--serve",))
        _storm(chaos, slow, attack)
        if attack in ("revocation", "answering") and carrier != "folder":
            _ask_and_answer(chaos, attack)
        found = problems({name: path.parent / "run" for name, path in trial.sites.items()}, chaos.honest)
        assert not found, "; ".join(found)
        ended = [float(trial.metrics(name)["accuracy_target"].iloc[-1]) for name in chaos.honest]
        whole = sum(len(trial.events(name, "round")) for name in chaos.honest)
        faults = ", ".join(f"{count} {kind}" for kind, count in sorted(chaos.done.items()))
        caught = "caught" if any(trial.events(name, "excluded") for name in chaos.honest) else "not caught"
        accuracy = sum(ended) / len(ended)
        return f"{attack}; {faults}; liar {caught}; {whole} rounds closed, accuracy {accuracy:.3f}, load x{slow:.1f}"


def _ask_and_answer(chaos: Chaos, attack: str) -> None:
    """All but one of the honest sites answer questions, and the hostile member puts its own; then the one asks."""
    trial, (asking, *answering) = chaos.trial, chaos.honest
    with suppress(ProcessLookupError):
        trial.kill(chaos.rogue)
    processes = [trial.start_beside(name, "answer") for name in answering]
    for process in processes:
        trial.until_said(process, "answering with the model of round")
    trial.log(chaos.rogue).unlink()
    trial.start_script(chaos.rogue, HERE / "rogue.py", str(trial.sites[chaos.rogue]), "good", "answers", "ask")
    trial.until(lambda: "\nasked\n" in trial.output(chaos.rogue), "the questions of the hostile member")
    prepared = trial.sites[asking].parent
    more = ["--collective", "--out", str(prepared / "predictions.csv")]
    asked = trial.start_beside(asking, "predict", str(trial.folder / "shared.npz"), *more)
    assert trial.code(asked) == 0, trial.output(asked)
    heard = {
        name for name in trial.names if f"part_{name}" in (prepared / "predictions.csv").read_text().split("\n")[0]
    }
    assert heard == set(chaos.honest), f"{sorted(heard)} predicted together:\n{trial.output(asked)}"
    ended = [process for process in processes if trial.pids[process] in trial.launcher.codes]
    assert not ended, f"{ended} ended:\n" + "\n".join(map(trial.output, ended))
    output = trial.output(chaos.rogue)
    if attack == "revocation":
        assert "answered by" not in output and "was asked" not in output, f"it was revoked, and\n{output}"
    else:
        assert all(f"answered by {name}" in output for name in answering), output


def _storm(chaos: Chaos, slow: float, attack: str) -> None:
    """Faults, until the honest sites have finished; after the storm there are none.

    All serve whoever comes late; when the last has finished they are told to end.
    """
    trial, began, pace = chaos.trial, time.monotonic(), min(3.0, slow)  # else a busy machine would see few faults
    following = began + 1
    while chaos.unfinished():
        now = time.monotonic()
        codes = {name: trial.launcher.codes.get(trial.pids[name]) for name in chaos.honest}
        failed = [name for name, code in codes.items() if code not in (None, 0)]
        late = now > began + LONGEST * slow
        if failed or late:
            words = "\n".join(f"--- {name}\n{trial.output(name)[-1200:]}" for name in (failed or chaos.unfinished()))
            raise AssertionError(
                f"{f'failed: { ({name: codes[name] for name in failed}) }' if failed else 'not finished'}\n{words}"
            )
        calm = now > began + STORM * pace
        chaos.mend(all_of_it=calm)
        if attack == "revocation" and (chaos.change or any(trial.events(name, "round") for name in chaos.honest)):
            chaos.revoke()
        if now > following and not calm:
            chaos.strike()
            following = now + chaos.draw.uniform(0.7, 1.9) * pace
        time.sleep(0.05)
    chaos.mend(all_of_it=True)
    assert trial.pids[chaos.rogue] not in trial.launcher.codes, f"the hostile member:\n{trial.output(chaos.rogue)}"
    if attack == "revocation":
        for name in chaos.honest:
            trial.until_event(name, "revoked", agent=chaos.rogue)
    for name in chaos.running():
        with suppress(ProcessLookupError):  # it has just ended
            trial.kill(name, signal.SIGTERM)
    ended = {name: trial.code(name) for name in chaos.honest}
    assert set(ended.values()) <= {0, 130}, ended
    assert not chaos.unfinished()


def busy() -> float:
    """How many times longer than alone a computation takes now.

    The load says it as well, but late, and not for processes that come before others.
    """
    began, worked = time.monotonic(), time.process_time()
    while time.process_time() < worked + 0.2:
        pass
    return max(1.0, (time.monotonic() - began) / (time.process_time() - worked))


def clock_library(folder: Path) -> Path | None:
    """A library that lets the clock of a process jump, if it can be made here."""
    library = folder / "clock.so"
    if sys.platform != "linux" or shutil.which("cc") is None:
        return None
    command = ["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(HERE / "clock.c"), "-ldl"]
    return library if subprocess.run(command).returncode == 0 else None


_launcher: Launcher
"""Of this process, which goes through some of the seeds."""


def begin(library: Path | None) -> None:
    """Starts the launcher of a process; it ends with it."""
    global _launcher
    _launcher = Launcher(**({"LD_PRELOAD": str(library)} if library else {}))


def _odd_files(folder: str, names: list[str]) -> list[str]:
    """Pipes, which the hostile member puts into the shared folder."""
    return [name for name in names if stat.S_ISFIFO((Path(folder) / name).lstat().st_mode)]


def try_seed(scratch: Path, seed: int, clocks: bool, carrier: str) -> tuple[bool, str]:
    """Whether all was well with a seed, and what happened."""
    began, folder = time.monotonic(), scratch / f"{carrier}-{seed}"
    try:
        good, words = True, run(_launcher, folder, seed, clocks, carrier)
    except Exception as error:
        kept = Path(tempfile.mkdtemp(prefix=f"chaos-{carrier}-{seed}-"))
        shutil.copytree(folder, kept, symlinks=True, ignore=_odd_files, dirs_exist_ok=True)
        good, words = False, f"BAD (its folder is kept: {kept}): {type(error).__name__}: {error}"
    shutil.rmtree(folder, ignore_errors=True)
    return good, f"{carrier} {seed}: {words}; {time.monotonic() - began:.0f} s"


def main() -> None:
    """Prints one line per seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-49", help="such as 3 or 0-49")
    parser.add_argument(
        "--at-once", type=int, default=4, help="seeds that are gone through side by side: they wait most of the time"
    )
    parser.add_argument("--carrier", choices=CARRIERS, action="append", help="default: each of them, with all seeds")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    carriers = given.carrier or CARRIERS
    seeds = [(seed, carrier) for seed in range(int(first), int(last or first) + 1) for carrier in carriers]
    good = 0
    with tempfile.TemporaryDirectory() as scratch:
        library = clock_library(Path(scratch))
        if os.geteuid() or not library:
            print("without partitions and slow links" * bool(os.geteuid()), "without clocks that jump" * (not library))
        with ProcessPoolExecutor(given.at_once, initializer=begin, initargs=(library,)) as pool:
            tried = [
                pool.submit(try_seed, Path(scratch), seed, library is not None, carrier) for seed, carrier in seeds
            ]
            for future in as_completed(tried):
                passed, words = future.result()
                good += passed
                print(words, flush=True)
    print(f"{good} of {len(seeds)} seeds passed")
    sys.exit(good < len(seeds))


if __name__ == "__main__":
    main()
