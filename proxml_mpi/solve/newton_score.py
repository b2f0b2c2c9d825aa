"""The scores x.w of touched instances: what a step changes, by columns; what weights give, by columns or rows."""

import numpy as np

from proxml_mpi.solve.newton_ahead import COLUMNS_AHEAD, ROWS_AHEAD, ask_column, ask_row
from proxml_mpi.solve.newton_data import (
    CHANGE,
    CURVATURE,
    FEATURE,
    NEAR,
    SCORE,
    SHIFT,
    SUPPORT,
    TOUCHED,
    WEIGHT,
    NewtonProblem,
    U,
    Workspace,
    inner,
    length,
)
from proxml_mpi.solve.newton_touch import scatter, scatter_in_order, scatter_new

LEAST_GAIN = 0.01  # of a change, per entry that it reads, relative to all changes together
FLOAT_ERROR = 2.0**-24  # of rounding to float32, relative


@inner
def leave_small(problem: NewtonProblem, work: Workspace, n_columns: int) -> None:
    """Give up the changes of weights that promise little for the entries that they read: U goes back to the weight.

    What a change gains is about curvature x change^2. Weights that become zero do so: the support is to shrink.
    """
    u, weight, curvature, feature = (
        work.columns[U],
        work.columns[WEIGHT],
        work.columns[CURVATURE],
        work.features[FEATURE],
    )
    gain, n_entries = 0.0, 0
    for c in range(n_columns):
        change = u[c] - weight[feature[c]]
        if change != 0.0:
            gain += curvature[c] * change * change
            n_entries += length(problem.column_start, feature[c])
    least = LEAST_GAIN * gain / max(1, n_entries)
    for c in range(n_columns):
        change = u[c] - weight[feature[c]]
        if u[c] != 0.0 and curvature[c] * change * change < least * length(problem.column_start, feature[c]):
            u[c] = weight[feature[c]]


@inner
def spread(
    problem: NewtonProblem, work: Workspace, n_columns: int, n_touched: int, in_order: bool, is_rounding: bool
) -> tuple[int, int]:
    """Fill SHIFT with X (u - w) and CHANGE with u - w; return the number of touched instances and entries read.

    is_rounding: go to the float32 weights nearest to u.
    """
    u, change, shift = work.columns[U], work.columns[CHANGE], work.rows[SHIFT]
    n_read = 0
    for c in range(n_columns):
        j = work.features[FEATURE, c]
        if c + COLUMNS_AHEAD < n_columns:
            ask_column(problem, work.features[FEATURE, c + COLUMNS_AHEAD])
        if is_rounding:
            u[c] = np.float32(u[c])
        change[c] = u[c] - work.columns[WEIGHT, j]
        if change[c] != 0.0:
            n_read += length(problem.column_start, j)
            if in_order:
                scatter_in_order(problem, j, change[c], shift)
            elif work.columns[WEIGHT, j] == 0.0:
                n_touched = scatter_new(problem, work, j, change[c], shift, n_touched)
            else:
                scatter(problem, work, j, change[c], shift)
    return n_touched, n_read


@inner
def round_weights(work: Workspace, n_support: int) -> int:
    """Round the weights to float32; return the number of those that do not vanish."""
    weight, support, n_kept = work.columns[WEIGHT], work.features[SUPPORT], 0
    for position in range(n_support):
        j = support[position]
        weight[j] = np.float32(weight[j])
        support[n_kept] = j
        n_kept += weight[j] != 0.0
    return n_kept


@inner
def is_near_enough(problem: NewtonProblem, work: Workspace, n_support: int, n_near: int, b: float, room: float) -> bool:
    """Tell whether scores move by less than room when weights and bias are rounded, and the near rows are shorter.

    The near instances are then all that may violate, and all whose scores have to be computed again.
    """
    norm, by_columns, by_rows = abs(b), 0, 0
    for position in range(n_support):
        j = work.features[SUPPORT, position]
        norm += abs(work.columns[WEIGHT, j]) * problem.largest_value
        by_columns += length(problem.column_start, j)
    for position in range(n_near):
        by_rows += length(problem.row_start, work.instances[TOUCHED, work.instances[NEAR, position]])
    return by_rows < by_columns and 2.0 * FLOAT_ERROR * norm < room


@inner
def score_near(problem: NewtonProblem, work: Workspace, n_near: int) -> int:
    """Compute the scores of the near instances afresh; return entries read."""
    weight, score, near, touched = (
        work.columns[WEIGHT],
        work.rows[SCORE],
        work.instances[NEAR],
        work.instances[TOUCHED],
    )
    n_read = 0
    for position in range(n_near):
        i = touched[near[position]]
        if position + ROWS_AHEAD < n_near:
            ask_row(problem, touched[near[position + ROWS_AHEAD]])
        total = 0.0
        for entry in range(problem.row_start[i], problem.row_start[i + 1]):
            total += weight[problem.row_feature[entry]] * problem.row_value[entry]
        score[near[position]] = total
        n_read += length(problem.row_start, i)
    return n_read


@inner
def score_all(
    problem: NewtonProblem, work: Workspace, n_support: int, n_touched: int, in_order: bool
) -> tuple[int, int]:
    """Compute all scores afresh, so that what is certified has not drifted; return n_touched, entries read."""
    score = work.rows[SCORE]
    for place in range(1, n_touched + 1):
        score[place] = 0.0
    n_read = 0
    for position in range(n_support):
        j = work.features[SUPPORT, position]
        if position + COLUMNS_AHEAD < n_support:
            ask_column(problem, work.features[SUPPORT, position + COLUMNS_AHEAD])
        n_read += length(problem.column_start, j)
        if in_order:
            scatter_in_order(problem, j, work.columns[WEIGHT, j], score)
        else:
            n_touched = scatter_new(problem, work, j, work.columns[WEIGHT, j], score, n_touched)
    return n_touched, n_read
