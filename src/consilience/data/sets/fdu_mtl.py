"""Reviews of sixteen domains, tokenised and in lower case (Liu, Qiu and Huang, ACL 2017)."""

from pathlib import Path

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.data.datasets import Dataset, Request, Size, dataset
from consilience.data.parquet import check_parquet

NAME = "fdu-mtl"
COLUMNS = ("text", "label", "domain")
SPLITS = ("train", "test", "unlabelled")


@dataset(NAME, Size(31780, 32, 1))
def fdu_mtl(request: Request) -> Dataset:
    """Reviews as a table with one column of texts; train and test part merged, and those without labels to be shared.

    There is one agent for each domain with the partition natural.
    """
    import pandas as pd

    where = Path(request.data_dir) / NAME if request.data_dir else None
    files = {split: sorted(where.rglob(f"{split}*.parquet")) for split in SPLITS} if where else {}
    missing = [split for split in SPLITS if not files.get(split)]
    if missing:
        looked = f"in {where}" if where else "nowhere, as no folder for data was named"
        raise ConsilienceError(
            f"the reviews {NAME} were looked for {looked}; missing: {', '.join(missing)}. Put parquet files train, "
            f"test and unlabelled with the columns {', '.join(COLUMNS)} into a folder {NAME}/data, and name the folder "
            "around it in the environment variable CONSILIENCE_DATA."
        )
    tables = {}
    for split, paths in files.items():
        for path in paths:
            check_parquet(path)
        tables[split] = pd.concat([pd.read_parquet(path) for path in paths], ignore_index=True)
        absent = [column for column in COLUMNS if column not in tables[split]]
        if absent:
            raise ConsilienceError(f"{paths[0]} lacks the columns {', '.join(absent)}.")
        tables[split] = tables[split][tables[split]["text"].str.strip() != ""].reset_index(drop=True)
    labelled = pd.concat([tables["train"], tables["test"]], ignore_index=True)
    y = labelled["label"].to_numpy(np.int64)
    if not set(y.tolist()) <= {0, 1}:
        raise ConsilienceError(f"{where}: labels of train and test must be 0 (negative) or 1 (positive).")
    names = sorted(set(labelled["domain"]))
    groups = np.searchsorted(names, labelled["domain"].to_numpy(str))
    return Dataset(
        labelled[["text"]],
        y,
        ("negative", "positive"),
        groups.astype(np.int64),
        tuple(names),
        unlabelled=tables["unlabelled"][["text"]],
    )
