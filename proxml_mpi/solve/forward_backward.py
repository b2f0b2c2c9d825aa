"""The paper's Algorithm 1: forward-backward proximal gradient from w = 0, here stopping on the duality gap.

One iteration, L being the squared hinge loss, L'(w) = -2 sum_i y_i x_i max(0, v_i) its gradient:

    w' = soft(w - gamma L'(w), gamma lambda)
    accept when  L(w') <= L(w) + L'(w)(w' - w) + |w' - w|^2 / (2 gamma),  else shorten gamma and try again

The paper prints the soft threshold as lambda and the gradient with a squared violation; both are misprints: neither
belongs to the objective that it states, and the objective decides. The bias is a feature of value 1. A ridge mu/2 |w|^2
belongs to the backward step, which then divides the weights by 1 + gamma mu.

R. Babbar and B. Schölkopf, Data scarcity, robustness and extreme multi-label classification,
Machine Learning 108, 2019.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from proxml_mpi.solve.objective import (
    best_dual_value,
    certify,
    loss_gradient,
    penalised,
    score_instances,
    squared_hinge,
)
from proxml_mpi.solve.problem import OneByOne, Outcome, Problem, Solution, Start

Array = Any

SHORTEN = 0.5  # of gamma, when a step is refused
LENGTHEN = 1.2  # of gamma, before each iteration: fewer rows are active near the optimum, so that longer steps hold
FIRST_GAMMA = 0.1

CONVERGED = int(Outcome.converged)
ITERATION_LIMIT = int(Outcome.iteration_limit)
NOT_TRAINED = int(Outcome.not_trained)


class Workspace(NamedTuple):
    """What one thread needs to solve one label after the other."""

    weights: NDArray[np.float64]  # [n_features]
    next_weights: NDArray[np.float64]  # [n_features]
    gradient: NDArray[np.float64]  # [n_features]
    scores: NDArray[np.float64]  # [n_instances]
    next_scores: NDArray[np.float64]  # [n_instances]
    is_positive: NDArray[np.uint8]  # [n_instances]


@dataclass(frozen=True)
class ForwardBackward(OneByOne):
    """Algorithm 1 on one data set."""

    problem: Problem
    tolerance: float  # of the gap, per positive
    max_iterations: int
    has_bias: bool
    ridge: float = 0.0  # mu / lambda

    def workspace(self) -> Workspace:
        n_instances, n_features = len(self.problem.row_start) - 1, len(self.problem.column_start) - 1
        return Workspace(
            weights=np.zeros(n_features),
            next_weights=np.zeros(n_features),
            gradient=np.zeros(n_features),
            scores=np.zeros(n_instances),
            next_scores=np.zeros(n_instances),
            is_positive=np.zeros(n_instances, np.uint8),
        )

    def solve(
        self, workspace: Workspace, positives: NDArray[np.int32], penalty: float, start: Start, stop: NDArray[np.uint8]
    ) -> Solution:
        """Solve one label; `stop[0]` turning non-zero abandons it."""
        workspace.is_positive[positives] = 1
        workspace.weights[:] = 0.0
        workspace.weights[start.features] = start.weights
        limit = self.tolerance * len(positives)
        bias, objective, gap, iterations, outcome = _forward_backward(
            self.problem,
            workspace,
            start.bias,
            penalty,
            self.ridge * penalty,
            limit,
            self.max_iterations,
            self.has_bias,
            stop,
        )
        workspace.is_positive[positives] = 0
        features = np.flatnonzero(workspace.weights).astype(np.int32)
        weights = workspace.weights[features].astype(np.float32)
        return Solution(features, weights, bias, objective, gap, iterations, outcome)


@njit(cache=True, nogil=True)
def _forward_backward(
    problem: Array,
    space: Workspace,
    bias: float,
    penalty: float,
    ridge: float,
    gap_limit: float,
    max_iterations: int,
    has_bias: bool,
    stop: Array,
) -> tuple[float, float, float, int, int]:
    """Iterate on space.weights, round them to float32 and certify what is left of them."""
    best_dual = 0.0
    gamma = FIRST_GAMMA
    outcome = ITERATION_LIMIT
    iterations = 0
    score_instances(problem, space.weights, bias, space.scores)
    while True:
        bias_gradient, a_sum, a_square_sum = loss_gradient(problem, space.scores, space.is_positive, space.gradient)
        loss = 0.25 * a_square_sum
        pull = abs(bias_gradient) if has_bias else 0.0
        best_dual = max(best_dual, best_dual_value(space.gradient, pull, a_sum, a_square_sum, penalty, ridge))
        gap = penalised(space.weights, bias, penalty, ridge) + loss - best_dual
        # Half the limit, so that rounding the weights to float32 cannot spoil what has been reached.
        if gap <= 0.5 * gap_limit:
            outcome = CONVERGED
            break
        if iterations == max_iterations:
            break
        if stop[0] != 0:
            outcome = NOT_TRAINED
            break
        bias, gamma = _step(problem, space, bias, bias_gradient, loss, gamma * LENGTHEN, penalty, ridge, has_bias)
        iterations += 1

    for j in range(len(space.weights)):
        space.weights[j] = np.float32(space.weights[j])
    bias = float(np.float32(bias))
    objective, dual = certify(
        problem, space.weights, bias, space.is_positive, penalty, has_bias, space.scores, space.gradient, ridge
    )
    gap = objective - max(best_dual, dual)
    if outcome == CONVERGED and gap > gap_limit:
        outcome = ITERATION_LIMIT
    return bias, objective, gap, iterations, outcome


@njit(cache=True, nogil=True)
def _step(
    problem: Array,
    space: Workspace,
    bias: float,
    bias_gradient: float,
    loss: float,
    gamma: float,
    penalty: float,
    ridge: float,
    has_bias: bool,
) -> tuple[float, float]:
    """Take one accepted step: update space.weights and space.scores, return the new bias and the gamma that held."""
    while True:
        next_bias = soft_threshold(bias - gamma * bias_gradient, gamma * penalty) if has_bias else 0.0
        difference = next_bias - bias
        slope = bias_gradient * difference
        square = difference * difference
        for j in range(len(space.weights)):
            moved = soft_threshold(space.weights[j] - gamma * space.gradient[j], gamma * penalty) / (
                1.0 + gamma * ridge
            )
            difference = moved - space.weights[j]
            slope += space.gradient[j] * difference
            square += difference * difference
            space.next_weights[j] = moved
        score_instances(problem, space.next_weights, next_bias, space.next_scores)
        bound = loss + slope + square / (2.0 * gamma)
        # The last term forgives the rounding of the two losses, which would otherwise shorten gamma without end.
        if squared_hinge(space.next_scores, space.is_positive) <= bound + 1e-14 * loss:
            space.weights[:] = space.next_weights
            space.scores[:] = space.next_scores
            return next_bias, gamma
        gamma *= SHORTEN


@njit(cache=True, nogil=True)
def soft_threshold(value: float, threshold: float) -> float:
    """Return the number nearest to zero within threshold of value."""
    if value > threshold:
        return value - threshold
    if value < -threshold:
        return value + threshold
    return 0.0
