"""The authors' program, made again: forward-backward from 0, gamma 0.1 divided by 10, 300 to 1,800 iterations.

A step that raises the objective divides gamma by 10 and is tried again; after 300 iterations a relative change of the
objective below 1e-4 ends it. Every iteration reads the whole matrix twice.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from proxml_mpi.solve.objective import l1_norm, loss_gradient, score_instances
from proxml_mpi.solve.problem import Problem

LEAST, MOST, ENOUGH = 300, 1800, 1e-4


class Authors:
    """One data set, solved a label at a time."""

    def __init__(self, problem: Problem) -> None:
        n_instances, n_features = len(problem.row_start) - 1, len(problem.column_start) - 1
        self._problem, self._is_positive = problem, np.zeros(n_instances, np.uint8)
        self._scores, self._gradient = np.zeros(n_instances), np.zeros(n_features)

    def solve(self, positives: NDArray[np.int32], penalty: float) -> tuple[NDArray[np.float64], float]:
        """Return weights [n_features] and bias."""
        self._is_positive[positives] = 1
        weights = np.zeros(len(self._gradient))
        bias = float(_solve(self._problem, weights, self._scores, self._gradient, self._is_positive, penalty))
        self._is_positive[positives] = 0
        return weights, bias


@njit(cache=True)
def _soft(value: float, limit: float) -> float:
    return np.sign(value) * max(0.0, abs(value) - limit)


@njit(cache=True)
def _solve(problem: Any, weights: Any, scores: Any, gradient: Any, is_positive: Any, penalty: float) -> float:
    """Iterate on weights; return the bias."""
    bias, gamma, before = 0.0, 0.1, np.inf
    trial = np.zeros(len(weights))
    score_instances(problem, weights, bias, scores)
    bias_gradient, _, squares = loss_gradient(problem, scores, is_positive, gradient)
    value = 0.25 * squares
    for iteration in range(MOST):
        while True:
            for j in range(len(weights)):
                trial[j] = _soft(weights[j] - gamma * gradient[j], gamma * penalty)
            trial_bias = _soft(bias - gamma * bias_gradient, gamma * penalty)
            score_instances(problem, trial, trial_bias, scores)
            # The gradient at the trial point, of which only the loss is used when the step is refused.
            kept = gradient.copy()
            trial_gradient, _, squares = loss_gradient(problem, scores, is_positive, gradient)
            trial_value = 0.25 * squares + penalty * (l1_norm(trial) + abs(trial_bias))
            if trial_value <= value or gamma < 1e-12:
                break
            gradient[:] = kept
            gamma /= 10.0
        weights[:] = trial
        bias, bias_gradient, before, value = trial_bias, trial_gradient, value, trial_value
        if iteration >= LEAST and abs(before - value) < ENOUGH * abs(before):
            break
    return bias
