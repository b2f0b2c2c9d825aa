"""A direct step of the quadratic model: Newton's direction on the weights in work, and the minimum along it."""

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.newton_data import (
    CHANGE,
    FEW,
    LIST,
    RESIDUAL,
    SUM,
    TRIAL,
    TRIAL_RESIDUAL,
    Local,
    U,
    Workspace,
    inner,
)
from proxml_mpi.solve.newton_model import best_bias, dot


@inner
def direct_step(
    work: Workspace,
    local: Local,
    size: int,
    n_active: int,
    m: float,
    total: float,
    b: float,
    cap: float,
    with_bias: bool,
    half: float,
    half_ridge: float,
) -> tuple[float, float]:
    """Go along the Newton direction on the listed columns, all with weights, to the minimum; return E and b."""
    row, value, start, listed = local.active_row, local.active_value, work.starts[FEW], work.features[LIST]
    e, u, s = work.rows[RESIDUAL], work.columns[U], work.columns[SUM]
    force, p = work.columns[CHANGE], work.columns[TRIAL]
    is_free = with_bias and b != 0.0 and b < cap
    fill_gram(work, local, size, n_active, m, is_free, half_ridge)
    for k in range(size):
        j = listed[k]
        rho = dot(row, value, start[j], start[j + 1], e) - b * s[j] - half_ridge * u[j]
        force[k] = rho - (half if u[j] > 0.0 else -half)
        p[k] = force[k]
    if not solve_dense(work.gram, p, size):
        return total, b
    slope, bias_step = 0.0, 0.0
    for k in range(size):
        slope += force[k] * p[k]
        if is_free:
            bias_step -= s[listed[k]] * p[k] / m
    if not slope > 0.0:
        return total, b
    kink = force
    share = walk_kinks(u, listed, p, kink, size, slope, half)
    if is_free and (b + share * bias_step > cap or b * (b + share * bias_step) <= 0.0):
        share = ((cap if b + share * bias_step > cap else 0.0) - b) / bias_step
    for k in range(size):
        j = listed[k]
        new = u[j] + share * p[k] if share != kink[k] else 0.0
        step = new - u[j]
        u[j] = new
        total -= step * s[j]
        for entry in range(start[j], start[j + 1]):
            e[row[entry]] -= step * value[entry]
    return total, best_bias(total, m, cap, with_bias, half)


@inner
def fill_gram(
    work: Workspace, local: Local, size: int, n_active: int, m: float, is_free: bool, half_ridge: float
) -> None:
    """Fill the lower triangle of work.gram with X'X (- s s'/m) + mu/2 of the listed columns, and a little more."""
    row, value, start, listed = local.active_row, local.active_value, work.starts[FEW], work.features[LIST]
    gram, s, dense = work.gram, work.columns[SUM], work.rows[TRIAL_RESIDUAL]
    for r in range(n_active):
        dense[r] = 0.0
    top = 0.0
    for k in range(size):
        j = listed[k]
        for entry in range(start[j], start[j + 1]):
            dense[row[entry]] = value[entry]
        for other in range(k, size):
            i = listed[other]
            product = -s[i] * s[j] / m if is_free else 0.0
            for entry in range(start[i], start[i + 1]):
                product += value[entry] * dense[row[entry]]
            gram[other, k] = product
        for entry in range(start[j], start[j + 1]):
            dense[row[entry]] = 0.0
        top = max(top, gram[k, k])
    for k in range(size):
        gram[k, k] += 1e-7 * top + half_ridge


@inner
def solve_dense(a: NDArray[np.float64], x: NDArray[np.float64], n: int) -> bool:
    """Overwrite x [n] with the solution of A x = x, the lower triangle of a with L of A = L L'; False when singular."""
    for i in range(n):
        for j in range(i + 1):
            total = a[i, j]
            for k in range(j):
                total -= a[i, k] * a[j, k]
            if j < i:
                a[i, j] = total / a[j, j]
            elif total > 0.0:
                a[i, i] = np.sqrt(total)
            else:
                return False
    for i in range(n):
        for k in range(i):
            x[i] -= a[i, k] * x[k]
        x[i] /= a[i, i]
    for i in range(n - 1, -1, -1):
        x[i] /= a[i, i]
        for k in range(i):
            x[k] -= a[i, k] * x[i]
    return True


@inner
def walk_kinks(
    u: NDArray[np.float64],
    listed: NDArray[np.uint32],
    p: NDArray[np.float64],
    kink: NDArray[np.float64],
    size: int,
    slope: float,
    half: float,
) -> float:
    """Return the minimising step length in [0, 1] along p; kink [size] receives where each weight changes sign.

    Half the derivative along p is -slope (1 - t), plus 2 half |p_k| for every weight past its sign change.
    """
    for k in range(size):
        t = -u[listed[k]] / p[k] if p[k] != 0.0 else np.inf
        kink[k] = t if t > 0.0 else np.inf
    passed, last = 0.0, 0.0
    while True:
        # The next kink, and all the weights that change sign there.
        t, jump = 1.0, 0.0
        for k in range(size):
            if last < kink[k] < t:
                t, jump = kink[k], 0.0
            if kink[k] == t:
                jump += 2.0 * half * abs(p[k])
        if t >= 1.0 or slope * (1.0 - t) <= passed:
            return max(0.0, 1.0 - passed / slope)
        passed += jump
        if slope * (1.0 - t) <= passed:
            return t
        last = t
