"""Notes on a site's data before a run: how its files were read, and what may be wrong with them."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from consilience.data.columns import Column, read_columns
from consilience.data.files import labelled_table, read_table_and_notes, row_name, split_names
from consilience.data.preprocess import TablePreprocessing
from consilience.data.table_notes import apart, class_warnings, column_lines, differing_columns, table_warnings
from consilience.federation.site import LoadedSite
from consilience.tasks import task_named

if TYPE_CHECKING:
    import pandas as pd

Notes = tuple[list[str], list[str]]
"""How the data were read, and warnings."""
TABLES = (".csv", ".parquet")


def site_notes(loaded: LoadedSite) -> Notes:
    """How the tables of a site were read, one line for each column, and warnings; both are empty without tables."""
    site, shared_file = loaded.site, Path(loaded.site.shared)
    if shared_file.suffix.lower() not in TABLES:
        return [], []
    shared, notes = read_table_and_notes(loaded.path(site.shared))
    columns = _columns(loaded, shared)
    own_file = loaded.path(site.data) if site.data else None
    if own_file is None or own_file.suffix.lower() not in TABLES:
        return [*notes, *column_lines(columns)], []
    table, more = read_table_and_notes(own_file)
    x, y = labelled_table(
        table,
        own_file,
        site.label,
        loaded.federation.classes,
        loaded.columns,
        task=loaded.federation.task,
        table=True,
    )
    extra = [str(name) for name in table.columns if name not in (*loaded.columns, *split_names(site.label))]
    if extra:
        more.append(f"{own_file.name} has columns that the shared data lack, which are not used: {', '.join(extra)}.")
    gaps = {
        column.name: f" in {shared_file.name}, {int(x[column.name].isna().sum())} in {own_file.name}"
        for column in columns
    }
    prefix = None if loaded.site.python else ""
    notes, warnings = apart([*notes, *more])
    warnings += table_warnings(x, columns, y, loaded.federation.task, prefix, partial(row_name, own_file))
    warnings += differing_columns(columns, {"this site": x, "the shared data": shared})
    if task_named(loaded.federation.task).has_classes:
        warnings += class_warnings({site.agent: np.asarray(y)}, loaded.federation.classes)
    return [*notes, *column_lines(columns, gaps)], warnings


def _columns(loaded: LoadedSite, shared: "pd.DataFrame") -> tuple[Column, ...]:
    """The columns as the site's preprocessing reads them, or as they look if a program of its own reads them."""
    if isinstance(loaded.read, TablePreprocessing):
        return loaded.read.columns
    if loaded.site.python or loaded.read is not None:
        how = "as the site's own program reads it"
    else:
        how = "scaled by the shared data" if loaded.site.standardise else "as it is"
    return tuple(column.read_otherwise(how) for column in read_columns(shared[loaded.columns]))
