"""The gradient X'(y a) of the loss by features: of all instances that a certificate reads, or estimated from some.

Instances are listed with their force y a + common, common = 2 max(0, 1 + bias) being the a of those that share no
feature with the weights: of negatives it is what they add to the column sums, which stand for all of them.

A certificate must be whole. Between two of them the gradient only has to tell which features violate most, and for rare
labels most of the entries lie in rows of small force: these are sampled, and what then looks as if it might violate,
together with the support, is computed exactly by its columns.
"""

import numpy as np

from proxml_mpi.solve.newton_ahead import ROWS_AHEAD, ask_row
from proxml_mpi.solve.newton_data import (
    GRADIENT,
    LIST,
    MET,
    NEAR,
    OLD,
    PLACE,
    SHIFT,
    SUPPORT,
    TOUCHED,
    VIOLATION,
    NewtonProblem,
    Workspace,
    inner,
    length,
)

LEAST_ROWS = 128  # fewer are read whole
# Of the rows whose force is at most SMALL lambda, one of EVERY is read.
EVERY, SMALL = 16, 0.3
LIKELY = 0.8  # of lambda; features with a larger estimate are computed
# Entries of columns, for each of the rows, up to which columns are read: of the support alone, and of all. An entry of
# a column costs more, since the forces lie far apart.
MOST_OF_SUPPORT, MOST_OF_ALL = 1.0 / 3.0, 1.0 / 1.5


@inner
def read_rows(problem: NewtonProblem, work: Workspace, n_rows: int, is_near: bool) -> tuple[int, int]:
    """Add up the forces of the touched instances, or of the near ones; return the numbers of met features and entries.

    The force of the instance at a position is in VIOLATION.
    """
    touched, near, force = work.instances[TOUCHED], work.instances[NEAR], work.rows[VIOLATION]
    n_met, n_read = 0, 0
    # Nearly every feature will be met: marks would cost more than a look at all.
    is_dense = n_rows * len(problem.row_feature) > len(problem.negative) * len(work.is_met)
    for position in range(n_rows):
        i = touched[near[position] if is_near else np.uint32(position + 1)]
        if position + ROWS_AHEAD < n_rows:
            ahead = near[position + ROWS_AHEAD] if is_near else np.uint32(position + 1 + ROWS_AHEAD)
            ask_row(problem, touched[ahead])
        if force[position] != 0.0:
            if is_dense:
                add_row(problem, work, i, force[position])
            else:
                n_met = meet_row(problem, work, i, force[position], n_met)
            n_read += length(problem.row_start, i)
    if is_dense:
        n_met = meet_all(work)
    return n_met, n_read


@inner
def estimate_gradient(
    problem: NewtonProblem, work: Workspace, n_rows: int, is_near: bool, n_support: int, common: float, penalty: float
) -> tuple[int, int, bool]:
    """Do as read_rows does where that costs less, all instances being possible negatives; tell whether it was done.

    The gradient of the support and of all features that might violate by it is then exact, that of others an estimate;
    features without any sampled entry may be among the former, by their column sums.
    """
    support, met, likely = work.features[SUPPORT], work.features[MET], work.features[LIST]
    gradient, force = work.columns[GRADIENT], work.rows[VIOLATION]
    touched, near, place, by_place = (
        work.instances[TOUCHED],
        work.instances[NEAR],
        work.instances[PLACE],
        work.rows[SHIFT],
    )
    row_entries = n_rows * (len(problem.row_feature) / len(problem.negative))
    n_entries = 0
    for k in range(n_support):
        n_entries += length(problem.column_start, support[k])
    if n_entries > MOST_OF_SUPPORT * row_entries:
        return 0, 0, False
    n_met, n_read = 0, 0
    for position in range(n_rows):
        f = force[position]
        is_large = abs(f) > SMALL * penalty
        if is_large or (position % EVERY == 0 and f != 0.0):
            i = touched[near[position] if is_near else np.uint32(position + 1)]
            n_met = meet_row(problem, work, i, f if is_large else EVERY * f, n_met)
            n_read += length(problem.row_start, i)
    for k in range(n_support):
        n_met = meet(work, support[k], n_met)
        gradient[support[k]] = np.inf  # likely, whatever its estimate
    if common > 0.0:
        for j in problem.column_order:
            if common * abs(problem.column_sum[j]) <= LIKELY * penalty:
                break
            n_met = meet(work, j, n_met)
    n_likely, n_entries = 0, 0
    for position in range(n_met):
        j = met[position]
        likely[n_likely] = j
        is_likely = abs(gradient[j] - common * problem.column_sum[j]) > LIKELY * penalty
        n_likely += is_likely
        n_entries += length(problem.column_start, j) if is_likely else 0
    if n_entries > MOST_OF_ALL * row_entries:
        clear_gradient(work, n_met)
        return 0, n_read, False
    for position in range(n_rows):
        by_place[near[position] if is_near else np.uint32(position + 1)] = force[position]
    for k in range(n_likely):
        j = likely[k]
        total = 0.0
        for entry in range(problem.column_start[j], problem.column_start[j + 1]):
            total += problem.column_value[entry] * by_place[place[problem.column_instance[entry]]]
        gradient[j] = total
    for position in range(n_rows):
        by_place[near[position] if is_near else np.uint32(position + 1)] = 0.0
    return n_met, n_read + n_entries, True


@inner
def meet(work: Workspace, j: int, n_met: int) -> int:
    """Note that feature j has a gradient; return the new number of met features."""
    work.features[MET, n_met] = j
    n_met += 1 - work.is_met[j]
    work.is_met[j] = 1
    return n_met


@inner
def add_row(problem: NewtonProblem, work: Workspace, i: int, force: float) -> None:
    """Add force x_i to the gradient."""
    gradient = work.columns[GRADIENT]
    for entry in range(problem.row_start[i], problem.row_start[i + 1]):
        gradient[problem.row_feature[entry]] += force * problem.row_value[entry]


@inner
def meet_all(work: Workspace) -> int:
    """Note that all features are met; return their number."""
    n_features = len(work.is_met)
    for j in range(n_features):
        work.features[MET, j] = j
        work.is_met[j] = 1
    return n_features


@inner
def meet_row(problem: NewtonProblem, work: Workspace, i: int, force: float, n_met: int) -> int:
    """Add force x_i to the gradient; return the new number of met features."""
    gradient, met = work.columns[GRADIENT], work.features[MET]
    for entry in range(problem.row_start[i], problem.row_start[i + 1]):
        j = problem.row_feature[entry]
        # Without a branch, which would be guessed wrongly too often; there is room for one beyond the last.
        met[n_met] = j
        n_met += 1 - work.is_met[j]
        work.is_met[j] = 1
        gradient[j] += force * problem.row_value[entry]
    return n_met


@inner
def finish_gradient(problem: NewtonProblem, work: Workspace, common: float, n_met: int) -> float:
    """Subtract the common part from the met features; return the largest |gradient| of all features."""
    gradient, met = work.columns[GRADIENT], work.features[MET]
    largest = 0.0
    for position in range(n_met):
        j = met[position]
        gradient[j] -= common * problem.column_sum[j]
        largest = max(largest, abs(gradient[j]))
    if common > 0.0:
        for j in problem.column_order:
            if not work.is_met[j]:
                return max(largest, common * abs(float(problem.column_sum[j])))
    return largest


@inner
def list_steep(problem: NewtonProblem, work: Workspace, common: float, penalty: float, n_met: int) -> int:
    """List every gradient beyond penalty in OLD, of met features and of others; return their number."""
    gradient, met, steep = work.columns[GRADIENT], work.features[MET], work.columns[OLD]
    n_steep = 0
    for position in range(n_met):
        steep[n_steep] = gradient[met[position]]
        n_steep += abs(steep[n_steep]) > penalty
    if common > 0.0:
        for j in problem.column_order:
            if common * abs(problem.column_sum[j]) <= penalty:
                break
            if not work.is_met[j]:
                steep[n_steep] = common * problem.column_sum[j]
                n_steep += 1
    return n_steep


@inner
def clear_gradient(work: Workspace, n_met: int) -> None:
    """Forget the gradient."""
    gradient, met = work.columns[GRADIENT], work.features[MET]
    for position in range(n_met):
        j = met[position]
        gradient[j] = 0.0
        work.is_met[j] = 0
