"""Take the step that the local problem proposes, as far as the full objective falls."""

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.newton_data import (
    CHANGE,
    COLUMN,
    FEATURE,
    IS_TOUCHED,
    LEARNED,
    NEAR,
    OLD,
    ROW,
    SCORE,
    SHIFT,
    SLOPE,
    SUPPORT,
    TOUCHED,
    VIOLATION,
    WEIGHT,
    NewtonProblem,
    U,
    Workspace,
    inner,
    length,
)
from proxml_mpi.solve.newton_search import search

# An instance is near, and joins the local problem, when its v lies above minus this.
MARGIN = 0.3


@inner
def touch(is_touched: NDArray[np.uint8], touched: NDArray[np.uint32], i: int, n_touched: int) -> int:
    """Append instance i to the touched ones unless it is there."""
    if not is_touched[i]:
        is_touched[i] = 1
        touched[n_touched] = i
        return n_touched + 1
    return n_touched


@inner
def scatter(
    problem: NewtonProblem, work: Workspace, j: int, factor: float, target: NDArray[np.float64], n_touched: int
) -> int:
    """Add factor times column j to target, touching its instances; return the number of touched ones."""
    touched, is_touched = work.instances[TOUCHED], work.marks[IS_TOUCHED]
    for entry in range(problem.column_start[j], problem.column_start[j + 1]):
        i = problem.column_instance[entry]
        if work.sign[i] != 0:
            n_touched = touch(is_touched, touched, i, n_touched)
            target[i] += factor * problem.column_value[entry]
    return n_touched


@inner
def list_near(work: Workspace, n_touched: int, b: float) -> int:
    """List the touched instances that violate or nearly so; return their number."""
    touched, near, score = work.instances[TOUCHED], work.instances[NEAR], work.rows[SCORE]
    n_near = 0
    for position in range(n_touched):
        i = touched[position]
        if 1.0 - work.sign[i] * (score[i] + b) > -MARGIN:
            near[n_near] = i
            n_near += 1
    return n_near


@inner
def spread(problem: NewtonProblem, work: Workspace, n_columns: int, n_touched: int) -> tuple[int, int]:
    """Fill SHIFT with X (u - w) and CHANGE with u - w; return the number of touched instances and entries read."""
    u, change, shift = work.columns[U], work.columns[CHANGE], work.rows[SHIFT]
    n_read = 0
    for c in range(n_columns):
        j = work.features[FEATURE, c]
        change[c] = u[c] - work.columns[WEIGHT, j]
        if change[c] != 0.0:
            n_read += length(problem.column_start, j)
            n_touched = scatter(problem, work, j, change[c], shift, n_touched)
    return n_touched, n_read


@inner
def take_over(problem: NewtonProblem, work: Workspace, n_columns: int, n_touched: int) -> tuple[int, int, int]:
    """Set the weights of the listed features to U; return n_touched, the support's size, entries read.

    Scores are computed afresh: what is certified after this has not drifted. No other feature may have a weight.
    """
    score = work.rows[SCORE]
    for position in range(n_touched):
        score[work.instances[TOUCHED, position]] = 0.0
    n_support, n_read = 0, 0
    for c in range(n_columns):
        j, weight = work.features[FEATURE, c], work.columns[U, c]
        work.columns[WEIGHT, j] = weight
        if weight != 0.0:
            work.features[SUPPORT, n_support] = j
            n_support += 1
            n_read += length(problem.column_start, j)
            n_touched = scatter(problem, work, j, weight, score, n_touched)
    return n_touched, n_support, n_read


@inner
def advance(
    work: Workspace,
    n_columns: int,
    n_touched: int,
    n_untouched: int,
    b: float,
    new_b: float,
    penalty: float,
    n_learned: int,
) -> tuple[float, float, int, int]:
    """Search along the step on all instances and take it; return step length, bias, n_near, n_learned.

    Negatives outside the local problem that the full step would violate are learned for the next one.
    """
    score, shift, violation, slopes = work.rows[SCORE], work.rows[SHIFT], work.rows[VIOLATION], work.rows[SLOPE]
    touched, near, learned = work.instances[TOUCHED], work.instances[NEAR], work.instances[LEARNED]
    row, u, change, old, weight = (
        work.instances[ROW],
        work.columns[U],
        work.columns[CHANGE],
        work.columns[OLD],
        work.columns[WEIGHT],
    )
    step = new_b - b
    n_lines, n_known = 0, n_learned
    for position in range(n_touched):
        i = touched[position]
        y = work.sign[i]
        v = 1.0 - y * (score[i] + b)
        slope = -y * (shift[i] + step)
        if v > 0.0 or v + slope > 0.0:
            violation[n_lines] = v
            slopes[n_lines] = slope
            n_lines += 1
            if v + slope > 0.0 and row[i] == 0:
                learned[n_learned] = i
                n_learned += 1
    for c in range(n_columns):
        old[c] = weight[work.features[FEATURE, c]]
    old[n_columns], change[n_columns] = b, step
    group = (float(n_untouched), 1.0 + b, step)
    t = search(violation, slopes, n_lines, old, change, n_columns + 1, group, penalty)
    if t == 1.0:
        n_learned -= n_known
        for position in range(n_learned):
            learned[position] = learned[n_known + position]
    b = new_b if t == 1.0 else b + t * step
    n_near = 0
    for position in range(n_touched):
        i = touched[position]
        score[i] += t * shift[i]
        shift[i] = 0.0
        if 1.0 - work.sign[i] * (score[i] + b) > -MARGIN:
            near[n_near] = i
            n_near += 1
    for c in range(n_columns):
        weight[work.features[FEATURE, c]] = u[c] if t == 1.0 else old[c] + t * change[c]
    return t, b, n_near, n_learned


@inner
def list_support(work: Workspace, n_support: int, n_columns: int) -> int:
    """Update the list of non-zero weights after a step; return its length."""
    support = work.features[SUPPORT]
    n_kept = 0
    for position in range(n_support):
        j = support[position]
        if work.features[COLUMN, j] == 0:
            support[n_kept] = j
            n_kept += 1
    for c in range(n_columns):
        j = work.features[FEATURE, c]
        if work.columns[WEIGHT, j] != 0.0:
            support[n_kept] = j
            n_kept += 1
    return n_kept
