"""Objective, full gradient and duality gap at the current weights: all instances, all features.

With a_i = 2 max(0, v_i) the gradient of the loss is -X'(y a). Instances that share no feature with the weights all have
the score b; their common a = 2 max(0, 1 + b) enters through the column sums of the negatives, so that only touched
instances are read, and while b <= -1 only the violating ones.
"""

import numpy as np

from proxml_mpi.solve.newton_ahead import ROWS_AHEAD, ask_row
from proxml_mpi.solve.newton_data import (
    GRADIENT,
    MET,
    NEAR,
    OLD,
    SCORE,
    SIGN,
    SUPPORT,
    TOUCHED,
    WEIGHT,
    NewtonProblem,
    Workspace,
    inner,
    length,
)
from proxml_mpi.solve.objective import dual_value, ridge_dual_value


@inner
def certify(
    problem: NewtonProblem,
    work: Workspace,
    counts: tuple[int, int, int, int],
    bias: float,
    penalty: float,
    ridge: float,
    with_bias: bool,
) -> tuple[float, float, float, int, int]:
    """Return objective, dual value, gradient of the bias, number of met features, entries read.

    counts = (n_touched, n_near, n_support, n_untouched). Leaves X'(y a) in the gradient of the met features; for all
    others it is -common column_sum, where common = 2 max(0, 1 + bias).
    """
    n_touched, n_near, n_support, n_untouched = counts
    sign, score, weight, support = work.rows[SIGN], work.rows[SCORE], work.columns[WEIGHT], work.features[SUPPORT]
    touched, near = work.instances[TOUCHED], work.instances[NEAR]
    common = 2.0 * max(0.0, 1.0 + bias)
    loss = n_untouched * 0.25 * common * common
    total, square = n_untouched * common, n_untouched * common * common
    bias_gradient = -n_untouched * common
    n_met, n_read = 0, 0
    n_rows = n_near if common == 0.0 else n_touched
    # Nearly every feature will be met: marks would cost more than a look at all.
    is_dense = n_rows * len(problem.row_feature) > len(problem.negative) * len(work.is_met)
    for position in range(n_rows):
        place = near[position] if common == 0.0 else np.uint32(position + 1)
        i, y = touched[place], sign[place]
        if position + ROWS_AHEAD < n_rows:
            ahead = near[position + ROWS_AHEAD] if common == 0.0 else np.uint32(position + 1 + ROWS_AHEAD)
            ask_row(problem, touched[ahead])
        a = 2.0 * max(0.0, 1.0 - y * (score[place] + bias))
        loss += 0.25 * a * a
        total += a
        square += a * a
        bias_gradient += y * a
        force = y * a
        if common > 0.0:
            force += problem.negative[i] * common
        if force != 0.0:
            if is_dense:
                add_row(problem, work, i, force)
            else:
                n_met = meet_row(problem, work, i, force, n_met)
            n_read += length(problem.row_start, i)
    if is_dense:
        n_met = meet_all(work)
    largest = finish_gradient(problem, work, common, n_met)
    if with_bias:
        largest = max(largest, abs(bias_gradient))
    norm, squares = abs(bias), 0.0
    for position in range(n_support):
        norm += abs(weight[support[position]])
        squares += weight[support[position]] ** 2
    objective = penalty * norm + 0.5 * ridge * squares + loss
    dual = dual_value(largest, total, square, penalty)
    if ridge > 0.0:
        pull = abs(bias_gradient) if with_bias else 0.0
        n_steep = list_steep(problem, work, common, penalty, n_met)
        dual = max(dual, ridge_dual_value(work.columns[OLD], n_steep, pull, total, square, penalty, ridge))
    return objective, dual, bias_gradient, n_met, n_read


@inner
def add_row(problem: NewtonProblem, work: Workspace, i: int, force: float) -> None:
    """Add force x_i to the gradient."""
    gradient = work.columns[GRADIENT]
    for entry in range(problem.row_start[i], problem.row_start[i + 1]):
        gradient[problem.row_feature[entry]] += force * problem.row_value[entry]


@inner
def meet_all(work: Workspace) -> int:
    """Note that all features are met; return their number."""
    n_features = len(work.is_met)
    for j in range(n_features):
        work.features[MET, j] = j
        work.is_met[j] = 1
    return n_features


@inner
def meet_row(problem: NewtonProblem, work: Workspace, i: int, force: float, n_met: int) -> int:
    """Add force x_i to the gradient; return the new number of met features."""
    gradient, met = work.columns[GRADIENT], work.features[MET]
    for entry in range(problem.row_start[i], problem.row_start[i + 1]):
        j = problem.row_feature[entry]
        # Without a branch, which would be guessed wrongly too often; there is room for one beyond the last.
        met[n_met] = j
        n_met += 1 - work.is_met[j]
        work.is_met[j] = 1
        gradient[j] += force * problem.row_value[entry]
    return n_met


@inner
def finish_gradient(problem: NewtonProblem, work: Workspace, common: float, n_met: int) -> float:
    """Subtract the common part from the met features; return the largest |gradient| of all features."""
    gradient, met = work.columns[GRADIENT], work.features[MET]
    largest = 0.0
    for position in range(n_met):
        j = met[position]
        gradient[j] -= common * problem.column_sum[j]
        largest = max(largest, abs(gradient[j]))
    if common > 0.0:
        for j in problem.column_order:
            if not work.is_met[j]:
                return max(largest, common * abs(float(problem.column_sum[j])))
    return largest


@inner
def list_steep(problem: NewtonProblem, work: Workspace, common: float, penalty: float, n_met: int) -> int:
    """List every gradient beyond penalty in OLD, of met features and of others; return their number."""
    gradient, met, steep = work.columns[GRADIENT], work.features[MET], work.columns[OLD]
    n_steep = 0
    for position in range(n_met):
        steep[n_steep] = gradient[met[position]]
        n_steep += abs(steep[n_steep]) > penalty
    if common > 0.0:
        for j in problem.column_order:
            if common * abs(problem.column_sum[j]) <= penalty:
                break
            if not work.is_met[j]:
                steep[n_steep] = common * problem.column_sum[j]
                n_steep += 1
    return n_steep


@inner
def clear_gradient(work: Workspace, n_met: int) -> None:
    """Forget the gradient."""
    gradient, met = work.columns[GRADIENT], work.features[MET]
    for position in range(n_met):
        j = met[position]
        gradient[j] = 0.0
        work.is_met[j] = 0
