"""Do two checkouts give the same numbers, to the bit? Run by hand, before and after a change that must not move any.

    python tests/same_numbers.py OLD_CHECKOUT NEW_CHECKOUT --data-dir DATA

Both run with the interpreter that runs this script: every preset with every method that fits it, options away from
their defaults, and `reproduce` at smoke scale. Of every run each column of metrics.parquet that both have and every
array of trust.npz is compared, and of the reproduction every CSV file. With one checkout its hashes are only kept:
`--keep FOLDER` keeps runs and hashes, and what is finished there is not run again; `--only digits` takes the cases
whose names begin with that.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

CONSENSUS = "paper,static,every-2,naive,alone"
SERVER = "fedavg,fedprox,scaffold,feddyn"
SHARING = "fedmd,ds-fl,fedct,cronus,fd"
SHORT = ["--set", "rounds=6", "--set", "warmup=2"]
ENTROPY = ["--set", "method.trust=entropy"]
NAIVE = ["--set", 'references=["naive"]']
ALONE = ["--set", 'references=["alone"]']
SPARSE = ["--set", "method.listening=sparse", "--set", "peers=2", "--set", "random_peers=1"]
EXACT = ["--set", 'models=["linear"]', "--set", "solver=exact", "--set", "duals=1.0"]
LIARS = ["--set", "attackers=[1]", "--set", "attack=echo-each"]
ONE_BY_ONE = ["--set", "batched=false"]
"""Small networks train one after another: in batches their numbers are equal up to rounding alone."""
PARTS = {
    "default": [],
    "static": ["--set", "method=static"],
    "sparse": SPARSE,
    "sparse-static": ["--set", "method=static", *SPARSE],
    "duals": EXACT,
    "apart": ["--set", "method.learning=sequential", *ONE_BY_ONE],
    "prior": ["--set", "prior=even"],
    "kt-pfl": ["--set", "method=kt-pfl", *ONE_BY_ONE],
    "victims": LIARS,
    "victims-sparse": [*LIARS, *SPARSE],
    "victims-kt-pfl": [*LIARS, "--set", "method=kt-pfl", *ONE_BY_ONE],
    "victims-fedmd": [*LIARS, "--set", "method=fedmd", *ONE_BY_ONE],
    "warm-batch-norm": ["--set", "warmup_shared=true", "--set", 'models=["convnet"]', "--set", "agents.count=4"],
    "several-labels": ["--set", "dataset=digit-properties", "--set", "partition=iid", "--set", 'models=["mlp"]'],
}
"""Variants of the consensus loop, each run on one worker and on two."""
TABLES = [f"table1-{name}" for name in ("cifar10", "cifar100", "fed-isic2019")]
FIGURES = ["fig1", "fig2", "fig3", "fig4", "fig5", "fig6-epochs", "fig6-rounds", "figA1"]
ARTEFACTS = [*TABLES, *FIGURES, "lambda", "communication", "theory"]

CASES: dict[str, list[list[str]]] = {
    **{f"run-{name}": [["run", name]] for name in ("digits", "digits-mlp", "breast-cancer", "hospitals", "polynomial")},
    "digits": [["compare", "digits", "--methods", CONSENSUS, "--seeds", "0"]],
    "digits-mlp": [["compare", "digits-mlp", "--methods", f"{CONSENSUS},{SERVER}", "--seeds", "0", *ONE_BY_ONE]],
    "digits-sharing": [["compare", "digits", "--methods", SHARING, "--seeds", "0", *ONE_BY_ONE]],
    "digits-mlp-sharing": [
        ["compare", "digits-mlp", "--methods", f"{SHARING},feddf", "--seeds", "0", *ONE_BY_ONE],
    ],
    "breast-cancer": [["compare", "breast-cancer", "--methods", CONSENSUS, "--seeds", "0"]],
    "hospitals": [["compare", "hospitals", "--methods", CONSENSUS, "--seeds", "0"]],
    "polynomial": [["compare", "polynomial", "--methods", CONSENSUS, "--seeds", "0"]],
    "cosine": [["run", *SHORT, "--set", "method.trust=cosine"], ["run", *SHORT, "--set", "similarity=cosine"]],
    "offset": [
        ["run", *SHORT, *ENTROPY, "--set", "method.trust.offset=0", "--set", "method.trust.floor=0.1"],
        ["run", *SHORT, "--set", "entropy_offset=0", "--set", "entropy_floor=0.1"],
    ],
    "majority": [
        ["run", *SHORT, *ALONE, "--set", "method.trust=vote"],
        ["run", *SHORT, *ALONE, "--set", "labels=majority"],
    ],
    "float16-naive": [
        ["run", *SHORT, *NAIVE, "--set", "method.wire.form=float16"],
        ["run", *SHORT, *NAIVE, "--set", "wire=float16"],
    ],
    "top-2-naive": [
        ["run", *SHORT, *NAIVE, "--set", "method.wire.form=top-k", "--set", "method.wire.top=2"],
        ["run", *SHORT, *NAIVE, "--set", "wire=top-k", "--set", "wire_top=2"],
    ],
    "unbatched": [["run", "digits-mlp", *SHORT, "--set", "batched=false"]],
    "two-workers": [["run", "digits", *SHORT, "--set", "references=[]", "--workers", "2"]],
    **{
        f"{name}-{workers}": [["run", "digits-mlp", *SHORT, "--set", "references=[]", *part, "--workers", str(workers)]]
        for name, part in PARTS.items()
        for workers in (1, 2)
    },
    "four-sites": [["federation", "demo"]],
    **{f"reproduce-{name}": [["reproduce", name, "--scale", "smoke", "--seeds", "0"]] for name in ARTEFACTS},
}
"""Command lines; the second spelling is that of checkouts before settings had tables."""
BEFORE = {
    "federation demo": "federation try",
    "--methods paper,": "--methods dynamic,",
    "method.learning=sequential": "phases=apart",
    "method.listening=sparse --set peers=2": "method.peers=2",
    "method.trust=vote": "labels=majority",
}
"""What the same was called in checkouts before the consensus loop had parts."""


RENAMED = {"spread": "disagreement_all"}
"""Columns that once had another name."""
METHODS = {"dynamic": "paper"}
"""Methods that once had another name, which is a part of the names of folders and of rows in tables."""


def run_cases(checkouts: dict[Path, Path], data_dir: Path | None, only: str) -> None:
    """Runs every case that is not finished on each checkout, into its folder."""
    for name, spellings in CASES.items():
        for checkout, folder in checkouts.items() if name.startswith(only) else ():
            folder.mkdir(parents=True, exist_ok=True)
            out = folder / ("reproduce" if name.startswith("reproduce-") else name)
            stamp = folder / f"{name}.done"
            if not stamp.exists():
                print(f"{checkout}: {name}", flush=True)
                stamp.write_text(run(checkout, spellings, out, data_dir))
            if stamp.read_text() != "done":
                print(f"  left out: {stamp.read_text()}", flush=True)


def numbers(folder: Path) -> dict[str, str]:
    """The hash of every column and array of the runs in a folder."""
    hashes: dict[str, str] = {}
    for path in sorted(folder.rglob("metrics.parquet")):
        where = named_now(path.parent.relative_to(folder))
        for column, values in pd.read_parquet(path).items():
            hashes[f"{where}: {RENAMED.get(str(column), column)}"] = digest(values.to_numpy())
    for path in sorted(folder.rglob("trust.npz")):
        with np.load(path) as arrays:
            hashes |= {
                f"{named_now(path.relative_to(folder))}: {key}": digest(arrays[key])
                for key in arrays
                if arrays[key].size
            }
    for path in sorted((folder / "reproduce").rglob("*.csv")):
        text = path.read_text()
        for before, now in METHODS.items():
            text = re.sub(rf"\b{before}\b", now, text)
        rows = "\n".join(sorted(text.splitlines()))  # which are in the order of names
        hashes[named_now(path.relative_to(folder))] = hashlib.sha256(rows.encode()).hexdigest()
    return hashes


def named_now(path: Path) -> str:
    """A path in which methods have the names that they have now."""
    return "/".join(METHODS.get(part, part) for part in path.parts)


def run(checkout: Path, spellings: list[list[str]], out: Path, data_dir: Path | None) -> str:
    """Runs the first spelling that this checkout understands; "done", or why it could not be run."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "COLUMNS": "200"}
    for spelling in [*spellings, *map(spelling_before, spellings)]:
        command = [sys.executable, "-m", "consilience", *spelling, "--out", str(out)]
        if data_dir is not None:
            command += ["--data-dir", str(data_dir)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=checkout)
        if done.returncode == 0:
            return "done"
    return done.stderr.strip()[-300:]


def spelling_before(arguments: list[str]) -> list[str]:
    """A command line in the words of checkouts before the consensus loop had parts."""
    line = " ".join(arguments)
    for now, before in BEFORE.items():
        line = line.replace(now, before)
    return line.split()


def digest(values: np.ndarray) -> str:
    """A hash of the values, whatever the order in memory; words as text."""
    if values.dtype.kind not in "iufb":
        values = np.array([str(value) for value in values.ravel()])
    return hashlib.sha256(values.dtype.str.encode() + np.ascontiguousarray(values).tobytes()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description="Do two checkouts give the same numbers, to the bit?")
    parser.add_argument("checkouts", nargs="+", type=Path)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--only", default="", help="the beginning of the names of cases")
    given = parser.parse_args()
    kept = given.keep or Path(tempfile.mkdtemp(prefix="same-numbers-"))
    data_dir = given.data_dir.resolve() if given.data_dir else None
    checkouts = [checkout.resolve() for checkout in given.checkouts]
    folders = {path: kept.resolve() / str(path).strip("/").replace("/", "-") for path in checkouts}
    run_cases(folders, data_dir, given.only)
    hashes = [numbers(folders[path]) for path in checkouts]
    for path, hashed in zip(checkouts, hashes, strict=True):
        folders[path].with_suffix(".json").write_text(json.dumps(hashed, indent=1, sort_keys=True))
    if len(hashes) == 1:
        print(f"{len(hashes[0])} hashes in {kept}")
        return
    old, new = hashes
    differing = sorted(key for key in old.keys() & new.keys() if old[key] != new[key])
    gone = sorted(old.keys() - new.keys())
    for key in differing:
        print(f"differs: {key}")
    for key in gone:
        print(f"gone: {key}")
    print(
        f"{len(old.keys() & new.keys()) - len(differing)} the same, {len(differing)} differ, {len(gone)} gone, ", end=""
    )
    print(f"{len(new.keys() - old.keys())} new")
    sys.exit(bool(differing or gone))


if __name__ == "__main__":
    main()
