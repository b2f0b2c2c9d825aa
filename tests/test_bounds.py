"""numba checks no bounds unless it is told to: all solvers once with every index checked, in a program of its own."""

import subprocess
import sys
from pathlib import Path

import numpy as np
from conftest import clean_environment
from test_newton import RUN_ON, as_problem
from test_newton_gradient import check_estimate

from proxml_mpi.solve import newton
from proxml_mpi.solve.problem import COLD, Outcome, Start
from proxml_mpi.solve.solvers import Plan, make_solver, sum_negatives


def test_no_solver_leaves_its_arrays(tmp_path: Path) -> None:
    environment = clean_environment(NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path))
    found = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


def solve_dense_noise(seed: int) -> None:
    """Solve labels that no weights explain: steps meet most instances, again and again."""
    generator = np.random.default_rng(seed)
    n, d = int(generator.choice([120, 400, 1200])), int(generator.choice([5, 30]))
    size = 10.0 ** generator.integers(-1, 4)
    X = generator.normal(size=(n, d)) * (generator.random((n, d)) < generator.choice([0.3, 0.6, 1.0]))
    problem = newton.prepare(as_problem(size * (np.abs(X) if seed % 2 else X)))
    work = newton.workspace(problem)
    assert len(problem.least_squares) == d
    for n_positives in (66, n // 2, n - 3):
        positives = np.sort(generator.permutation(n)[:n_positives]).astype(np.int32)
        for penalty in (1e-3, 0.1, 5.0):
            found = newton.solve(problem, work, positives, penalty * size**0.5, 1e-6 * n_positives)
            assert found.outcome == Outcome.converged


def solve_sparse(seed: int) -> None:
    """Solve labels of all sizes on sparse data by every solver, cold and warm, with and without a ridge."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(300, 200)) * (generator.random((300, 200)) < 0.05)
    X[:20], X[:, 7] = 0.0, 1.0
    problem = as_problem(X)
    for method, ridge, bias, share in (
        ("newton", 0.0, True, 1.0),
        ("newton", 2.0, True, 0.5),
        ("newton", 0.0, False, 1.0),
        ("forward-backward", 1.0, True, 1.0),
        ("truncated-newton", 0.0, True, 1.0),
    ):
        plan = Plan(method, 1e-4, 300, bias, prune=0.01, ridge=ridge)
        solver = make_solver(plan, problem, sum_negatives(problem, share))
        work = solver.workspace()
        for n_positives in (0, 1, 5, 60, 299, 300):
            positives = np.sort(generator.permutation(300)[:n_positives]).astype(np.int32)
            if n_positives == 0 and method != "newton":
                continue
            for penalty in (0.003, 0.3, 1e6):
                cold = solver.solve(work, positives, penalty, COLD, RUN_ON)
                solver.solve(work, positives, 2 * penalty, Start(cold.features, cold.weights, 0.5), RUN_ON)


if __name__ == "__main__":
    for number in range(24):
        solve_dense_noise(number)
    solve_sparse(1)
    check_estimate(1, True)
    check_estimate(1, False)
