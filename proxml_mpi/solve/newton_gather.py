"""Gather the local matrix: the chosen rows x the chosen columns, read by rows or by columns, whichever are shorter."""

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
    end = 0
    for c in range(n_columns):
        j = feature[c]
        start[c] = end
        for entry in range(problem.column_start[j], problem.column_start[j + 1]):
            r = row[problem.column_instance[entry]]
            if r > 0:
                kept_row[end] = r - 1
                kept_value[end] = problem.column_value[entry]
                row_end[r - 1] += 1
                end += 1
    start[n_columns] = end
    # From lengths to where rows begin; filling a row moves that to its end.
    end = 0
    for r in range(n_rows):
        end += row_end[r]
        row_end[r] = end - row_end[r]
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
    end = 0
    for r in range(n_rows):
        i = touched[chosen[r]]
        for entry in range(problem.row_start[i], problem.row_start[i + 1]):
            c = column[problem.row_feature[entry]]
            if c > 0:
                local.column[end] = c - 1
                local.value[end] = problem.row_value[entry]
                end += 1
        row_end[r] = end
