"""The quadratic model on fixed active rows, a Lasso, by coordinate descent with extrapolation; the bias is eliminated.

    min over u, b:  sum over active rows (y - x.u - b)^2 + lambda (|u|_1 + |b|) + mu/2 |u|^2,    b <= cap

The residual e = y - Xu is kept without the bias, E is its sum over the m active rows, and after every change of u

    b = min(soft(E, lambda / 2) / m, cap),    rho_j = sum over rows of x_j (e - b) - mu/2 u_j: half the negative slope.

While b is free it follows u, and the curvature of a coordinate is q_j - s_j^2 / m + mu/2, s and q being the sums of a
column and of its squares. The active rows are few and the model ill conditioned: sweeps alone crawl. Anderson's
extrapolation of the last iterates (Bertrand and Massias, 2021) costs half a sweep every sixth sweep, in short models
every fourth, and is taken when it lowers the model; sweeps that do not slow down are followed to the minimum on their
way instead. In large supports a few weights often move much more than all others: they are swept over again before the
next sweep over all. Small supports are solved directly when ten sweeps have not done it. (On large ones the Newton
direction crosses hundreds of kinks, and a factorisation buys less than the sweeps of the same time; it is the last
resort where they have long led nowhere.)
"""

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.newton_data import (
    CURVATURE,
    FEW,
    HISTORY,
    LIST,
    MOST_DIRECT,
    MOVING,
    N_HISTORY,
    RESIDUAL,
    SHORT_HISTORY,
    SQUARE,
    SUM,
    TRIAL,
    TRIAL_RESIDUAL,
    U,
    Workspace,
    allocating,
    inner,
)
from proxml_mpi.solve.newton_direct import aim_directly, aim_onwards, go_along
from proxml_mpi.solve.newton_gram import solve_dense, triangle
from proxml_mpi.solve.newton_model import Model, best_bias, dot, model_value, soft

PATIENCE = 10  # sweeps before a direct step
# Where less than one in FEW_MOVE of the weights moves by more than MUCH of the largest move, these are swept again.
FEW_MOVE, MUCH, AGAIN = 16, 0.1, 2
PACE = 0.9  # of the first of the last iterates: steps as large as that do not converge, they drift


@inner
def copy(target: NDArray[np.float64], source: NDArray[np.float64], n: int) -> None:
    """Copy the first n numbers; numba compiles this much faster than slices."""
    for k in range(n):
        target[k] = source[k]


@inner
def minimise(work: Workspace, model: Model, total: float, tolerance: float, max_sweeps: int, most_direct: int) -> float:
    """Descend in the weights U; return the bias. RESIDUAL holds e, total its sum, rows without features included."""
    n, u, listed = model.n_columns, work.columns[U], work.features[LIST]
    b = best_bias(model, total)
    for j in range(n):
        listed[j] = j
        s, q = work.columns[SUM, j], work.columns[SQUARE, j]
        work.columns[CURVATURE, j] = model.half_ridge + max(q - s * s / max(model.m, 1.0), 0.02 * q)
    # Few sweeps would be over before the usual number of them is extrapolated.
    n_history = SHORT_HISTORY if max_sweeps < 2 * N_HISTORY else N_HISTORY
    n_listed, is_full, n_kept, since, first_worst = n, True, 0, 0, 0.0
    for _ in range(max_sweeps):
        worst, total, b = sweep(work, model, LIST, n_listed, total, b)
        if not is_full and worst > tolerance and n_listed > MOST_DIRECT:
            n_moving = list_moving(work, n_listed, MUCH * worst)
            if FEW_MOVE * n_moving < n_listed:
                for _again in range(AGAIN):
                    total, b = sweep(work, model, MOVING, n_moving, total, b)[1:]
        if worst <= tolerance and is_full:
            break
        is_full = worst <= tolerance
        n_listed = 0
        for j in range(n):
            if is_full or u[j] != 0.0:
                listed[n_listed] = j
                n_listed += 1
        if not is_full:
            copy(work.columns[HISTORY + n_kept], u, n)
            n_kept += 1
            if n_kept == 1:
                first_worst = worst
            elif n_kept == n_history:
                n_kept = 0
                if worst > PACE * first_worst:
                    aim_onwards(work, n_listed)
                    total, b = go_along(work, model, n_listed, total, b)
                else:
                    total, b = extrapolate(work, model, n_history, total, b)
            since += 1
            # Not after a step along the drift: it may have ended where a listed weight vanishes.
            if since >= PATIENCE and n_kept > 0 and 0 < n_listed <= most_direct:
                if aim_directly(work, model, n_listed, b):
                    total, b = go_along(work, model, n_listed, total, b)
                n_kept, since = 0, 0
    return b


@inner
def sweep(
    work: Workspace, model: Model, line: int, n_listed: int, total: float, b: float
) -> tuple[float, float, float]:
    """Pass once over the columns listed in a line of features; return the largest move, E, b.

    Moves are in units of the gradient; those of columns with a weight before are left in TRIAL.
    """
    row, value, listed, start = model.row, model.value, work.features[line], work.starts[FEW]
    e, u, s, q, move = (
        work.rows[RESIDUAL],
        work.columns[U],
        work.columns[SUM],
        work.columns[SQUARE],
        work.columns[TRIAL],
    )
    curvature, half, half_ridge = work.columns[CURVATURE], model.half, model.half_ridge
    with_bias, cap, worst = model.with_bias, model.cap, 0.0
    share = 1.0 / model.m if model.m > 0.0 else 0.0
    for position in range(n_listed):
        j = listed[position]
        if q[j] <= 0.0:
            u[j] = 0.0
            continue
        rho = dot(row, value, start[j], start[j + 1], e) - b * s[j]
        old = u[j]
        if old == 0.0 and abs(rho) <= half:
            continue
        rho -= half_ridge * old
        move[j] = 0.0
        is_free = with_bias and b != 0.0 and b < cap
        h = curvature[j] if is_free else q[j] + half_ridge
        step = soft(old * h + rho, half) / h - old
        if is_free:
            moved = b - step * s[j] * share
            if moved > cap or moved * b <= 0.0:
                h = q[j] + half_ridge
                step = soft(old * h + rho, half) / h - old
        if step == 0.0:
            continue
        u[j] = old + step
        move[j] = abs(step) * h
        worst = max(worst, move[j])
        for entry in range(start[j], start[j + 1]):
            e[row[entry]] -= step * value[entry]
        total -= step * s[j]
        b = min(soft(total, half) * share, cap) if with_bias else 0.0
    return worst, total, b


@inner
def list_moving(work: Workspace, n_listed: int, least: float) -> int:
    """List the columns that the last sweep over the listed ones moved by more than least; return their number."""
    u, listed, moving, move = work.columns[U], work.features[LIST], work.features[MOVING], work.columns[TRIAL]
    n_moving = 0
    for k in range(n_listed):
        moving[n_moving] = listed[k]
        n_moving += (move[listed[k]] > least) & (u[listed[k]] != 0.0)
    return n_moving


@allocating
def extrapolate(work: Workspace, model: Model, n_history: int, total: float, b: float) -> tuple[float, float]:
    """Try the combination of the last n_history iterates whose combined change is least; return E and b.

    Weights that are zero stay zero. The trial is taken when the model's value falls.
    """
    row, value, start, n, n_active = model.row, model.value, work.starts[FEW], model.n_columns, model.n_active
    e, trial_e, u, trial = work.rows[RESIDUAL], work.rows[TRIAL_RESIDUAL], work.columns[U], work.columns[TRIAL]
    share = np.empty(n_history - 1)
    combine(work.columns[HISTORY : HISTORY + n_history], n, share)
    trial_total = total
    copy(trial_e, e, n_active)
    for j in range(n):
        trial[j] = 0.0
        if u[j] != 0.0:
            for k in range(n_history - 1):
                trial[j] += share[k] * work.columns[HISTORY + 1 + k, j]
            step = trial[j] - u[j]
            trial_total -= step * work.columns[SUM, j]
            for entry in range(start[j], start[j + 1]):
                trial_e[row[entry]] -= step * value[entry]
    trial_b = best_bias(model, trial_total)
    if not model_value(model, trial, trial_e, trial_b) < model_value(model, u, e, b):
        return total, b
    copy(u, trial, n)
    copy(e, trial_e, n_active)
    return trial_total, trial_b


@allocating
def combine(iterates: NDArray[np.float64], n: int, share: NDArray[np.float64]) -> None:
    """Fill share [k] with numbers of sum 1 that make sum share_i (iterate_i+1 - iterate_i) least, slightly damped."""
    k = len(share)
    a, room = np.zeros(triangle(k)), np.empty((4, k))
    for j in range(n):
        for one in range(k):
            change = iterates[one + 1, j] - iterates[one, j]
            if change != 0.0:
                for two in range(one + 1):
                    a[triangle(one) + two] += change * (iterates[two + 1, j] - iterates[two, j])
    damping = 1e-300
    for one in range(k):
        damping += 1e-10 * a[triangle(one) + one]
    for one in range(k):
        a[triangle(one) + one] += damping
        share[one] = 1.0
    solve_dense(a, share, k, room)
    total = 0.0
    for one in range(k):
        total += share[one]
    for one in range(k):
        share[one] /= total
