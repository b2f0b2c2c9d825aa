"""What the Newton solver reads of a data set, and the arrays that each thread works in.

Indices are unsigned wherever kernels use them as such: numba then needs no code for negative ones, and sweeps over the
local matrix run a third faster. The workspace has few, two-dimensional arrays because the time that numba takes to
compile a call grows with the number of arrays passed: every kernel names the lines that it uses.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
INNER: dict[str, Any] = {**OPTIONS, "no_cpython_wrapper": True, "_nrt": False}
Function = TypeVar("Function", bound=Callable[..., Any])


def outer(function: Function) -> Function:
    """Compile a kernel that Python calls."""
    return cast(Function, njit(**OPTIONS)(function))


def inner(function: Function) -> Function:
    """Compile a kernel that only kernels call, several times faster without the wrappers that Python would need.

    It makes and returns no arrays, so that numba need not count references to them: atomic operations, a dozen for
    every call that passes a workspace.
    """
    return cast(Function, njit(**INNER)(function))


def allocating(function: Function) -> Function:
    """Compile a kernel that only kernels call and that makes or returns arrays."""
    return cast(Function, njit(**INNER | {"_nrt": True})(function))


# Touched instances (the positives first, then all that share a feature with the weights) have places 1, 2, ...; the
# place after the last takes what is scattered to instances that take no part, and is never read.
# Lines of Workspace.rows: by place the label +1 or -1, the score x.w without the bias and its change along a step;
# violations v and their slope along a line; of the local rows the label, score and its change; of the active ones the
# residual and a trial.
SIGN, SCORE, SHIFT, VIOLATION, SLOPE, LOCAL_SIGN, LOCAL_SCORE, LOCAL_SHIFT, RESIDUAL, TRIAL_RESIDUAL = range(10)
# Lines of Workspace.instances: the touched instances by place, the place of an instance (0: none); the places of those
# that violate or nearly so, of negatives that the last step would violate, and of the local rows; 1 + the row of an
# instance, and 1 + the active row of a local one (0: not active).
TOUCHED, PLACE, NEAR, LEARNED, CHOSEN, ROW, ACTIVE = range(7)
# Lines of Workspace.starts: where the local columns begin, with all local rows and with the active ones.
ALL, FEW = range(2)
# Lines of Workspace.columns: weights and gradient X'(y a) by feature; and by local column the weights in work, their
# old values, their change, sums, square sums and curvatures on the active rows, trial weights, and the last iterates.
WEIGHT, GRADIENT, U, OLD, CHANGE, SUM, SQUARE, CURVATURE, TRIAL, HISTORY = range(10)
BLOCK = 32  # places that are looked at together
N_HISTORY, SHORT_HISTORY = 6, 4  # iterates; of models that have few sweeps
N_TOP = 2  # instances of a feature that join the local problem with it
ENTRY_BYTES = 16  # of an entry of a local matrix: as one of all rows, and of the active ones
FIRST_ENTRIES = 1 << 24  # room for local matrices, twice; larger ones get their own, label by label
MOST_DIRECT, MOST_STILL = 128, 1024  # weights that are solved for directly, and when nothing else gets on
# Lines of Workspace.features: the features with a computed gradient, those that have a weight, the local columns,
# 1 + the column of a feature, a list of local columns, and those of them that move most.
MET, SUPPORT, FEATURE, COLUMN, LIST, MOVING = range(6)


class NewtonProblem(NamedTuple):
    """The features both ways and the column sums of the negatives: read-only, shared by all threads."""

    row_start: NDArray[np.uint64]  # [n_instances + 1]
    row_feature: NDArray[np.uint32]  # [n_entries]
    row_value: NDArray[np.float32]  # [n_entries]
    column_start: NDArray[np.uint64]  # [n_features + 1]
    column_instance: NDArray[np.uint32]  # [n_entries]
    column_value: NDArray[np.float32]  # [n_entries]
    negative: NDArray[np.uint8]  # [n_instances], 1 where an instance may serve as a negative
    column_sum: NDArray[np.float64]  # [n_features], over the instances that may serve as negatives
    column_order: NDArray[np.uint32]  # [n_features], by falling |column_sum|
    column_price: NDArray[np.float64]  # [n_features], by which a violation is divided: norm^1.5, over all instances
    column_top: NDArray[np.uint32]  # [n_features, N_TOP], the negatives with the largest values, or n_instances
    least_squares: NDArray[np.float64]  # [n_features, n_features] of small dense data, else [0, 0]: see newton_guess
    largest_value: float  # of |x|
    n_negative: int  # number of ones in negative


class Local(NamedTuple):
    """The local matrix by columns, with all local rows and with the active ones; grows with the local problem.

    At most half of the room is taken: behind the active entries there is room for them by rows.
    """

    row: NDArray[np.uint32]
    value: NDArray[np.float32]
    active_row: NDArray[np.uint32]
    active_value: NDArray[np.float32]


class Workspace(NamedTuple):
    """One thread's arrays; between two labels every mark is cleared, every sum is zero, and every sign is -1.

    Instances are global ids; rows and columns are positions in the local problem (few instances x few features).
    """

    rows: NDArray[np.float64]  # [10, n_instances + 2 + BLOCK]
    instances: NDArray[np.uint32]  # [7, n_instances + 2]
    columns: NDArray[np.float64]  # [9 + N_HISTORY, n_features + 1]; the bias is the column after the last
    features: NDArray[np.uint32]  # [6, n_features + 1]
    is_met: NDArray[np.uint8]  # [n_features]
    starts: NDArray[np.uint64]  # [2, n_features + 1]
    gram: NDArray[np.float64]  # [MOST_STILL (MOST_STILL + 1) / 2], a triangle; takes memory as far as it is written
    local: Local


def local_bytes(n_entries: int) -> int:
    """Return the room for local matrices of a data set with so many entries."""
    return ENTRY_BYTES * min(2 * (n_entries + 1), FIRST_ENTRIES)


def make_local(n_entries: int) -> Local:
    """Allocate what the local matrix is kept in: it takes memory as far as it is written."""
    return Local(
        np.empty(n_entries, np.uint32),
        np.empty(n_entries, np.float32),
        np.empty(n_entries, np.uint32),
        np.empty(n_entries, np.float32),
    )


make_longer_local = allocating(make_local)  # for the rest of a label; numpy asks for huge pages, numba does not


def workspace(problem: NewtonProblem) -> Workspace:
    """Allocate one thread's arrays."""
    n, d = len(problem.row_start) - 1, len(problem.column_start) - 1
    rows = np.zeros((10, n + 2 + BLOCK))
    rows[SIGN] = -1.0
    instances = np.zeros((7, n + 2), np.uint32)
    instances[PLACE, :n][problem.negative == 0] = n + 1
    return Workspace(
        rows=rows,
        instances=instances,
        columns=np.zeros((9 + N_HISTORY, d + 1)),
        features=np.zeros((6, d + 1), np.uint32),
        is_met=np.zeros(d, np.uint8),
        starts=np.zeros((2, d + 1), np.uint64),
        gram=np.zeros(MOST_STILL * (MOST_STILL + 1) // 2),
        local=make_local(local_bytes(len(problem.row_feature)) // ENTRY_BYTES),
    )


@inner
def length(start: NDArray[np.uint64], k: int) -> int:
    """Return the number of entries of row or column k."""
    # int alone leaves it unsigned, and of unsigned and signed numbers numba makes floats.
    return int(np.int64(start[k + 1] - start[k]))
