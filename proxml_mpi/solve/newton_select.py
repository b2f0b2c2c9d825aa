"""Choose the columns (features) and the rows (instances) of the next local problem."""

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.newton_data import (
    CHOSEN,
    COLUMN,
    FEATURE,
    GRADIENT,
    LEARNED,
    LIST,
    LOCAL_SCORE,
    LOCAL_SIGN,
    MET,
    NEAR,
    OLD,
    PLACE,
    ROW,
    SCORE,
    SIGN,
    SUPPORT,
    TOUCHED,
    WEIGHT,
    NewtonProblem,
    U,
    Workspace,
    inner,
    length,
)
from proxml_mpi.solve.newton_touch import touch, touch_column

# Without a ridge, from so many weights on, features whose gradient is at least NEARLY lambda join the local problem as
# well, after those that violate: what a step makes violate would cost an iteration more.
MANY, NEARLY = 64, 0.9


@inner
def choose_columns(
    problem: NewtonProblem,
    work: Workspace,
    n_support: int,
    n_met: int,
    common: float,
    penalty: float,
    ridge: float,
    n_new: int,
) -> tuple[int, float]:
    """List the support and n_new violating features outside it; return their number and the largest violation of both.

    New are those with the largest violation over price: of two features that a label's positives share, the rarer one
    tells more, and costs less to read. (The norm alone would tell what a step on that feature gains.) Where fewer
    violate, those that nearly do so follow.
    """
    weight, all_gradient, met = work.columns[WEIGHT], work.columns[GRADIENT], work.features[MET]
    size, found, n_candidates = work.columns[U], work.features[LIST], 0
    least = NEARLY * penalty if ridge == 0.0 and n_support >= MANY else penalty
    worst = 0.0
    n_columns = 0
    for position in range(n_support):
        j = work.features[SUPPORT, position]
        gradient = all_gradient[j] if work.is_met[j] else -common * problem.column_sum[j]
        gradient -= ridge * weight[j]
        worst = max(worst, abs(gradient - (penalty if weight[j] > 0.0 else -penalty)))
        n_columns = add_column(work, j, n_columns)
    for position in range(n_met):
        j = met[position]
        found[n_candidates] = j
        n_candidates += (abs(all_gradient[j]) > least) & (weight[j] == 0.0)
    for k in range(n_candidates):
        violation = abs(all_gradient[found[k]]) - penalty
        size[k] = violation / problem.column_price[found[k]] if violation > 0.0 else violation
    if common > 0.0:
        for j in problem.column_order:
            if common * abs(problem.column_sum[j]) <= penalty:
                break
            if not work.is_met[j] and weight[j] == 0.0:
                found[n_candidates] = j
                size[n_candidates] = (common * abs(problem.column_sum[j]) - penalty) / problem.column_price[j]
                n_candidates += 1
    threshold = nth_largest(size, n_candidates, n_new, work.columns[OLD])
    last = n_columns + n_new
    for k in range(n_candidates):
        if size[k] > threshold:
            worst = max(worst, size[k] * problem.column_price[found[k]])
            n_columns = add_column(work, found[k], n_columns)
    # Features may tie, duplicates above all.
    for k in range(n_candidates):
        if size[k] == threshold and n_columns < last:
            worst = max(worst, size[k] * problem.column_price[found[k]])
            n_columns = add_column(work, found[k], n_columns)
    return n_columns, worst


@inner
def add_column(work: Workspace, j: int, n_columns: int) -> int:
    """Append feature j to the local columns."""
    work.features[FEATURE, n_columns] = j
    work.features[COLUMN, j] = n_columns + 1
    return n_columns + 1


@inner
def nth_largest(values: NDArray[np.float64], n: int, k: int, copy: NDArray[np.float64]) -> float:
    """Return a threshold that at most k of the n values exceed: the (k+1)-th largest, or -inf when n <= k."""
    if n <= k:
        return -np.inf
    for position in range(n):
        copy[position] = values[position]
    low, high = 0, n - 1
    while low < high:
        pivot = copy[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while copy[i] > pivot:
                i += 1
            while copy[j] < pivot:
                j -= 1
            if i <= j:
                copy[i], copy[j] = copy[j], copy[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return float(copy[k])


@inner
def choose_near_rows(
    problem: NewtonProblem, work: Workspace, n_near: int, n_learned: int, n_columns: int, n_touched: int
) -> tuple[int, int]:
    """List the instances that violate or nearly so, the learned ones and some of new columns; count rows and touched.

    Of a feature without a weight the local problem would know no negative, and give it a weight that many violate:
    those with the largest values are the first to do so, and stand for the others.
    """
    touched, row, chosen = work.instances[TOUCHED], work.instances[ROW], work.instances[CHOSEN]
    near, learned = work.instances[NEAR], work.instances[LEARNED]
    for position in range(n_near):
        chosen[position] = near[position]
        row[touched[near[position]]] = position + 1
    n_rows = n_near
    for position in range(n_learned):
        place = learned[position]
        if row[touched[place]] == 0:
            chosen[n_rows] = place
            n_rows += 1
            row[touched[place]] = n_rows
    for c in range(n_columns):
        j = work.features[FEATURE, c]
        if work.columns[WEIGHT, j] == 0.0:
            for i in problem.column_top[j]:
                if i < len(problem.negative) and row[i] == 0:
                    n_touched = touch(work, i, n_touched)
                    chosen[n_rows] = work.instances[PLACE, i]
                    n_rows += 1
                    row[i] = n_rows
    fill_rows(work, n_rows)
    return n_rows, n_touched


@inner
def choose_violating_rows(work: Workspace, n_near: int, b: float) -> int:
    """List the instances that violate, all of them near; return their number."""
    near, touched, sign, score = work.instances[NEAR], work.instances[TOUCHED], work.rows[SIGN], work.rows[SCORE]
    row, chosen, n_rows = work.instances[ROW], work.instances[CHOSEN], 0
    for position in range(n_near):
        place = near[position]
        chosen[n_rows] = place
        n_rows += 1.0 - sign[place] * (score[place] + b) >= 0.0
    for r in range(n_rows):
        row[touched[chosen[r]]] = r + 1
    fill_rows(work, n_rows)
    return n_rows


@inner
def choose_all_rows(problem: NewtonProblem, work: Workspace, n_touched: int, n_columns: int) -> tuple[int, int]:
    """List all touched instances after touching those of new columns; return their number and the entries read."""
    n_read = 0
    for c in range(n_columns):
        j = work.features[FEATURE, c]
        if work.columns[WEIGHT, j] == 0.0:
            n_read += length(problem.column_start, j)
            n_touched = touch_column(problem, work, j, n_touched)
    touched, row, chosen = work.instances[TOUCHED], work.instances[ROW], work.instances[CHOSEN]
    for r in range(n_touched):
        chosen[r] = r + 1
        row[touched[r + 1]] = r + 1
    fill_rows(work, n_touched)
    return n_touched, n_read


@inner
def fill_rows(work: Workspace, n_rows: int) -> None:
    """Copy labels and scores of the chosen rows."""
    chosen, sign, score = work.instances[CHOSEN], work.rows[SIGN], work.rows[SCORE]
    y, z = work.rows[LOCAL_SIGN], work.rows[LOCAL_SCORE]
    for r in range(n_rows):
        y[r] = sign[chosen[r]]
        z[r] = score[chosen[r]]


@inner
def clear_local(work: Workspace, n_rows: int, n_columns: int) -> None:
    """Forget the choice of rows and columns."""
    row, chosen, touched = work.instances[ROW], work.instances[CHOSEN], work.instances[TOUCHED]
    for r in range(n_rows):
        row[touched[chosen[r]]] = 0
    for c in range(n_columns):
        work.features[COLUMN, work.features[FEATURE, c]] = 0
