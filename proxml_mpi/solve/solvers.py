"""The solvers by name, in the shape that the threads over labels expect."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.solve import newton
from proxml_mpi.solve.forward_backward import ForwardBackward
from proxml_mpi.solve.labels import Solver
from proxml_mpi.solve.problem import COLD, Problem, Request, Solution, Start, make_problem
from proxml_mpi.solve.truncated_newton import TruncatedNewton


class Plan(NamedTuple):
    """How labels are solved."""

    method: str  # newton, forward-backward (L1) or truncated-newton (L2)
    tolerance: float  # of the gap, per positive
    max_iterations: int
    has_bias: bool
    prune: float = 0.0  # smaller weights are dropped (L2)
    ridge: float = 0.0  # mu / lambda (L1)


class Negatives(NamedTuple):
    """What the newton method needs to know of negatives and columns, once for all labels, ranks and threads."""

    negative: NDArray[np.uint8]  # [n_instances], 1 where an instance may serve as a negative
    column_sum: NDArray[np.float64]  # [n_features], over those instances
    column_order: NDArray[np.int32]  # [n_features], by falling |column_sum|
    column_price: NDArray[np.float64]  # [n_features], see NewtonProblem
    column_top: NDArray[np.int32]  # [n_features, N_TOP], see NewtonProblem
    least_squares: NDArray[np.float64]  # [n_features, n_features] or [0, 0], see NewtonProblem


def sum_negatives(problem: Problem, fraction: float = 1.0, seed: int = 0) -> Negatives:
    """Draw the instances that serve as negatives of all labels, all of them or a fraction, and sum their columns."""
    n_instances = len(problem.row_start) - 1
    negative = (np.random.default_rng(seed).random(n_instances) < fraction).astype(np.uint8)
    prepared = newton.prepare(problem, negative)
    order, top = prepared.column_order.view(np.int32), prepared.column_top.view(np.int32)
    facts = (prepared.negative, prepared.column_sum, order, prepared.column_price, top, prepared.least_squares)
    return Negatives(*facts)


@dataclass(frozen=True)
class Newton:
    """The default solver on one data set."""

    problem: newton.NewtonProblem
    plan: Plan

    def workspace(self) -> newton.Workspace:
        return newton.workspace(self.problem)

    def solve(
        self,
        workspace: newton.Workspace,
        positives: NDArray[np.int32],
        penalty: float,
        start: Start,
        stop: NDArray[np.uint8],
    ) -> Solution:
        return self.solve_together(workspace, [Request(positives, penalty, start)], stop)[0]

    def solve_together(
        self, workspace: newton.Workspace, requests: Sequence[Request], stop: NDArray[np.uint8]
    ) -> list[Solution]:
        plan = self.plan
        gap_limits = [plan.tolerance * len(request.positives) for request in requests]
        ridges = [plan.ridge * request.penalty for request in requests]
        limits = (gap_limits, plan.max_iterations, plan.has_bias, stop, ridges)
        return newton.solutions(newton.solve_requests(self.problem, workspace, requests, *limits))


def make_solver(plan: Plan, problem: Problem, negatives: Negatives | None = None) -> Solver:
    """Return the planned solver for one data set; newton wants the sums of its negatives."""
    limits = (plan.tolerance, plan.max_iterations, plan.has_bias)
    if plan.method == "truncated-newton":
        return TruncatedNewton(problem, *limits, plan.prune)
    if plan.method == "forward-backward":
        return ForwardBackward(problem, *limits, plan.ridge)
    known = negatives or sum_negatives(problem)
    return Newton(newton.newton_problem(problem, *known), plan)


def compile_solver(method: str) -> None:
    """Compile the kernels of a solver, or load them from numba's cache, by solving something tiny."""
    tiny = make_problem(np.arange(9), np.arange(8, dtype=np.int32) % 2, np.ones(8, np.float32), 2)
    solver = make_solver(Plan(method, 1e-3, 10, has_bias=True), tiny)
    solver.solve(solver.workspace(), np.zeros(1, np.int32), 0.1, COLD, np.zeros(1, np.uint8))


def workspace_bytes(method: str, n_instances: int, n_features: int, n_entries: int) -> int:
    """Return the memory that one thread's workspace takes at most, told from small ones: it grows with all numbers."""
    base = _small_workspace_bytes(method, 1, 1)
    per_instance = (_small_workspace_bytes(method, 1025, 1) - base) / 1024
    per_feature = (_small_workspace_bytes(method, 1, 1025) - base) / 1024
    local = newton.local_bytes(n_entries) if method == "newton" else 0
    return int(base + per_instance * (n_instances - 1) + per_feature * (n_features - 1)) + local


def _small_workspace_bytes(method: str, n_instances: int, n_features: int) -> int:
    nothing = (np.empty(0, np.int32), np.empty(0, np.float32))
    problem = Problem(np.zeros(n_instances + 1, np.int64), *nothing, np.zeros(n_features + 1, np.int64), *nothing)
    workspace = make_solver(Plan(method, 1e-3, 10, has_bias=True), problem).workspace()
    return sum(getattr(array, "nbytes", 0) for array in workspace)
