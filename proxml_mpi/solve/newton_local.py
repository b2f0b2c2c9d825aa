"""The local problem: the chosen rows x the chosen columns, solved by a few Newton models."""

import numpy as np

from proxml_mpi.solve.newton_data import (
    ACTIVE,
    ALL,
    CHANGE,
    FEW,
    LOCAL_SCORE,
    LOCAL_SHIFT,
    LOCAL_SIGN,
    MOST_DIRECT,
    MOST_STILL,
    OLD,
    RESIDUAL,
    SLOPE,
    SQUARE,
    SUM,
    VIOLATION,
    Local,
    U,
    Workspace,
    inner,
)
from proxml_mpi.solve.newton_lasso import minimise
from proxml_mpi.solve.newton_model import Model
from proxml_mpi.solve.newton_search import search

NONE, ONE, UNIT = np.uint64(0), np.uint64(1), np.uint32(1)
FRACTION = 0.3  # of the tolerance, to which a model is minimised at first


@inner
def solve_local(
    work: Workspace,
    local: Local,
    n_rows: int,
    n_columns: int,
    b: float,
    cap: float,
    n_group: float,
    with_bias: bool,
    penalty: float,
    ridge: float,
    tolerance: float,
    max_sweeps: int,
    max_models: int,
    is_very_hard: bool,
    is_careful: bool,
) -> float:
    """Minimise over the local columns and the bias on the local rows plus n_group negatives without features.

    Starts from and leaves the weights in U; returns the bias. tolerance: of the gradient. The last model's step is
    taken whole unless is_careful, since the full objective is searched along all of it in any case.
    """
    half, half_ridge = 0.5 * penalty, 0.5 * ridge
    z, shift, violation, slope = work.rows[LOCAL_SCORE], work.rows[LOCAL_SHIFT], work.rows[VIOLATION], work.rows[SLOPE]
    u, old, change = work.columns[U], work.columns[OLD], work.columns[CHANGE]
    fraction, last_worst, last_active = FRACTION, np.inf, 0
    for model in range(max_models):
        n_active, m, total, pull = choose_active(work, n_rows, b, n_group, half, with_bias)
        row, value, worst = local.row, local.value, np.inf
        if max_models == 1 and n_active == n_rows:
            sum_columns(work, local, n_columns)
        else:
            row, value = local.active_row, local.active_value
            worst = gather_active(work, local, n_columns, b, half, half_ridge)
        if with_bias and not (b >= cap and pull > -half):
            worst = max(worst, abs(pull - (half if b > 0.0 else -half)) if b != 0.0 else abs(pull) - half)
        if 2.0 * worst <= tolerance:
            break
        for k in range(n_columns):
            old[k] = u[k]
        # Steps can all be small, and add up along a direction in which the model is flat: minimise it better.
        is_still = n_active == last_active and worst > 0.5 * last_worst
        if is_still:
            fraction *= 0.1
        last_worst, last_active = worst, n_active
        sought = fraction * min(2.0 * worst, tolerance)
        most_direct = MOST_STILL if is_still and is_very_hard else MOST_DIRECT
        lasso = Model(
            row, value, local.active_row, local.active_value, n_columns, n_active, m, cap, with_bias, half, half_ridge
        )
        new_b = minimise(work, lasso, total, sought, max_sweeps, most_direct)
        if model == max_models - 1 and not is_careful:
            return new_b
        # The model's step, to the minimum of the local problem along it.
        for k in range(n_columns):
            change[k] = u[k] - old[k]
        n_lines = draw_lines(work, local, n_rows, n_columns, b, new_b - b)
        old[n_columns], change[n_columns] = b, new_b - b
        group = (n_group, 1.0 + b, new_b - b)
        t = search((violation, slope, n_lines), (old, change, n_columns + 1), group, penalty, ridge)
        if t == 0.0:
            for k in range(n_columns):
                u[k] = old[k]
            break
        for r in range(n_rows):
            z[r] += t * shift[r]
        if t < 1.0:
            for k in range(n_columns):
                u[k] = old[k] + t * change[k]
            new_b = b + t * (new_b - b)
        b = new_b
    return b


@inner
def choose_active(
    work: Workspace, n_rows: int, b: float, n_group: float, half: float, with_bias: bool
) -> tuple[int, float, float, float]:
    """List the active rows, with residuals y - x.u; return their number, m and total with the group, and the pull.

    m and total count and sum all residuals. The pull on the bias is half the negative derivative of the loss with
    respect to it; rows exactly at v = 0, and the group at b = -1, belong to the model when the bias wants to rise.
    """
    y, z, e, active = work.rows[LOCAL_SIGN], work.rows[LOCAL_SCORE], work.rows[RESIDUAL], work.instances[ACTIVE]
    pull = 0.0
    for r in range(n_rows):
        pull += y[r] * max(0.0, 1.0 - y[r] * (z[r] + b))
    if b > -1.0:
        pull -= n_group * (1.0 + b)
    ties = not with_bias or pull > -half
    n_active, total = 0, 0.0
    for r in range(n_rows):
        # Without a branch, which would be guessed wrongly too often.
        v = 1.0 - y[r] * (z[r] + b)
        is_active = (v > 0.0) | ((v == 0.0) & ties)
        e[n_active] = y[r] - z[r]
        n_active += is_active
        active[r] = n_active if is_active else 0
    for k in range(n_active):
        total += e[k]
    m = float(n_active)
    if b > -1.0 or (b == -1.0 and ties):
        m += n_group
        total -= n_group
    return n_active, m, total, pull


@inner
def gather_active(work: Workspace, local: Local, n_columns: int, b: float, half: float, half_ridge: float) -> float:
    """Copy the active rows of the columns, with sums of these; return the largest violation of half the gradient."""
    u, s, q = work.columns[U], work.columns[SUM], work.columns[SQUARE]
    whole, start, active, e = work.starts[ALL], work.starts[FEW], work.instances[ACTIVE], work.rows[RESIDUAL]
    worst, end = 0.0, NONE
    for c in range(n_columns):
        start[c] = end
        for entry in range(whole[c], whole[c + 1]):
            k = active[local.row[entry]]
            local.active_row[end] = k - UNIT
            local.active_value[end] = local.value[entry]
            end += ONE if k > 0 else NONE
        column_sum, square, rho = 0.0, 0.0, 0.0
        for entry in range(start[c], end):
            x = np.float64(local.active_value[entry])
            column_sum += x
            square += x * x
            rho += x * (e[local.active_row[entry]] - b)
        s[c], q[c] = column_sum, square
        rho -= half_ridge * u[c]
        side = half if u[c] > 0.0 else -half
        worst = max(worst, abs(rho) - half if u[c] == 0.0 else abs(rho - side))
    start[n_columns] = end
    return worst


@inner
def sum_columns(work: Workspace, local: Local, n_columns: int) -> None:
    """Sum the columns, whose rows are all active and need no copies, and their squares."""
    start = work.starts[ALL]
    for c in range(n_columns):
        column_sum, square = 0.0, 0.0
        for entry in range(start[c], start[c + 1]):
            x = np.float64(local.value[entry])
            column_sum += x
            square += x * x
        work.columns[SUM, c], work.columns[SQUARE, c] = column_sum, square
        work.starts[FEW, c + 1] = start[c + 1]
    work.starts[FEW, 0] = NONE


@inner
def draw_lines(work: Workspace, local: Local, n_rows: int, n_columns: int, b: float, step: float) -> int:
    """Fill LOCAL_SHIFT with X CHANGE; list v and slope of the rows that violate somewhere on the way; count these."""
    y, z, shift, violation, slope = (
        work.rows[LOCAL_SIGN],
        work.rows[LOCAL_SCORE],
        work.rows[LOCAL_SHIFT],
        work.rows[VIOLATION],
        work.rows[SLOPE],
    )
    change, start = work.columns[CHANGE], work.starts[ALL]
    for r in range(n_rows):
        shift[r] = 0.0
    for c in range(n_columns):
        if change[c] != 0.0:
            for entry in range(start[c], start[c + 1]):
                shift[local.row[entry]] += change[c] * local.value[entry]
    n_lines = 0
    for r in range(n_rows):
        v, dv = 1.0 - y[r] * (z[r] + b), -y[r] * (shift[r] + step)
        violation[n_lines] = v
        slope[n_lines] = dv
        n_lines += max(v, v + dv) > 0.0
    return n_lines
