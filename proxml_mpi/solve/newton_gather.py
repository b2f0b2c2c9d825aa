"""Gather the local matrix: the chosen rows x the chosen columns, read by rows or by columns, whichever are shorter.

Every entry is written, and the next one over it when it was not chosen: a branch would be guessed wrongly too often.
"""

import numpy as np

from proxml_mpi.solve.newton_data import (
    CHOSEN,
    COLUMN,
    FEATURE,
    ROW,
    ROW_END,
    TOUCHED,
    Local,
    NewtonProblem,
    Workspace,
    inner,
    length,
    make_local,
)

NONE, ONE, UNIT = np.uint64(0), np.uint64(1), np.uint32(1)


@inner
def gather_matrix(
    problem: NewtonProblem, work: Workspace, local: Local, n_rows: int, n_columns: int
) -> tuple[Local, int]:
    """Copy the chosen rows x columns; return where they are (in longer arrays if need be), entries read."""
    by_rows, by_columns = 0, 0
    for r in range(n_rows):
        by_rows += length(problem.row_start, work.instances[TOUCHED, work.instances[CHOSEN, r]])
    for c in range(n_columns):
        by_columns += length(problem.column_start, work.features[FEATURE, c])
    needed = min(by_rows, by_columns)
    if needed > len(local.column):
        local = make_local(2 * needed)
    if by_columns <= by_rows:
        gather_columns(problem, work, local, n_rows, n_columns)
    else:
        gather_rows(problem, work, local, n_rows)
    return local, needed


@inner
def gather_columns(problem: NewtonProblem, work: Workspace, local: Local, n_rows: int, n_columns: int) -> None:
    """Read the chosen columns, keep the chosen rows, and transpose what was kept."""
    start, feature, row, row_end = work.start, work.features[FEATURE], work.instances[ROW], work.instances[ROW_END]
    kept_row, kept_value = local.active_row, local.active_value
    for r in range(n_rows):
        row_end[r] = 0
    end = NONE
    for c in range(n_columns):
        j = feature[c]
        start[c] = end
        for entry in range(problem.column_start[j], problem.column_start[j + 1]):
            r = row[problem.column_instance[entry]]
            kept_row[end] = r
            kept_value[end] = problem.column_value[entry]
            end += ONE if r > 0 else NONE
        for entry in range(start[c], end):
            kept_row[entry] -= UNIT
            row_end[kept_row[entry]] += UNIT
    start[n_columns] = end
    # From lengths to where rows begin; filling a row moves that to its end.
    end_of_row = 0
    for r in range(n_rows):
        end_of_row += row_end[r]
        row_end[r] = end_of_row - row_end[r]
    for c in range(n_columns):
        for entry in range(start[c], start[c + 1]):
            r = kept_row[entry]
            at = row_end[r]
            local.column[at] = c
            local.value[at] = kept_value[entry]
            row_end[r] = at + 1


@inner
def gather_rows(problem: NewtonProblem, work: Workspace, local: Local, n_rows: int) -> None:
    """Read the chosen rows and keep the chosen columns."""
    chosen, touched, row_end = work.instances[CHOSEN], work.instances[TOUCHED], work.instances[ROW_END]
    column = work.features[COLUMN]
    end = NONE
    for r in range(n_rows):
        i = touched[chosen[r]]
        for entry in range(problem.row_start[i], problem.row_start[i + 1]):
            c = column[problem.row_feature[entry]]
            local.column[end] = c - UNIT
            local.value[end] = problem.row_value[entry]
            end += ONE if c > 0 else NONE
        row_end[r] = end
