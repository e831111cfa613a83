"""Eight sites read digits while a random one is killed every few seconds, and started again at once: `make chaos`.

Every seed must finish, without a round counted twice, and with an accuracy within a point of the run without faults.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.federation.conftest import Launcher, Trial, lay_out

SITES, ROUNDS, DEADLINE, LONGEST = 8, 40, 20.0, 240.0
PAUSE = "0.25"
"""Seconds that a site trains longer than its small model needs, so that kills hit every phase."""


def run(launcher: Launcher, folder: Path, seed: int | None) -> tuple[float, int]:
    """The mean accuracy on the target after the last round, and how many kills it took; without a seed, none."""
    trial = Trial(launcher, folder, lay_out(folder, SITES, rounds=ROUNDS, deadline=DEADLINE, limit=0))
    for name in trial.names:
        trial.hold(name, "train", PAUSE)
    draw, kills, ended = random.Random(seed), 0, time.monotonic() + LONGEST
    trial.start()
    try:
        following = time.monotonic() + draw.uniform(2, 4)
        while True:
            codes = {name: launcher.codes.get(pid) for name, pid in trial.pids.items()}
            failed = [name for name, code in codes.items() if code not in (None, 0)]
            if failed or time.monotonic() > ended:
                output = "\n".join(trial.output(name)[-600:] for name in (failed or trial.names))
                raise AssertionError(f"{'failed: ' + ', '.join(failed) if failed else 'not finished'}\n{output}")
            running = [name for name, code in codes.items() if code is None]
            if not running:
                break
            if seed is not None and time.monotonic() > following:
                victim = draw.choice(running)
                trial.kill(victim)
                if launcher.codes[trial.pids[victim]] != 0:
                    kills += 1
                    trial.start(victim)
                following = time.monotonic() + draw.uniform(1.0, 3.0)
            time.sleep(0.02)
    finally:
        trial.end()
    trial.check(rounds=ROUNDS)
    if list(folder.glob("*/run/evidence/*")):
        raise AssertionError("an honest site was excluded")
    return sum(float(trial.metrics(name)["accuracy_target"].iloc[-1]) for name in trial.names) / SITES, kills


def main() -> None:
    """Prints one line per seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-19", help="such as 3 or 0-19")
    first, _, last = parser.parse_args().seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    launcher, bad = Launcher(), []
    with tempfile.TemporaryDirectory() as scratch:
        began = time.monotonic()
        calm, _ = run(launcher, Path(scratch) / "calm", None)
        print(f"without faults: accuracy {calm:.4f}, {time.monotonic() - began:.0f} s", flush=True)
        for seed in seeds:
            began = time.monotonic()
            try:
                accuracy, kills = run(launcher, Path(scratch) / f"seed-{seed}", seed)
            except AssertionError as error:
                bad.append(seed)
                print(f"seed {seed}: {error}", flush=True)
                continue
            near = abs(accuracy - calm) <= 0.01
            bad += [] if near else [seed]
            print(
                f"seed {seed}: finished, {kills} kills, accuracy {accuracy:.4f} ({100 * (accuracy - calm):+.2f} points"
                f"{'' if near else ', too far'}), {time.monotonic() - began:.0f} s",
                flush=True,
            )
    launcher.close()
    print(f"{len(seeds) - len(bad)} of {len(seeds)} runs finished within a point of the run without faults")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
