"""Gather the local matrix, the chosen rows x the chosen columns, by columns; read by rows where these are much shorter.

Every entry is written, and the next one over it when it was not chosen: a branch would be guessed wrongly too often.
"""

import numpy as np

from proxml_mpi.solve.newton_ahead import COLUMNS_AHEAD, ROWS_AHEAD, ask_column, ask_row
from proxml_mpi.solve.newton_data import (
    ACTIVE,
    ALL,
    CHOSEN,
    COLUMN,
    FEATURE,
    ROW,
    TOUCHED,
    Local,
    NewtonProblem,
    Workspace,
    allocating,
    inner,
    length,
    make_longer_local,
)

NONE, ONE, UNIT = np.uint64(0), np.uint64(1), np.uint32(1)


@allocating
def gather_matrix(
    problem: NewtonProblem, work: Workspace, local: Local, n_rows: int, n_columns: int
) -> tuple[Local, int]:
    """Copy the chosen rows x columns; return where they are (in longer arrays if need be), entries read."""
    by_rows, by_columns = 0, 0
    for r in range(n_rows):
        by_rows += length(problem.row_start, work.instances[TOUCHED, work.instances[CHOSEN, r]])
    for c in range(n_columns):
        by_columns += length(problem.column_start, work.features[FEATURE, c])
    # Rows are read in pieces, and what was kept of them has to be sorted into columns.
    is_by_columns = by_columns <= 3 * by_rows
    needed = by_columns if is_by_columns else by_rows
    if 2 * needed >= len(local.row):
        local = make_longer_local(4 * needed)
    if is_by_columns:
        gather_columns(problem, work, local, n_columns)
    else:
        gather_rows(problem, work, local, n_rows, n_columns)
    return local, needed


@inner
def gather_columns(problem: NewtonProblem, work: Workspace, local: Local, n_columns: int) -> None:
    """Read the chosen columns and keep the chosen rows."""
    start, feature, row = work.starts[ALL], work.features[FEATURE], work.instances[ROW]
    end = NONE
    for c in range(n_columns):
        j = feature[c]
        start[c] = end
        if c + COLUMNS_AHEAD < n_columns:
            ask_column(problem, feature[c + COLUMNS_AHEAD])
        for entry in range(problem.column_start[j], problem.column_start[j + 1]):
            r = row[problem.column_instance[entry]]
            local.row[end] = r - UNIT
            local.value[end] = problem.column_value[entry]
            end += ONE if r > 0 else NONE
    start[n_columns] = end


@inner
def gather_rows(problem: NewtonProblem, work: Workspace, local: Local, n_rows: int, n_columns: int) -> None:
    """Read the chosen rows, keep the chosen columns, and sort what was kept into columns."""
    # No row is active yet: that line serves for where rows end, as the active entries' arrays do for what is kept.
    chosen, touched, row_end = work.instances[CHOSEN], work.instances[TOUCHED], work.instances[ACTIVE]
    start, column, kept_column, kept_value = (
        work.starts[ALL],
        work.features[COLUMN],
        local.active_row,
        local.active_value,
    )
    end = NONE
    for r in range(n_rows):
        i = touched[chosen[r]]
        if r + ROWS_AHEAD < n_rows:
            ask_row(problem, touched[chosen[r + ROWS_AHEAD]])
        for entry in range(problem.row_start[i], problem.row_start[i + 1]):
            c = column[problem.row_feature[entry]]
            kept_column[end] = c - UNIT
            kept_value[end] = problem.row_value[entry]
            end += ONE if c > 0 else NONE
        row_end[r] = end
    for c in range(n_columns + 1):
        start[c] = 0
    for entry in range(end):
        start[kept_column[entry]] += ONE
    # From lengths to where columns end; filling a column from its end moves that to its beginning.
    for c in range(n_columns):
        start[c + 1] += start[c]
    for r in range(n_rows - 1, -1, -1):
        for entry in range(row_end[r - 1] if r > 0 else 0, row_end[r]):
            c = kept_column[entry]
            at = start[c] - ONE
            local.row[at] = r
            local.value[at] = kept_value[entry]
            start[c] = at
