"""Objective, full gradient and duality gap at the current weights: all instances, all features.

With a_i = 2 max(0, v_i) the gradient of the loss is -X'(y a). Instances that share no feature with the weights all have
the score b; their common a = 2 max(0, 1 + b) enters through the column sums of the negatives, so that only touched
instances are read, and while b <= -1 only the violating ones.
"""

from typing import NamedTuple

import numpy as np

from proxml_mpi.solve.newton_data import (
    NEAR,
    OLD,
    SCORE,
    SIGN,
    SUPPORT,
    TOUCHED,
    VIOLATION,
    WEIGHT,
    NewtonProblem,
    Workspace,
    inner,
)
from proxml_mpi.solve.newton_gradient import LEAST_ROWS, estimate_gradient, finish_gradient, list_steep, read_rows
from proxml_mpi.solve.objective import dual_value, ridge_dual_value


class Certificate(NamedTuple):
    """What is known at some weights. With a gradient that is not whole, the dual value is an estimate, and no bound."""

    objective: float
    dual: float
    bias_gradient: float
    n_met: int  # features with a gradient
    n_read: int  # entries
    is_whole: bool


@inner
def certify(
    problem: NewtonProblem,
    work: Workspace,
    counts: tuple[int, int, int, int],
    bias: float,
    penalty: float,
    ridge: float,
    with_bias: bool,
    enough: float,
    may_estimate: bool,
) -> Certificate:
    """Return the certificate, with a dual value of 0 and no gradient when the objective is at most `enough`.

    counts = (n_touched, n_near, n_support, n_untouched). Leaves X'(y a) in the gradient of the met features; for all
    others it is -common column_sum, where common = 2 max(0, 1 + bias).
    """
    n_touched, n_near, n_support, n_untouched = counts
    sign, score, near, force = work.rows[SIGN], work.rows[SCORE], work.instances[NEAR], work.rows[VIOLATION]
    common = 2.0 * max(0.0, 1.0 + bias)
    loss = n_untouched * 0.25 * common * common
    total, square = n_untouched * common, n_untouched * common * common
    bias_gradient = -n_untouched * common
    is_near = common == 0.0
    n_rows = n_near if is_near else n_touched
    for position in range(n_rows):
        place = near[position] if is_near else np.uint32(position + 1)
        y = sign[place]
        a = 2.0 * max(0.0, 1.0 - y * (score[place] + bias))
        loss += 0.25 * a * a
        total += a
        square += a * a
        bias_gradient += y * a
        force[position] = y * a + common
    objective = penalised(work, n_support, bias, penalty, ridge) + loss
    if objective <= enough:
        return Certificate(objective, 0.0, bias_gradient, 0, 0, True)
    if not is_near and problem.n_negative < len(problem.negative):
        leave_out(problem, work, n_rows, common)
    n_met, n_read, is_estimate = 0, 0, False
    if may_estimate and n_rows >= LEAST_ROWS:
        n_met, n_read, is_estimate = estimate_gradient(problem, work, n_rows, is_near, n_support, common, penalty)
    if not is_estimate:
        n_met, read = read_rows(problem, work, n_rows, is_near)
        n_read += read
    largest = finish_gradient(problem, work, common, n_met)
    if with_bias:
        largest = max(largest, abs(bias_gradient))
    dual = dual_value(largest, total, square, penalty)
    if ridge > 0.0:
        pull = abs(bias_gradient) if with_bias else 0.0
        n_steep = list_steep(problem, work, common, penalty, n_met)
        dual = max(dual, ridge_dual_value(work.columns[OLD], n_steep, pull, total, square, penalty, ridge))
    return Certificate(objective, dual, bias_gradient, n_met, n_read, not is_estimate)


@inner
def penalised(work: Workspace, n_support: int, bias: float, penalty: float, ridge: float) -> float:
    """Return penalty (|w|_1 + |b|) + ridge |w|^2 / 2."""
    weight, support = work.columns[WEIGHT], work.features[SUPPORT]
    norm, squares = abs(bias), 0.0
    for position in range(n_support):
        norm += abs(weight[support[position]])
        squares += weight[support[position]] ** 2
    return penalty * norm + 0.5 * ridge * squares


@inner
def leave_out(problem: NewtonProblem, work: Workspace, n_touched: int, common: float) -> None:
    """Take the common force back from touched instances that are in no column sum: positives that are no negatives."""
    touched, force = work.instances[TOUCHED], work.rows[VIOLATION]
    for position in range(n_touched):
        force[position] -= (1.0 - problem.negative[touched[position + 1]]) * common
