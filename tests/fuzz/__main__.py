"""Feeds damaged inputs to every reader of files and of what peers send: `make fuzz`.

Every reader gets the same time, so that quick ones read most inputs. Checksums are made right again after the damage
where somebody could do that. An input that takes more than a second of processor time counts as a crash. A crash is
kept in tests/fuzz/crashes, where a test reads it again ever after.
"""

import argparse
import faulthandler
import hashlib
import json
import os
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

from tests.fuzz.mutate import mutated
from tests.fuzz.target import Target, accepts, crash_of
from tests.fuzz.targets import MEMORY, with_scratch

CRASHES = Path(__file__).parent / "crashes"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--inputs", type=int, default=10**9, help="stop after so many")
    parser.add_argument("--seed", type=int, default=None, help="default: from the clock; it is printed")
    parser.add_argument("--only", default="", help="targets whose names hold this")
    given = parser.parse_args()
    seed = int(time.time()) if given.seed is None else given.seed
    sys.exit(with_scratch(lambda targets: fuzz(targets, seed, 60 * given.minutes, given.inputs, given.only)))


def fuzz(targets: dict[str, Target], seed: int, seconds: float, most: int, only: str) -> int:
    """How many different crashes there were."""
    warnings.simplefilter("ignore")
    targets = {name: target for name, target in targets.items() if only in name}
    draws = {name: random.Random(f"{seed} {name}") for name in targets}  # a reader's inputs depend on no other reader
    done, spent = Counter[str](), dict.fromkeys(targets, 0.0)
    found = Counter[tuple[str, str]]()
    slowest: dict[str, float] = {}
    faulthandler.enable()
    last = Path(MEMORY if MEMORY.is_dir() else tempfile.gettempdir()) / f"fuzz-{os.getpid()}.input"
    print(f"the last input is in {last}, should the process crash", flush=True)
    print(f"seed {seed}, {len(targets)} targets", flush=True)
    for name, target in targets.items():
        for good in target.good:
            remade = (target.remake(good, draws[name]) for _ in range(20))  # what is drawn may be refused now and then
            assert any(accepts(target, data) for data in remade), f"{name}: a good input is refused"
    began = now = time.monotonic()
    next_word = began + 60
    while now < began + seconds and done.total() < most:
        name = min(spent, key=spent.__getitem__)
        target, draw = targets[name], draws[name]
        data = target.remake(mutated(draw.choice(target.good), draw, target.good), draw)
        done[name] += 1
        last.write_bytes(data)
        error, seconds_taken = crash_of(target, data)
        slowest[name] = max(slowest.get(name, 0.0), seconds_taken)
        if error is not None:
            frames = traceback.extract_tb(error.__traceback__)
            where = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
            kind = name, type(error).__name__ + where
            found[kind] += 1
            if found[kind] == 1:
                keep(name, data, error)
                print(f"crash: {name}: {kind[1]}: {str(error)[:200]}", flush=True)
        before, now = now, time.monotonic()
        spent[name] += now - before
        if now > next_word:
            next_word += 60
            print(f"{done.total()} inputs, {len(found)} kinds of crashes", flush=True)
    took = time.monotonic() - began
    for name, count in sorted(done.items()):
        print(f"  {name}: {count}, the slowest {slowest[name]:.3f} s")
    last.unlink(missing_ok=True)
    total = done.total()
    print(f"{total} inputs in {took:.0f} s ({total / took * 3600:,.0f} an hour), {sum(found.values())} uncaught")
    print(f"the slowest took {max(slowest.values(), default=0.0):.3f} s of processor time")
    return len(found)


def keep(name: str, data: bytes, error: Exception) -> None:
    CRASHES.mkdir(exist_ok=True)
    path = CRASHES / f"{name.split()[0].strip(',')}-{hashlib.sha256(data).hexdigest()[:12]}.json"
    entry = {"target": name, "error": f"{type(error).__name__}: {str(error)[:200]}", "input": data.hex()}
    path.write_text(json.dumps(entry, indent=1) + "\n")


if __name__ == "__main__":
    main()
