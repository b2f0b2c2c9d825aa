"""The kernels of the truncated Newton method: gradient, Hessian products, conjugate gradients, the search along a step.

A space is the Workspace of `truncated_newton`: vectors of features have n_features + 1 entries, the bias last.
"""

from typing import Any

import numpy as np
from numba import njit

from proxml_mpi.solve.objective import loss_gradient, score_instances

Array = Any

FORCING = 0.5  # conjugate gradients stop when a step gains less than this part of the mean gain of the steps so far
FLAT = 0.1  # of the slope where a line begins: the slope at which the search along it ends
MAX_TRIALS = 60  # points of a line; only rounding needs so many


@njit(cache=True, nogil=True)
def differentiate(problem: Array, space: Array, penalty: float, has_bias: bool) -> tuple[float, float]:
    """Set space.gradient from space.weights and their scores; return P and |g|^2."""
    w, g = space.weights, space.gradient
    bias_gradient, _, a_square_sum = loss_gradient(problem, space.scores, space.is_positive, g[:-1])
    g[-1] = bias_gradient if has_bias else 0.0
    for j in range(len(g)):
        g[j] += penalty * w[j]
    return 0.5 * penalty * dot(w, w) + 0.25 * a_square_sum, dot(g, g)


@njit(cache=True, nogil=True)
def list_active(space: Array) -> Array:
    """Return the instances of v_i > 0, ascending: int32 [n_active], the head of space.active."""
    n_active = 0
    for i in range(len(space.scores)):
        violation = 1.0 - space.scores[i] if space.is_positive[i] else 1.0 + space.scores[i]
        if violation > 0.0:
            space.active[n_active] = i
            n_active += 1
    return space.active[:n_active]


@njit(cache=True, nogil=True)
def hessian_product(
    problem: Array, active: Array, penalty: float, has_bias: bool, vector: Array, product: Array
) -> None:
    """Set product to H vector (float64 [n_features + 1] both), reading each active instance (int32 [n_active]) once."""
    for j in range(len(vector)):
        product[j] = penalty * vector[j]
    bias_product = 0.0
    for i in active:
        start, end = problem.row_start[i], problem.row_start[i + 1]
        score = vector[-1]
        for e in range(start, end):
            score += vector[problem.row_feature[e]] * problem.row_value[e]
        score *= 2.0
        bias_product += score
        for e in range(start, end):
            product[problem.row_feature[e]] += score * problem.row_value[e]
    if has_bias:
        product[-1] += bias_product


@njit(cache=True, nogil=True)
def conjugate_gradients(
    problem: Array,
    space: Array,
    active: Array,
    penalty: float,
    has_bias: bool,
    smallest_residual: float,
    stop: Array,
) -> None:
    """Set space.step to a rough solution of H s = -g, along which P falls however early this ends.

    The k-th step lowers the model g.s + s.H s / 2 by some gain; it is the last one when k gain <= FORCING x all gains.
    """
    s, r, d, q = space.step, space.residual, space.conjugate, space.product
    for j in range(len(s)):
        s[j] = 0.0
        r[j] = -space.gradient[j]
        d[j] = r[j]
    r_square = dot(r, r)
    gains = 0.0
    for k in range(1, len(s) + 1):
        hessian_product(problem, active, penalty, has_bias, d, q)
        alpha = r_square / dot(d, q)
        for j in range(len(s)):
            s[j] += alpha * d[j]
            r[j] -= alpha * q[j]
        gain = 0.5 * alpha * r_square
        gains += gain
        before, r_square = r_square, dot(r, r)
        if k * gain <= FORCING * gains or r_square <= smallest_residual**2 or stop[0] != 0:
            break
        beta = r_square / before
        for j in range(len(s)):
            d[j] = r[j] + beta * d[j]


@njit(cache=True, nogil=True)
def move(problem: Array, space: Array, penalty: float) -> bool:
    """Move space.weights and space.scores along space.step to where P is lower and nearly flat; False: there is none.

    P along the step is convex and piecewise quadratic: Newton's method, halving the interval where it leaves it.
    """
    w, s = space.weights, space.step
    score_instances(problem, s[:-1], s[-1], space.step_scores)
    first_slope, w_s, s_s = dot(space.gradient, s), dot(w, s), dot(s, s)
    t, low, high = 1.0, 0.0, np.inf
    for _ in range(MAX_TRIALS):
        change, slope, curvature = loss_along(space.scores, space.step_scores, space.is_positive, t)
        change += penalty * t * (w_s + 0.5 * t * s_s)
        slope += penalty * (w_s + t * s_s)
        curvature += penalty * s_s
        if change < 0.0 and abs(slope) <= FLAT * abs(first_slope):
            add_scaled(t, s, w)
            add_scaled(t, space.step_scores, space.scores)
            return True
        if slope < 0.0:
            low = t
        else:
            high = t
        t -= slope / curvature
        if not low < t < high:
            t = 0.5 * (low + high)
    return False


@njit(cache=True, nogil=True)
def loss_along(scores: Array, step_scores: Array, is_positive: Array, t: float) -> tuple[float, float, float]:
    """Return by how much the loss at scores + t step_scores differs from that at scores, its slope and curvature in t.

    All float64 [n_instances]. The difference is summed by instance, so that it is exact when it is small.
    """
    change = 0.0
    slope = 0.0
    curvature = 0.0
    for i in range(len(scores)):
        y = 1.0 if is_positive[i] else -1.0
        before = max(0.0, 1.0 - y * scores[i])
        after = max(0.0, 1.0 - y * (scores[i] + t * step_scores[i]))
        change += (after - before) * (after + before)
        if after > 0.0:
            slope -= 2.0 * y * step_scores[i] * after
            curvature += 2.0 * step_scores[i] * step_scores[i]
    return change, slope, curvature


@njit(cache=True, nogil=True)
def add_scaled(t: float, x: Array, y: Array) -> None:
    """Add t x to y."""
    for j in range(len(x)):
        y[j] += t * x[j]


@njit(cache=True, nogil=True)
def dot(x: Array, y: Array) -> float:
    """Return x.y, summed in the order of the entries."""
    total = 0.0
    for j in range(len(x)):
        total += x[j] * y[j]
    return total
