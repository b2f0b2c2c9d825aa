"""Certificates computed afresh from stored weights, by the plain kernels over all instances and all features.

A stored gap is objective - bound, where bound is the best lower bound of the optimum that the solver met on its way.
The bound that the float32 weights yield by themselves is often a little lower, since rounding disturbs the dual point
more than the objective. Where it does not reach the stored one, the solver goes on from the stored weights: what it
then certifies is a bound for the same problem, and so for the stored weights.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from proxml_mpi.solve.objective import best_dual_value, loss_gradient, penalised, score_instances
from proxml_mpi.solve.problem import COLD, Problem, Start, make_problem
from proxml_mpi.solve.solvers import Negatives, Plan, make_solver

Array = Any

SLACK = 1e-9  # of the objective: what the order of a sum can change


class Space(NamedTuple):
    """What one thread needs to verify one label after the other."""

    weights: NDArray[np.float64]  # [n_features]
    gradient: NDArray[np.float64]  # [n_features]
    scores: NDArray[np.float64]  # [n_instances]
    is_positive: NDArray[np.uint8]  # [n_instances]
    of_solver: Any


class Check(NamedTuple):
    """What is known of one label's problem after the look at its stored weights."""

    objective: float  # of the stored weights
    own_bound: float  # of the optimum from below, by the stored weights alone
    bound: float  # the best one, by going on from them too where that was needed
    attained: float  # the lowest objective met: a bound of the optimum from above


@dataclass(frozen=True)
class Verifier:
    """The problems of all labels of one data set."""

    problem: Problem
    plan: Plan  # newton or truncated-newton (L2)
    negatives: Negatives | None = None  # None: all instances

    def space(self) -> Space:
        n_instances, n_features = len(self.problem.row_start) - 1, len(self.problem.column_start) - 1
        by_feature = (np.zeros(n_features), np.zeros(n_features))
        solver = make_solver(self.plan, self.problem, self.negatives)
        return Space(*by_feature, np.zeros(n_instances), np.zeros(n_instances, np.uint8), solver.workspace())

    def check(
        self,
        space: Space,
        positives: NDArray[np.int32],
        penalty: float,
        stored: Start,
        objective: float,
        gap: float,
        is_pruned: bool,
    ) -> Check:
        """Look for a proof that the optimum is at least objective - gap, the claim of the model file.

        Pruned weights are not those that the claim is about: going on from them tells where the optimum is.
        """
        own_objective, own_bound = self._certify(space, positives, penalty, stored)
        slack = SLACK * max(objective, own_objective)
        if not is_pruned and own_bound >= objective - gap - slack:
            return Check(own_objective, own_bound, own_bound, own_objective)
        bound, attained = own_bound, own_objective
        # A gap is as wide as its bound is bad or its objective high: what is wanted may lie close to the optimum.
        for wanted in (min(0.5 * gap, self.plan.tolerance * len(positives)), slack):
            plan = self.plan._replace(tolerance=max(wanted, slack) / len(positives), prune=0.0)
            solver = make_solver(plan, self.problem, self.negatives)
            found = solver.solve(space.of_solver, positives, penalty, stored, np.zeros(1, np.uint8))
            bound = max(bound, found.objective - found.duality_gap)
            attained = min(attained, found.objective)
            if is_pruned or bound >= objective - gap - slack:
                break
        return Check(own_objective, own_bound, bound, attained)

    def _certify(
        self, space: Space, positives: NDArray[np.int32], penalty: float, stored: Start
    ) -> tuple[float, float]:
        """Return the objective of stored weights and the bound that they yield by themselves."""
        space.weights[stored.features] = stored.weights
        space.is_positive[positives] = 1
        negative = self.negatives.negative if self.negatives is not None else np.ones(len(space.scores), np.uint8)
        is_l2 = self.plan.method == "truncated-newton"
        arrays = (space.is_positive, space.scores, space.gradient)
        ridge = self.plan.ridge * penalty
        found = certify_label(
            self.problem, negative, space.weights, stored.bias, penalty, self.plan.has_bias, is_l2, *arrays, ridge
        )
        space.weights[stored.features] = 0.0
        space.is_positive[positives] = 0
        return found


@njit(cache=True, nogil=True)
def certify_label(
    problem: Array,
    negative: Array,
    weights: Array,
    bias: float,
    penalty: float,
    has_bias: bool,
    is_l2: bool,
    is_positive: Array,
    scores: Array,
    gradient: Array,
    ridge: float = 0.0,
) -> tuple[float, float]:
    """Return P(w, b), L1 or L2, and a lower bound of the optimum; instances neither positive nor negative are left out.

    negative, is_positive: uint8 [n_instances]; weights, gradient: float64 [n_features]; scores: float64 [n_instances].
    """
    score_instances(problem, weights, bias, scores)
    for i in range(len(scores)):
        if negative[i] == 0 and is_positive[i] == 0:
            scores[i] = -np.inf  # a negative that violates nothing
    bias_gradient, a_sum, a_square_sum = loss_gradient(problem, scores, is_positive, gradient)
    loss = 0.25 * a_square_sum
    if is_l2:
        square, norm = 0.0, bias * bias
        if has_bias:
            square = (bias_gradient + penalty * bias) ** 2
        for j in range(len(weights)):
            square += (gradient[j] + penalty * weights[j]) ** 2
            norm += weights[j] * weights[j]
        objective = 0.5 * penalty * norm + loss
        return objective, objective - square / (2.0 * penalty)
    objective = penalised(weights, bias, penalty, ridge) + loss
    pull = abs(bias_gradient) if has_bias else 0.0
    return objective, best_dual_value(gradient, pull, a_sum, a_square_sum, penalty, ridge)


def compile_verifier(method: str) -> None:
    """Compile the kernels, or load them from numba's cache, by verifying something tiny."""
    two = np.arange(2, dtype=np.int32)
    tiny = make_problem(np.arange(3), two, np.ones(2, np.float32), 2)
    verifier = Verifier(tiny, Plan(method, 1e-3, 10, has_bias=True))
    verifier.check(verifier.space(), two[:1], 0.1, COLD, 1.0, 0.1, is_pruned=True)
