"""Steps of the quadratic model in one direction, to the minimum along it: Newton's, or where sweeps keep drifting."""

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.newton_data import (
    CHANGE,
    FEW,
    HISTORY,
    LIST,
    RESIDUAL,
    SUM,
    TRIAL,
    TRIAL_RESIDUAL,
    U,
    Workspace,
    inner,
)
from proxml_mpi.solve.newton_gram import fill_gram, solve_dense
from proxml_mpi.solve.newton_model import Model, best_bias, dot

FARTHEST = 1e6  # multiples of a direction that a step goes


@inner
def aim_directly(work: Workspace, model: Model, size: int, b: float) -> bool:
    """Fill TRIAL with the Newton direction on the listed columns, all with weights; False where there is none."""
    start, listed = work.starts[FEW], work.features[LIST]
    e, u, s, p = work.rows[RESIDUAL], work.columns[U], work.columns[SUM], work.columns[TRIAL]
    fill_gram(work, model, size, b != 0.0 and b < model.cap)
    for k in range(size):
        j = listed[k]
        rho = dot(model.row, model.value, start[j], start[j + 1], e) - b * s[j] - model.half_ridge * u[j]
        p[k] = rho - (model.half if u[j] > 0.0 else -model.half)
    return solve_dense(work.gram, p, size, work.columns[HISTORY : HISTORY + 4])


@inner
def aim_onwards(work: Workspace, size: int) -> None:
    """Fill TRIAL with the way that the listed weights, none of them zero, came since HISTORY.

    Between columns that are nearly equal sweeps move weight at a constant pace: extrapolation finds no end to it, which
    is where one of the weights vanishes, thousands of sweeps away.
    """
    u, listed, p, before = work.columns[U], work.features[LIST], work.columns[TRIAL], work.columns[HISTORY]
    for k in range(size):
        p[k] = u[listed[k]] - before[listed[k]]


@inner
def go_along(work: Workspace, model: Model, size: int, total: float, b: float) -> tuple[float, float]:
    """Change the listed weights, none of them zero, by the multiple of TRIAL that minimises the model; return E and b.

    A bias that is free follows, as far as the cap or 0.
    """
    row, value, start, listed = model.row, model.value, work.starts[FEW], work.features[LIST]
    e, change, u, s = work.rows[RESIDUAL], work.rows[TRIAL_RESIDUAL], work.columns[U], work.columns[SUM]
    p, kink, half, half_ridge = work.columns[TRIAL], work.columns[CHANGE], model.half, model.half_ridge
    for r in range(model.n_active):
        change[r] = 0.0
    slope, curvature, change_sum = 0.0, 0.0, 0.0
    for k in range(size):
        j = listed[k]
        slope -= p[k] * (half_ridge * u[j] + (half if u[j] > 0.0 else -half))
        curvature += half_ridge * p[k] * p[k]
        change_sum += p[k] * s[j]
        for entry in range(start[j], start[j + 1]):
            change[row[entry]] += p[k] * value[entry]
    for r in range(model.n_active):
        slope += (e[r] - b) * change[r]
        curvature += change[r] * change[r]
    bias_step = -change_sum / model.m if model.with_bias and b != 0.0 and b < model.cap else 0.0
    curvature = max(0.0, curvature + bias_step * change_sum)
    if not slope > 0.0:
        return total, b
    t = walk_kinks(u, listed, p, kink, size, slope, curvature, half)
    if b + t * bias_step > model.cap:
        t = (model.cap - b) / bias_step
    elif b * (b + t * bias_step) <= 0.0 and bias_step != 0.0:
        t = -b / bias_step
    for k in range(size):
        j = listed[k]
        u[j] = u[j] + t * p[k] if t != kink[k] else 0.0
    for r in range(model.n_active):
        e[r] -= t * change[r]
    total -= t * change_sum
    return total, best_bias(model, total)


@inner
def walk_kinks(
    u: NDArray[np.float64],
    listed: NDArray[np.uint32],
    p: NDArray[np.float64],
    kink: NDArray[np.float64],
    size: int,
    slope: float,
    curvature: float,
    half: float,
) -> float:
    """Return the minimising step length along p, at most FARTHEST; kink [size] receives where each weight changes sign.

    Half the derivative along p is -slope + t curvature, plus 2 half |p_k| for every weight past its sign change.
    """
    for k in range(size):
        t = -u[listed[k]] / p[k] if p[k] != 0.0 else np.inf
        kink[k] = t if t > 0.0 else np.inf
    last = 0.0
    while True:
        # The next kink, and all the weights that change sign there.
        t, jump = FARTHEST, 0.0
        for k in range(size):
            if last < kink[k] < t:
                t, jump = kink[k], 0.0
            if kink[k] == t:
                jump += 2.0 * half * abs(p[k])
        if t * curvature >= slope:
            return slope / curvature
        slope -= jump
        if t >= FARTHEST or t * curvature >= slope:
            return t
        last = t
