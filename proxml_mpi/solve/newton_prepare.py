"""What the Newton solver derives once per data set."""

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve.newton_data import N_TOP, NewtonProblem, outer
from proxml_mpi.solve.problem import Problem

# Features, and instances a feature, of data for which least squares give a first guess: see newton_guess.
MOST_FEATURES, LEAST_ROWS, MOST_ROWS = 512, 4, 32
DAMPING = 0.1  # of the least squares, relative to the mean square of a feature


def newton_problem(
    problem: Problem,
    negative: NDArray[np.uint8],
    column_sum: NDArray[np.float64],
    column_order: NDArray[np.int32],
    column_price: NDArray[np.float64],
    column_top: NDArray[np.int32],
    least_squares: NDArray[np.float64],
) -> NewtonProblem:
    """See a problem and the sums of its negatives as kernels do; copies nothing."""
    values = problem.column_value
    return NewtonProblem(
        problem.row_start.view(np.uint64),
        problem.row_feature.view(np.uint32),
        problem.row_value,
        problem.column_start.view(np.uint64),
        problem.column_instance.view(np.uint32),
        problem.column_value,
        negative,
        column_sum,
        column_order.view(np.uint32),
        column_price,
        column_top.view(np.uint32),
        least_squares,
        float(max(values.max(initial=0.0), -values.min(initial=0.0))),
        int(negative.sum()),
    )


def prepare(problem: Problem, negative: NDArray[np.uint8] | None = None) -> NewtonProblem:
    """Derive what all labels share; negative [n_instances] marks the instances that may serve as negatives."""
    n_instances, n_features = len(problem.row_start) - 1, len(problem.column_start) - 1
    marks = np.ones(n_instances, np.uint8) if negative is None else np.ascontiguousarray(negative != 0, np.uint8)
    values = problem.column_value.astype(np.float64) * marks[problem.column_instance]
    sums, squares = np.zeros(n_features), np.zeros(n_features)
    filled = np.flatnonzero(np.diff(problem.column_start))
    if len(filled):
        sums[filled] = np.add.reduceat(values, problem.column_start[filled])
        squares[filled] = np.add.reduceat(np.square(problem.column_value, dtype=float), problem.column_start[filled])
    order = np.argsort(-np.abs(sums), kind="stable").astype(np.int32)
    norms = np.sqrt(squares)
    prices = norms * np.sqrt(norms)  # exactly rounded; a power is not
    top = find_top(problem.column_start, problem.column_instance, problem.column_value, marks)
    is_small = 0 < n_features <= MOST_FEATURES and n_instances >= LEAST_ROWS * n_features and marks.all()
    rows = (problem.row_start, problem.row_feature, problem.row_value)
    inverse = invert_squares(*rows, n_features) if is_small else np.zeros((0, 0))
    return newton_problem(problem, marks, sums, order, prices, top, inverse)


@outer
def find_top(
    column_start: NDArray[np.int64],
    column_instance: NDArray[np.int32],
    column_value: NDArray[np.float32],
    negative: NDArray[np.uint8],
) -> NDArray[np.int32]:
    """Return [n_features, N_TOP], the negatives with the largest |x| of every feature, and n_instances for none."""
    n_features = len(column_start) - 1
    top = np.full((n_features, N_TOP), len(negative), np.int32)
    sizes = np.empty(N_TOP)
    for j in range(n_features):
        sizes[:] = 0.0
        for entry in range(column_start[j], column_start[j + 1]):
            size, i = abs(column_value[entry]), column_instance[entry]
            if negative[i] and size > sizes[N_TOP - 1]:
                at = N_TOP - 1
                while at > 0 and size > sizes[at - 1]:
                    sizes[at], top[j, at] = sizes[at - 1], top[j, at - 1]
                    at -= 1
                sizes[at], top[j, at] = size, i
    return top


@outer
def invert_squares(
    row_start: NDArray[np.int64], row_feature: NDArray[np.int32], row_value: NDArray[np.float32], n_features: int
) -> NDArray[np.float64]:
    """Return the inverse of the features' covariances (times the number of instances), damped; [0, 0] without any.

    Of many instances only some, evenly spaced, are read. In one order, unlike LAPACK's: the same bits everywhere.
    """
    every = max(1, (len(row_start) - 1) // (MOST_ROWS * n_features))
    a, sums, n_rows = np.zeros((n_features, n_features)), np.zeros(n_features), 0
    for i in range(0, len(row_start) - 1, every):
        n_rows += 1
        for entry in range(row_start[i], row_start[i + 1]):
            j, x = row_feature[entry], np.float64(row_value[entry])
            sums[j] += x
            for other in range(row_start[i], row_start[i + 1]):
                a[j, row_feature[other]] += x * row_value[other]
    for j in range(n_features):
        for k in range(n_features):
            a[j, k] -= sums[j] * sums[k] / n_rows
    damping = DAMPING * np.trace(a) / n_features
    if not damping > 0.0:
        return np.zeros((0, 0))
    for k in range(n_features):
        a[k, k] += damping
    # Gauss and Jordan, in place; no pivot vanishes, since the matrix is damped.
    for k in range(n_features):
        pivot = 1.0 / a[k, k]
        a[k, k] = 1.0
        for j in range(n_features):
            a[k, j] *= pivot
        for i in range(n_features):
            if i != k:
                factor = a[i, k]
                a[i, k] = 0.0
                for j in range(n_features):
                    a[i, j] -= factor * a[k, j]
    return a
