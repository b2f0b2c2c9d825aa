"""The default solver: labels in a row by one kernel call, since each call costs as much as some rare labels."""

import itertools
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from proxml_mpi.solve.newton_data import NewtonProblem, Workspace, allocating, inner, local_bytes, outer, workspace
from proxml_mpi.solve.newton_label import solve_label, take_weights
from proxml_mpi.solve.newton_prepare import newton_problem, prepare
from proxml_mpi.solve.problem import COLD, Request, Solution, Start

__all__ = [
    "NewtonProblem",
    "Workspace",
    "local_bytes",
    "newton_problem",
    "prepare",
    "solutions",
    "solve",
    "solve_requests",
    "workspace",
]

RUN_ON = np.zeros(1, np.uint8)
CLOCK = time.CLOCK_THREAD_CPUTIME_ID
FIRST_WEIGHTS = 4096  # that there is room for at first
Array = Any

_clock_gettime: Any = types.ExternalFunction("clock_gettime", types.intc(types.intc, types.voidptr))


class Row(NamedTuple):
    """What is found for labels in a row."""

    indptr: NDArray[np.int64]  # [n_labels + 1]
    features: NDArray[np.int32]  # [n_weights], ascending within a label
    weights: NDArray[np.float32]  # [n_weights]
    numbers: NDArray[np.float64]  # [n_labels, 4]: bias, objective, gap, seconds of processor time
    counts: NDArray[np.int64]  # [n_labels, 3]: iterations, outcome, entries read


@inner
def thread_seconds(clock: NDArray[np.int64]) -> float:
    """Return the processor time of this thread; clock [2] is room for it."""
    _clock_gettime(CLOCK, clock.ctypes)
    return float(clock[0] + 1e-9 * clock[1])


@allocating
def longer(array: Array, n: int, size: int) -> Array:
    """Return an array of that size which begins with the first n entries."""
    grown = np.empty(size, array.dtype)
    for k in range(n):
        grown[k] = array[k]
    return grown


@outer
def solve_row(
    problem: NewtonProblem,
    work: Workspace,
    positives: tuple[NDArray[np.int64], NDArray[np.int32]],
    penalties: NDArray[np.float64],
    ridges: NDArray[np.float64],
    gap_tolerances: NDArray[np.float64],
    max_iterations: int,
    with_bias: bool,
    starts: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32], NDArray[np.float64]],
    stop: NDArray[np.uint8],
) -> Array:
    """Solve labels one after the other; return a Row. positives and starts are lists: (indptr, entries, ...)."""
    n_labels = len(penalties)
    indptr, numbers, counts = (
        np.zeros(n_labels + 1, np.int64),
        np.empty((n_labels, 4)),
        np.empty((n_labels, 3), np.int64),
    )
    features, weights = np.empty(FIRST_WEIGHTS, np.int32), np.empty(FIRST_WEIGHTS, np.float32)
    clock = np.zeros(2, np.int64)
    for k in range(n_labels):
        began = thread_seconds(clock)
        own, begin = slice(positives[0][k], positives[0][k + 1]), slice(starts[0][k], starts[0][k + 1])
        n_weights, bias, objective, gap, iterations, outcome, n_read = solve_label(
            problem,
            work,
            positives[1][own],
            penalties[k],
            ridges[k],
            gap_tolerances[k],
            max_iterations,
            with_bias,
            starts[1][begin],
            starts[2][begin],
            starts[3][k],
            stop,
        )
        first, end = indptr[k], indptr[k] + n_weights
        if end > len(features):
            features, weights = longer(features, first, 2 * end), longer(weights, first, 2 * end)
        take_weights(work, features[first:end], weights[first:end])
        indptr[k + 1] = end
        numbers[k, 0], numbers[k, 1], numbers[k, 2] = bias, objective, gap
        numbers[k, 3] = thread_seconds(clock) - began
        counts[k, 0], counts[k, 1], counts[k, 2] = iterations, outcome, n_read
    return Row(indptr, features[: indptr[-1]], weights[: indptr[-1]], numbers, counts)


def solve_requests(
    problem: NewtonProblem,
    work: Workspace,
    requests: Sequence[Request],
    gap_tolerances: Sequence[float],
    max_iterations: int,
    with_bias: bool,
    stop: NDArray[np.uint8],
    ridges: Sequence[float],
) -> Row:
    """Solve labels to a duality gap of at most gap_tolerances (absolute); `stop[0]` turning non-zero abandons them.

    ridges: mu, the factor of |w|^2 / 2 beside penalty |w|_1.
    """
    penalties, starts = np.array([request.penalty for request in requests]), [request.start for request in requests]
    begins = (*_joined([start.features for start in starts]), _joined([start.weights for start in starts])[1])
    positives = _joined([request.positives for request in requests])
    biases = np.array([start.bias for start in starts], np.float64)
    limits = (np.array(ridges, np.float64), np.array(gap_tolerances, np.float64), max_iterations, with_bias)
    row: Row = solve_row(problem, work, positives, penalties, *limits, (*begins, biases), stop)
    return row


def solutions(row: Row) -> list[Solution]:
    """Return what was found as one record a label."""
    bounds = itertools.pairwise(row.indptr.tolist())
    return [
        Solution(row.features[first:end], row.weights[first:end], bias, objective, gap, iterations, outcome, seconds)
        for (first, end), (bias, objective, gap, seconds), (iterations, outcome, _) in zip(
            bounds, row.numbers.tolist(), row.counts.tolist(), strict=True
        )
    ]


def _joined(lists: list[Array]) -> tuple[NDArray[np.int64], Array]:
    """Return where each of the lists begins, and all of them as one: always an array of its own, as kernels want it."""
    indptr = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(each) for each in lists], out=indptr[1:])
    return indptr, np.concatenate(lists)


def solve(
    problem: NewtonProblem,
    work: Workspace,
    positives: NDArray[np.int32],
    penalty: float,
    gap_tolerance: float,
    max_iterations: int = 200,
    with_bias: bool = True,
    start: Start = COLD,
    stop: NDArray[np.uint8] = RUN_ON,
    ridge: float = 0.0,
) -> Solution:
    """Solve one label; see solve_requests."""
    limits = ([gap_tolerance], max_iterations, with_bias, stop, [ridge])
    return solutions(solve_requests(problem, work, [Request(positives, penalty, start)], *limits))[0]
