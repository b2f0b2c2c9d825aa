"""The local problem: the chosen rows x the chosen columns, solved by a few Newton models."""

from proxml_mpi.solve.newton_data import (
    ACTIVE,
    CHANGE,
    CHOSEN,
    COLUMN,
    FEATURE,
    IS_ACTIVE,
    LOCAL,
    LOCAL_SCORE,
    LOCAL_SIGN,
    OLD,
    RESIDUAL,
    ROW,
    ROW_END,
    SLOPE,
    SQUARE,
    SUM,
    VIOLATION,
    Local,
    NewtonProblem,
    U,
    Workspace,
    inner,
    length,
    make_local,
)
from proxml_mpi.solve.newton_lasso import minimise
from proxml_mpi.solve.newton_search import search

N_MODELS = 8
FRACTION = 0.2  # of the tolerance, to which a model is minimised


@inner
def gather_matrix(
    problem: NewtonProblem, work: Workspace, local: Local, n_rows: int, n_columns: int
) -> tuple[Local, int]:
    """Copy the chosen rows x columns, by columns; return where they are (in longer arrays if need be), entries read."""
    by_rows, by_columns = 0, 0
    for r in range(n_rows):
        by_rows += length(problem.row_start, work.instances[CHOSEN, r])
    for c in range(n_columns):
        by_columns += length(problem.column_start, work.features[FEATURE, c])
    needed = min(by_rows, by_columns)
    if needed > len(local.row):
        local = make_local(2 * needed)
    if by_columns <= by_rows:
        gather_columns(problem, work, local, n_columns)
    else:
        gather_rows(problem, work, local, n_rows, n_columns)
    return local, needed


@inner
def gather_columns(problem: NewtonProblem, work: Workspace, local: Local, n_columns: int) -> None:
    """Read the chosen columns and keep the chosen rows."""
    start, feature, row = work.starts[LOCAL], work.features[FEATURE], work.instances[ROW]
    end = 0
    for c in range(n_columns):
        j = feature[c]
        start[c] = end
        for entry in range(problem.column_start[j], problem.column_start[j + 1]):
            r = row[problem.column_instance[entry]]
            if r > 0:
                local.row[end] = r - 1
                local.value[end] = problem.column_value[entry]
                end += 1
    start[n_columns] = end


@inner
def gather_rows(problem: NewtonProblem, work: Workspace, local: Local, n_rows: int, n_columns: int) -> None:
    """Read the chosen rows, keep the chosen columns, and transpose what was kept."""
    start, chosen, column = work.starts[LOCAL], work.instances[CHOSEN], work.features[COLUMN]
    row_end, kept_column, kept_value = work.instances[ROW_END], local.active_row, local.active_value
    for c in range(n_columns + 1):
        start[c] = 0
    end = 0
    for r in range(n_rows):
        i = chosen[r]
        for entry in range(problem.row_start[i], problem.row_start[i + 1]):
            c = column[problem.row_feature[entry]]
            if c > 0:
                start[c] += 1
                kept_column[end] = c - 1
                kept_value[end] = problem.row_value[entry]
                end += 1
        row_end[r] = end
    for c in range(n_columns):
        start[c + 1] += start[c]
    entry = 0
    for r in range(n_rows):
        while entry < row_end[r]:
            c = kept_column[entry]
            at = start[c]
            local.row[at] = r
            local.value[at] = kept_value[entry]
            start[c] += 1
            entry += 1
    for c in range(n_columns, 0, -1):
        start[c] = start[c - 1]
    start[0] = 0


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
    tolerance: float,
    max_sweeps: int,
) -> float:
    """Minimise over the local columns and the bias on the local rows plus n_group negatives without features.

    Starts from and leaves the weights in U and the scores in LOCAL_SCORE; returns the bias. tolerance: of the gradient.
    """
    half = 0.5 * penalty
    y, z, violation, slope = work.rows[LOCAL_SIGN], work.rows[LOCAL_SCORE], work.rows[VIOLATION], work.rows[SLOPE]
    u, old, change, start = work.columns[U], work.columns[OLD], work.columns[CHANGE], work.starts[LOCAL]
    for _ in range(N_MODELS):
        m, total, pull = choose_active(work, n_rows, b, n_group, half, with_bias)
        worst = gather_active(work, local, n_columns, b, half)
        if with_bias and not (b >= cap and pull > -half):
            worst = max(worst, abs(pull - (half if b > 0.0 else -half)) if b != 0.0 else abs(pull) - half)
        if 2.0 * worst <= tolerance:
            break
        for k in range(n_columns):
            old[k] = u[k]
        sought = FRACTION * min(2.0 * worst, tolerance)
        new_b = minimise(work, local, n_columns, n_rows, m, total, cap, with_bias, half, sought, max_sweeps)
        # The model's step, to the minimum of the local problem along it.
        for r in range(n_rows):
            slope[r] = new_b - b
        for k in range(n_columns):
            change[k] = u[k] - old[k]
            if change[k] != 0.0:
                for entry in range(start[k], start[k + 1]):
                    slope[local.row[entry]] += change[k] * local.value[entry]
        for r in range(n_rows):
            violation[r] = 1.0 - y[r] * (z[r] + b)
            slope[r] *= -y[r]
        old[n_columns], change[n_columns] = b, new_b - b
        group = (n_group, 1.0 + b, new_b - b)
        t = search(violation, slope, n_rows, old, change, n_columns + 1, group, penalty)
        if t == 0.0:
            for k in range(n_columns):
                u[k] = old[k]
            break
        for r in range(n_rows):
            z[r] -= t * (y[r] * slope[r] + new_b - b)
        if t < 1.0:
            for k in range(n_columns):
                u[k] = old[k] + t * change[k]
            new_b = b + t * (new_b - b)
        b = new_b
    return b


@inner
def choose_active(
    work: Workspace, n_rows: int, b: float, n_group: float, half: float, with_bias: bool
) -> tuple[float, float, float]:
    """Mark the rows of the next model; return their number, the sum of y - x.u over them, and the pull on the bias.

    The pull is half the negative derivative of the loss with respect to the bias; rows exactly at v = 0, and the group
    at b = -1, belong to the model when the bias wants to rise.
    """
    y, z, e, active = work.rows[LOCAL_SIGN], work.rows[LOCAL_SCORE], work.rows[RESIDUAL], work.marks[IS_ACTIVE]
    pull = 0.0
    for r in range(n_rows):
        v = 1.0 - y[r] * (z[r] + b)
        if v > 0.0:
            pull += y[r] * v
    if b > -1.0:
        pull -= n_group * (1.0 + b)
    ties = not with_bias or pull > -half
    m, total = 0.0, 0.0
    for r in range(n_rows):
        v = 1.0 - y[r] * (z[r] + b)
        active[r] = v > 0.0 or (v == 0.0 and ties)
        e[r] = y[r] - z[r]
        if active[r]:
            m += 1.0
            total += e[r]
    if b > -1.0 or (b == -1.0 and ties):
        m += n_group
        total -= n_group
    return m, total, pull


@inner
def gather_active(work: Workspace, local: Local, n_columns: int, b: float, half: float) -> float:
    """Copy the active rows of the local matrix, with column sums; return the largest violation of half the gradient."""
    u, s, q = work.columns[U], work.columns[SUM], work.columns[SQUARE]
    start, active_start = work.starts[LOCAL], work.starts[ACTIVE]
    e, active = work.rows[RESIDUAL], work.marks[IS_ACTIVE]
    worst, end = 0.0, 0
    for k in range(n_columns):
        active_start[k] = end
        column_sum, square, rho = 0.0, 0.0, 0.0
        for entry in range(start[k], start[k + 1]):
            r = local.row[entry]
            if active[r]:
                x = local.value[entry]
                local.active_row[end] = r
                local.active_value[end] = x
                end += 1
                wide = float(x)
                column_sum += wide
                square += wide * wide
                rho += wide * (e[r] - b)
        s[k], q[k] = column_sum, square
        side = half if u[k] > 0.0 else -half
        worst = max(worst, abs(rho) - half if u[k] == 0.0 else abs(rho - side))
    active_start[n_columns] = end
    return worst
