"""What a site says about its data before a run: how its files were read, and what may be wrong with them."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from consilience.data.columns import Column, read_columns
from consilience.data.files import labelled_table, read_table_and_notes, split_names
from consilience.data.preprocess import TablePreprocessing
from consilience.data.table_notes import apart, column_lines, differing_columns, one_class_warnings, table_warnings
from consilience.federation.site import LoadedSite
from consilience.tasks import task_named

if TYPE_CHECKING:
    import pandas as pd

Notes = tuple[list[str], list[str]]
"""How the data were read, and warnings."""
TABLES = (".csv", ".parquet")


def site_notes(prepared: LoadedSite) -> Notes:
    """How the tables of a site were read: one line a column; and warnings. Nothing where it has no tables."""
    site, shared_file = prepared.site, Path(prepared.site.shared)
    if shared_file.suffix not in TABLES:
        return [], []
    shared, notes = read_table_and_notes(prepared.path(site.shared))
    columns = _columns(prepared, shared)
    own_file = prepared.path(site.data) if site.data else None
    if own_file is None or own_file.suffix not in TABLES:
        return [*notes, *column_lines(columns)], []
    table, more = read_table_and_notes(own_file)
    x, y = labelled_table(
        table,
        own_file,
        site.label,
        prepared.federation.classes,
        prepared.columns,
        task=prepared.federation.task,
        table=True,
    )
    extra = [str(name) for name in table.columns if name not in (*prepared.columns, *split_names(site.label))]
    if extra:
        more.append(f"{own_file.name} has columns that the shared data lack, which are not used: {', '.join(extra)}.")
    gaps = {
        column.name: f" in {shared_file.name}, {int(x[column.name].isna().sum())} in {own_file.name}"
        for column in columns
    }
    prefix = None if prepared.site.python else ""
    notes, warnings = apart([*notes, *more])
    warnings += table_warnings(x, columns, y, prepared.federation.task, prefix)
    warnings += differing_columns(columns, {"this site": x, "the shared data": shared})
    if task_named(prepared.federation.task).has_classes:
        warnings += one_class_warnings({site.agent: np.asarray(y)}, prepared.federation.classes)
    return [*notes, *column_lines(columns, gaps)], warnings


def _columns(prepared: LoadedSite, shared: "pd.DataFrame") -> tuple[Column, ...]:
    """The columns as the site's preprocessing has them, or as they look, if it reads them in another way."""
    if isinstance(prepared.read, TablePreprocessing):
        return prepared.read.columns
    if prepared.site.python or prepared.read is not None:
        how = "as the site's own program reads it"
    else:
        how = "scaled by the shared data" if prepared.site.standardise else "as it is"
    return tuple(column.read_otherwise(how) for column in read_columns(shared[prepared.columns]))
