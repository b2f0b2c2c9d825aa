"""DiSMEC's baseline: the L2-regularised squared hinge loss by truncated Newton, certified by the gradient.

One label's problem, with y_i = +1 for the label's positives and -1 for all other instances (DiSMEC's C is 1 / lambda):

    P(w, b) = lambda/2 (|w|^2 + b^2) + sum_i max(0, v_i)^2,    v_i = 1 - y_i (x_i.w + b)

The bias is the weight of a feature of value 1: the last entry of vectors of n_features + 1, of which w and x_i stand
for such vectors from here on. One iteration solves

    H s = -g,    g = lambda w - 2 sum_{v_i > 0} y_i v_i x_i,    H = lambda I + 2 sum_{v_i > 0} x_i x_i'

roughly, by conjugate gradients that read the active instances (v_i > 0) only, and goes from w to about the lowest
point of P along s, lower than w in any case.

The certificate: P is lambda-strongly convex, so that P(w) - P* <= |g|^2 / (2 lambda). This bound is the duality gap
P(w) - D(a) of a_i = 2 max(0, v_i), where D(a) = sum_i a_i - |a|^2 / 4 - |sum_i a_i y_i x_i|^2 / (2 lambda).
A solve ends when it is at most tolerance x positives.

R. Babbar and B. Schölkopf, DiSMEC: distributed sparse machines for extreme multi-label classification, WSDM 2017.
L. Galli and C.-J. Lin, A study on truncated Newton methods for linear classification, IEEE TNNLS 33, 2022.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from proxml_mpi.solve.objective import score_instances
from proxml_mpi.solve.problem import OneByOne, Outcome, Problem, Solution, Start
from proxml_mpi.solve.truncated_newton_kernels import conjugate_gradients, differentiate, list_active, move

Array = Any

FIRST_BIAS = 1.5  # beyond 1, so that no instance of the commoner side is active, with room to move

CONVERGED = int(Outcome.converged)
ITERATION_LIMIT = int(Outcome.iteration_limit)
NOT_TRAINED = int(Outcome.not_trained)


class Workspace(NamedTuple):
    """What one thread needs to solve one label after the other."""

    weights: NDArray[np.float64]  # [n_features + 1], as all vectors of features
    gradient: NDArray[np.float64]
    step: NDArray[np.float64]  # s
    residual: NDArray[np.float64]  # -g - H s
    conjugate: NDArray[np.float64]  # the direction of conjugate gradients
    product: NDArray[np.float64]  # H times that direction
    scores: NDArray[np.float64]  # [n_instances]
    step_scores: NDArray[np.float64]  # [n_instances], X s
    active: NDArray[np.int32]  # [n_instances], the active instances first
    is_positive: NDArray[np.uint8]  # [n_instances]


@dataclass(frozen=True)
class TruncatedNewton(OneByOne):
    """The L2-regularised baseline on one data set.

    A solution's objective and duality_gap are those of all float32 weights, before those under `prune` are dropped:
    pruning, 0.01 in DiSMEC, is an approximation on top of a certified solution. The bias is never pruned.
    """

    problem: Problem
    tolerance: float  # of the bound, per positive
    max_iterations: int
    has_bias: bool
    prune: float

    def workspace(self) -> Workspace:
        n_instances, n_features = len(self.problem.row_start) - 1, len(self.problem.column_start) - 1
        by_feature: list[Any] = [np.zeros(n_features + 1) for _ in range(6)]
        by_instance: list[Any] = [np.zeros(n_instances, dtype) for dtype in ("f8", "f8", "i4", "u1")]
        return Workspace(*by_feature, *by_instance)

    def solve(
        self, workspace: Workspace, positives: NDArray[np.int32], penalty: float, start: Start, stop: NDArray[np.uint8]
    ) -> Solution:
        """Solve one label; `stop[0]` turning non-zero abandons it."""
        weights = workspace.weights
        weights[:] = 0.0
        weights[start.features] = start.weights
        if self.has_bias:
            is_cold = len(start.features) == 0 and start.bias == 0.0
            weights[-1] = first_bias(len(workspace.scores), len(positives), penalty) if is_cold else start.bias
        workspace.is_positive[positives] = 1
        limit = self.tolerance * len(positives)
        objective, bound, iterations, outcome = _truncated_newton(
            unsigned(self.problem), workspace, penalty, limit, self.max_iterations, self.has_bias, stop
        )
        workspace.is_positive[positives] = 0
        is_kept = (weights[:-1] != 0.0) & (np.abs(weights[:-1]) >= self.prune)
        features = np.flatnonzero(is_kept).astype(np.int32)
        kept = weights[features].astype(np.float32)
        return Solution(features, kept, float(weights[-1]), objective, bound, iterations, outcome)


def first_bias(n_instances: int, n_positives: int, penalty: float) -> float:
    """Return the bias of a cold start: one that satisfies all instances of the commoner side, if P is lower there.

    At w = 0, b = 0 every instance is active and the first iterations read all of them several times; here they read
    the instances of the rarer side, few as these are.
    """
    n_negatives = n_instances - n_positives
    rarer = min(n_positives, n_negatives)
    if 0.5 * penalty * FIRST_BIAS**2 + rarer * (1.0 + FIRST_BIAS) ** 2 >= n_instances:
        return 0.0
    return -FIRST_BIAS if n_positives == rarer else FIRST_BIAS


def unsigned(problem: Problem) -> Any:
    """Return the problem with unsigned indices, which kernels need not check for being negative: no copy."""
    features, instances = problem.row_feature.view(np.uint32), problem.column_instance.view(np.uint32)
    return problem._replace(row_feature=features, column_instance=instances)  # type: ignore[arg-type]


@njit(cache=True, nogil=True)
def _truncated_newton(
    problem: Array, space: Workspace, penalty: float, limit: float, max_iterations: int, has_bias: bool, stop: Array
) -> tuple[float, float, int, int]:
    """Iterate on space.weights, round them to float32; return P, the bound, the iterations and the outcome."""
    outcome = ITERATION_LIMIT
    iterations = 0
    # A little less than the limit, so that rounding the weights to float32 cannot spoil what has been reached.
    enough = 0.9 * limit
    # A residual that would satisfy the limit twice were the same instances active after the step.
    smallest_residual = np.sqrt(penalty * enough)
    score_instances(problem, space.weights[:-1], space.weights[-1], space.scores)
    while True:
        objective, gradient_square = differentiate(problem, space, penalty, has_bias)
        bound = gradient_square / (2.0 * penalty)
        if bound <= enough:
            outcome = CONVERGED
            break
        if iterations == max_iterations:
            break
        if stop[0] != 0:
            outcome = NOT_TRAINED
            break
        active = list_active(space)
        conjugate_gradients(problem, space, active, penalty, has_bias, smallest_residual, stop)
        # Where rounding hides whether P falls, more iterations would not help.
        if not move(problem, space, penalty):
            break
        iterations += 1

    rounded_objective, rounded_bound = _round(problem, space, penalty, has_bias)
    # The gradient of the rounded weights is also the rounding's, which a small lambda inflates; P hardly feels it.
    bound = min(rounded_bound, bound + max(0.0, rounded_objective - objective))
    if outcome == CONVERGED and bound > limit:
        outcome = ITERATION_LIMIT
    return rounded_objective, bound, iterations, outcome


@njit(cache=True, nogil=True)
def _round(problem: Array, space: Workspace, penalty: float, has_bias: bool) -> tuple[float, float]:
    """Round the weights to float32; return P and |g|^2 / (2 lambda) there, from scores computed afresh."""
    for j in range(len(space.weights)):
        space.weights[j] = np.float32(space.weights[j])
    score_instances(problem, space.weights[:-1], space.weights[-1], space.scores)
    objective, gradient_square = differentiate(problem, space, penalty, has_bias)
    return objective, gradient_square / (2.0 * penalty)
