"""The UCI heart patients."""

from pathlib import Path

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.data.datasets import Dataset, RawScale, Request, Size, dataset

NAME = "heart-disease"
HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
_FEATURES = ["age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak"]
_DROPPED = ["slope", "ca", "thal"]
_COLUMNS = [*_FEATURES, *_DROPPED, "num"]


@dataset(NAME, Size(740, 8, 13))
def heart_disease(request: Request) -> Dataset:
    """740 patients of four hospitals: ten features, and whether the heart is diseased.

    As in FLamby (du Terrail et al., 2022), `slope`, `ca` and `thal` are dropped, then patients with a value missing;
    that leaves 303, 261, 46 and 130. Features are standardised with the mean and deviation over all 740 patients,
    so hospitals are taken to agree on these twenty numbers. Reads `heart_disease.csv`, or UCI's own four files.
    """
    import pandas as pd

    where = Path(request.data_dir) / NAME if request.data_dir else None
    files = [f"processed.{hospital}.data" for hospital in HOSPITALS]
    if where and (where / "heart_disease.csv").is_file():
        table = pd.read_csv(where / "heart_disease.csv")
    elif where and all((where / file).is_file() for file in files):
        tables = [pd.read_csv(where / file, names=_COLUMNS, na_values="?") for file in files]
        table = pd.concat(rows.assign(hospital=name) for rows, name in zip(tables, HOSPITALS, strict=True))
    else:
        looked = f"in {where}" if where else "nowhere, as no folder for data was named"
        raise ConsilienceError(
            f"the {NAME} data were looked for {looked}. Put {', '.join(files)} of "
            f"https://archive.ics.uci.edu/dataset/45/heart+disease into a folder {NAME}, "
            "and name the folder around it in the environment variable CONSILIENCE_DATA."
        )
    missing = [column for column in [*_COLUMNS, "hospital"] if column not in table]
    if missing:
        raise ConsilienceError(f"{where}/heart_disease.csv lacks the columns {', '.join(missing)}.")
    table = table.drop(columns=_DROPPED).dropna()
    features = table[_FEATURES].to_numpy(dtype=np.float64)
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    x = ((features - mean) / deviation).astype(np.float32)
    y = (table["num"].to_numpy() > 0).astype(np.int64)
    numbers = {hospital: number for number, hospital in enumerate(HOSPITALS)}
    groups = table["hospital"].map(numbers).to_numpy(dtype=np.int64)
    scale = RawScale(mean, deviation, "Features are in the units of the UCI tables.", columns=tuple(_FEATURES))
    return Dataset(x, y, ("healthy", "diseased"), groups, HOSPITALS, raw=scale)
