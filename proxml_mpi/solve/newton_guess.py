"""A first guess for frequent labels of small dense data: the weights of least squares, as long as suits the objective.

Such a label has most features and many of the instances in its local problems from the first one on; the guess, which
costs one pass over the data, saves three or four of them. All labels share one inverse, which is made once.
"""

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.newton_data import FEATURE, GRADIENT, NewtonProblem, U, Workspace, inner
from proxml_mpi.solve.newton_score import spread
from proxml_mpi.solve.newton_step import WIDTH, advance, list_near, list_support, settle_bias
from proxml_mpi.solve.newton_touch import touch_all

FREQUENT = 400  # instances for each positive, at most
FIRST_BIAS = -1.05
FAR = 4.0  # how far the search along the guess goes: the mean score of the positives there


@inner
def guess(
    problem: NewtonProblem, work: Workspace, positives: NDArray[np.int32], penalty: float, ridge: float
) -> tuple[float, int, int, int, float]:
    """Take the best step from 0 along the guess; return the bias, numbers of near instances and weights, entries read.

    And by how much an instance that is not near can move before it violates. Touches all instances, in order.
    """
    n_touched = touch_all(work, positives, len(positives), 0, 0)
    n_near = list_near(work, positives, n_touched, FIRST_BIAS)
    n_columns = len(problem.least_squares)
    solve_least_squares(problem, work, positives)
    _, n_read = spread(problem, work, n_columns, n_touched, True, False)
    step = advance(
        work, positives, n_columns, n_touched, 0, FIRST_BIAS, FIRST_BIAS, penalty, ridge, n_near, 0, WIDTH, False
    )
    b = settle_bias(work, step.n_near, 0, step.bias, penalty, step.margin)
    return b, step.n_near, list_support(work, n_columns), n_read, step.margin - abs(b - step.bias)


@inner
def solve_least_squares(problem: NewtonProblem, work: Workspace, positives: NDArray[np.int32]) -> None:
    """Choose all features as local columns, and fill U with their weights by least squares, as long as FAR says."""
    inverse, n_columns = problem.least_squares, len(problem.least_squares)
    u, total, feature = work.columns[U], work.columns[GRADIENT], work.features[FEATURE]
    for i in positives:
        for entry in range(problem.row_start[i], problem.row_start[i + 1]):
            total[problem.row_feature[entry]] += problem.row_value[entry]
    for c in range(n_columns):
        feature[c] = c
        u[c] = 0.0
    share = len(positives) / len(problem.negative)
    for j in range(n_columns):
        pull = total[j] - share * problem.column_sum[j]
        for c in range(n_columns):
            u[c] += pull * inverse[j, c]
    score = 0.0
    for c in range(n_columns):
        score += u[c] * total[c]
        total[c] = 0.0
    scale = FAR * len(positives) / score if score > 0.0 else 0.0
    for c in range(n_columns):
        u[c] *= scale
