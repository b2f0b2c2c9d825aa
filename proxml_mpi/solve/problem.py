"""What every solver shares: the features both ways, the record it returns, why it ended.

One label's problem, with y_i = +1 for the label's positives and -1 for all other instances:

    P(w, b) = lambda (|w|_1 + |b|) + sum_i max(0, v_i)^2,    v_i = 1 - y_i (x_i.w + b)

or, with a ridge, P(w, b) + mu/2 |w|^2: mu is the same multiple of lambda for all labels; the bias has no ridge.
"""

import time
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray


class Outcome(IntEnum):
    """Why a solve ended; the values are those of the model file."""

    converged = 0
    iteration_limit = 1
    no_positives = 2
    not_trained = 3


class Problem(NamedTuple):
    """The features of all instances by row and by column: read-only, shared by all threads and ranks of a node."""

    row_start: NDArray[np.int64]  # [n_instances + 1]
    row_feature: NDArray[np.int32]  # [n_entries], ascending within a row
    row_value: NDArray[np.float32]  # [n_entries]
    column_start: NDArray[np.int64]  # [n_features + 1]
    column_instance: NDArray[np.int32]  # [n_entries], ascending within a column
    column_value: NDArray[np.float32]  # [n_entries]


class Solution(NamedTuple):
    """One label's solved problem; the certificate is that of the float32 weights returned here."""

    features: NDArray[np.int32]  # [n_weights], ascending
    weights: NDArray[np.float32]  # [n_weights], none of them zero
    bias: float  # a float32 number
    objective: float
    duality_gap: float
    iterations: int
    outcome: int  # an Outcome
    seconds: float = 0.0  # of processor time


NEVER = -np.inf  # the bias of a label that must not be predicted: it was not trained, or there was nothing to learn


def unsolvable(outcome: Outcome) -> Solution:
    """Return the record of a label without a solution; without positives there was nothing to lose."""
    nothing = 0.0 if outcome is Outcome.no_positives else np.inf
    return Solution(np.empty(0, np.int32), np.empty(0, np.float32), NEVER, nothing, nothing, 0, outcome)


class Start(NamedTuple):
    """Where a solve begins: weights of another model, or nothing."""

    features: NDArray[np.int32]  # [n_weights], ascending
    weights: NDArray[np.float32]  # [n_weights]
    bias: float


COLD = Start(np.empty(0, np.int32), np.empty(0, np.float32), 0.0)


class Request(NamedTuple):
    """What is asked of a solver for one label."""

    positives: NDArray[np.int32]
    penalty: float
    start: Start = COLD


class OneByOne:
    """A solver whose kernels take one label at a time."""

    def solve(
        self, workspace: Any, positives: NDArray[np.int32], penalty: float, start: Start, stop: NDArray[np.uint8]
    ) -> Solution:
        """Solve one label; `stop[0]` turning non-zero abandons it."""
        raise NotImplementedError

    def solve_together(self, workspace: Any, requests: Sequence[Request], stop: NDArray[np.uint8]) -> list[Solution]:
        """Solve labels, timing each; `stop[0]` turning non-zero abandons them."""
        solutions = []
        for request in requests:
            began = time.thread_time()
            solution = self.solve(workspace, *request, stop)
            solutions.append(solution._replace(seconds=time.thread_time() - began))
        return solutions


def make_problem(
    row_start: NDArray[np.int64], row_feature: NDArray[np.int32], row_value: NDArray[np.float32], n_features: int
) -> Problem:
    """Add the columns to a matrix given by rows."""
    shape = (len(row_start) - 1, n_features)
    columns = scipy.sparse.csr_array((row_value, row_feature, row_start), shape=shape).tocsc()
    column_start, column_instance = columns.indptr.astype(np.int64), columns.indices.astype(np.int32)
    return Problem(row_start, row_feature, row_value, column_start, column_instance, columns.data)
