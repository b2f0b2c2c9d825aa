"""The objective of one label, its gradient and the dual bound, over all instances and all features.

With a_i = 2 max(0, v_i) the dual value

    D(s a) = s sum_i a_i - (s^2 / 4) sum_i a_i^2,    s = min(1, lambda / g, 2 sum a / sum a^2)

bounds the optimum from below, g being the largest |sum_i y_i a_i x_ij| over the features and the bias, which is the
largest entry of the gradient. P(w, b) - D(s a) is the duality gap: the certificate of the label.

With a ridge mu |w|^2 / 2 in P, features may go beyond lambda at a price, and only the bias bounds s: for s <= 1 and
s |sum_i y_i a_i| <= lambda

    D(s a) = s sum_i a_i - (s^2 / 4) sum_i a_i^2 - sum_j max(0, s |g_j| - lambda)^2 / (2 mu),    g = sum_i y_i a_i x_i

concave in s. The first bound holds as well, and is the better one for a tiny mu.
"""

from typing import Any

import numpy as np
from numba import njit

N_RIDGE_STEPS = 6  # each of them costs a look at the features beyond lambda

Array = Any  # numba kernels take arrays of the dtypes and shapes that their docstrings give


@njit(cache=True, nogil=True)
def score_instances(problem: Array, weights: Array, bias: float, scores: Array) -> None:
    """Set scores (float64 [n_instances]) to X w + b, reading only the columns of non-zero weights."""
    scores[:] = bias
    for j in range(len(weights)):
        if weights[j] != 0.0:
            for e in range(problem.column_start[j], problem.column_start[j + 1]):
                scores[problem.column_instance[e]] += weights[j] * problem.column_value[e]


@njit(cache=True, nogil=True)
def squared_hinge(scores: Array, is_positive: Array) -> float:
    """Return sum_i max(0, v_i)^2."""
    loss = 0.0
    for i in range(len(scores)):
        violation = 1.0 - scores[i] if is_positive[i] else 1.0 + scores[i]
        if violation > 0.0:
            loss += violation * violation
    return loss


@njit(cache=True, nogil=True)
def loss_gradient(problem: Array, scores: Array, is_positive: Array, gradient: Array) -> tuple[float, float, float]:
    """Set gradient (float64 [n_features]) to -sum_i y_i a_i x_i; return that of the bias, sum a and sum a^2."""
    gradient[:] = 0.0
    bias_gradient = 0.0
    a_sum = 0.0
    a_square_sum = 0.0
    for i in range(len(scores)):
        y = 1.0 if is_positive[i] else -1.0
        a = 2.0 * (1.0 - y * scores[i])
        if a > 0.0:
            a_sum += a
            a_square_sum += a * a
            bias_gradient -= y * a
            for e in range(problem.row_start[i], problem.row_start[i + 1]):
                gradient[problem.row_feature[e]] -= y * a * problem.row_value[e]
    return bias_gradient, a_sum, a_square_sum


@njit(cache=True, nogil=True)
def dual_value(largest: float, a_sum: float, a_square_sum: float, penalty: float) -> float:
    """Return D(s a), the best lower bound of the optimum along the ray of a."""
    if a_square_sum == 0.0:
        return 0.0
    s = min(1.0, 2.0 * a_sum / a_square_sum)
    if largest > 0.0:
        s = min(s, penalty / largest)
    return s * a_sum - 0.25 * s * s * a_square_sum


@njit(cache=True, nogil=True)
def ridge_dual_value(
    gradient: Array, n: int, bias_pull: float, a_sum: float, a_square_sum: float, penalty: float, ridge: float
) -> float:
    """Return the largest D(s a) with a ridge that a few Newton steps in s find.

    gradient: float64, its first n entries at least those beyond the penalty; bias_pull: |gradient of the bias|, or 0
    without a bias. D' is concave and falls: a step to the right may go too far, those to the left do not.
    """
    most = penalty / bias_pull if bias_pull > penalty else 1.0
    s, best = most, 0.0
    for _ in range(N_RIDGE_STEPS):
        value, slope = s * a_sum - 0.25 * s * s * a_square_sum, a_sum - 0.5 * s * a_square_sum
        curvature = 0.5 * a_square_sum
        for position in range(n):
            g = abs(gradient[position])
            excess = s * g - penalty
            if excess > 0.0:
                value -= excess * excess / (2.0 * ridge)
                slope -= excess * g / ridge
                curvature += g * g / ridge
        best = max(best, value)
        if not 0.0 < curvature < np.inf:
            break
        before, s = s, min(most, s + slope / curvature)
        if abs(s - before) <= 1e-15:
            break
    return best


@njit(cache=True, nogil=True)
def l1_norm(weights: Array) -> float:
    """Return |w|_1, summed in the order of the features."""
    norm = 0.0
    for j in range(len(weights)):
        norm += abs(weights[j])
    return norm


@njit(cache=True, nogil=True)
def penalised(weights: Array, bias: float, penalty: float, ridge: float) -> float:
    """Return lambda (|w|_1 + |b|) + mu/2 |w|^2."""
    total = penalty * (l1_norm(weights) + abs(bias))
    if ridge > 0.0:
        for j in range(len(weights)):
            total += 0.5 * ridge * weights[j] * weights[j]
    return total


@njit(cache=True, nogil=True)
def best_dual_value(
    gradient: Array, bias_pull: float, a_sum: float, a_square_sum: float, penalty: float, ridge: float
) -> float:
    """Return the better of the two dual bounds; gradient: float64 [n_features], bias_pull as in ridge_dual_value."""
    largest = bias_pull
    for j in range(len(gradient)):
        largest = max(largest, abs(gradient[j]))
    value = dual_value(largest, a_sum, a_square_sum, penalty)
    if ridge > 0.0:
        other = ridge_dual_value(gradient, len(gradient), bias_pull, a_sum, a_square_sum, penalty, ridge)
        value = max(value, other)
    return value


@njit(cache=True, nogil=True)
def certify(
    problem: Array,
    weights: Array,
    bias: float,
    is_positive: Array,
    penalty: float,
    has_bias: bool,
    scores: Array,
    gradient: Array,
    ridge: float = 0.0,
) -> tuple[float, float]:
    """Return P(w, b) and the dual bound that (w, b) yields; leave X w + b in scores and the gradient in gradient.

    weights, gradient: float64 [n_features]; scores: float64 [n_instances]; is_positive: uint8 [n_instances].
    """
    score_instances(problem, weights, bias, scores)
    bias_gradient, a_sum, a_square_sum = loss_gradient(problem, scores, is_positive, gradient)
    objective = penalised(weights, bias, penalty, ridge) + 0.25 * a_square_sum
    pull = abs(bias_gradient) if has_bias else 0.0
    return objective, best_dual_value(gradient, pull, a_sum, a_square_sum, penalty, ridge)


def largest_useful_penalty(problem: Any, positives: Any, has_bias: bool) -> float:
    """Return lambda_max = 2 |X'y|_inf (the bias column included): from there on the optimum is w = 0, b = 0."""
    n_instances = len(problem.row_start) - 1
    y = np.full(n_instances, -1.0)
    y[positives] = 1.0
    instances = np.repeat(y, np.diff(problem.row_start))
    sums = np.bincount(problem.row_feature, problem.row_value * instances, minlength=len(problem.column_start) - 1)
    largest = np.abs(sums).max(initial=0.0)
    return float(2.0 * max(largest, abs(y.sum()) if has_bias else 0.0))
