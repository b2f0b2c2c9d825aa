"""Line search along a step for lambda |w|_1 + mu/2 |w|^2 + sum of squared hinges.

It is convex, and piecewise quadratic in the step length; the ridge's part of its slope is a line.
"""

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.newton_data import inner

Vector = NDArray[np.float64]
Lines = tuple[Vector, Vector, int]  # values, their change along the step, how many
Group = tuple[float, float, float]
Line = tuple[float, float]


@inner
def derivative(t: float, rows: Lines, weights: Lines, group: Group, penalty: float, ridge: Line) -> tuple[float, float]:
    """Return slope and curvature at t of sum max(0, v + t dv)^2 + penalty |w + t dw|_1 + ridge, from the left.

    rows = (v, dv, their number), weights = (w, dw, their number); group = (m, v, dv) stands for m more rows that are
    all alike; ridge = (at 0, at 1 - at 0) is the ridge's slope.
    """
    v, dv, n_rows = rows
    w, dw, n_weights = weights
    slope, curvature = hinges(t, v, dv, n_rows)
    many, group_v, group_dv = group
    value = group_v + t * group_dv
    if value > 0.0:
        slope += many * value * group_dv
        curvature += many * group_dv * group_dv
    l1 = 0.0
    for j in range(n_weights):
        value = w[j] + t * dw[j]
        if value > 0.0 or (value == 0.0 and dw[j] < 0.0):
            l1 += dw[j]
        elif value < 0.0 or dw[j] > 0.0:
            l1 -= dw[j]
    return 2.0 * slope + penalty * l1 + (ridge[0] + t * ridge[1]), 2.0 * curvature + ridge[1]


@inner
def hinges(t: float, v: Vector, dv: Vector, n: int) -> tuple[float, float]:
    """Return half the hinges' slope and curvature; four sums at a time, since additions wait for each other."""
    s0, s1, s2, s3, c0, c1, c2, c3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    i = 0
    while i + 3 < n:
        x0, x1, x2, x3 = v[i] + t * dv[i], v[i + 1] + t * dv[i + 1], v[i + 2] + t * dv[i + 2], v[i + 3] + t * dv[i + 3]
        d0, d1 = dv[i] if x0 > 0.0 else 0.0, dv[i + 1] if x1 > 0.0 else 0.0
        d2, d3 = dv[i + 2] if x2 > 0.0 else 0.0, dv[i + 3] if x3 > 0.0 else 0.0
        s0, s1, s2, s3 = s0 + x0 * d0, s1 + x1 * d1, s2 + x2 * d2, s3 + x3 * d3
        c0, c1, c2, c3 = c0 + d0 * d0, c1 + d1 * d1, c2 + d2 * d2, c3 + d3 * d3
        i += 4
    while i < n:
        x0 = v[i] + t * dv[i]
        d0 = dv[i] if x0 > 0.0 else 0.0
        s0, c0 = s0 + x0 * d0, c0 + d0 * d0
        i += 1
    return (s0 + s1) + (s2 + s3), (c0 + c1) + (c2 + c3)


@inner
def search(rows: Lines, weights: Lines, group: Group, penalty: float, ridge: float) -> float:
    """Return the step length in [0, 1] that minimises (to 3 % of the first slope), or 0 when the step leads nowhere.

    The slope grows with t: Newton steps on it inside a shrinking bracket. By convexity the objective at low lies below
    that at 0 by at least -low_slope low, and a point t > low rises from there by at most slope (t - low).
    Arguments as in derivative, but ridge is mu. The last weight is the bias, which has no ridge.
    """
    line = (0.0, 0.0)
    if ridge > 0.0:
        w, dw, n_weights = weights
        slope, curvature = 0.0, 0.0
        for j in range(n_weights - 1):
            slope += w[j] * dw[j]
            curvature += dw[j] * dw[j]
        line = (ridge * slope, ridge * curvature)
    slope, _ = derivative(1.0, rows, weights, group, penalty, line)
    if slope <= 0.0:
        return 1.0
    # A hair's breadth to the right of 0, where the signs of the weights are those of the step.
    low, high = 1e-14, 1.0
    low_slope, curvature = derivative(low, rows, weights, group, penalty, line)
    if low_slope >= 0.0:
        return 0.0
    enough = -0.03 * low_slope
    t = low - low_slope / curvature if curvature > 0.0 else 0.5
    while high - low > 1e-6 * high:
        if not low < t < high:
            t = 0.5 * (low + high)
        slope, curvature = derivative(t, rows, weights, group, penalty, line)
        if abs(slope) <= enough and slope * (t - low) < -0.5 * low_slope * low:
            return t
        if slope <= 0.0:
            low, low_slope = t, slope
        else:
            high = t
        t = t - slope / curvature if curvature > 0.0 else 0.5 * (low + high)
    return low if low > 1e-14 else 0.0
