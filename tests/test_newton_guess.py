"""The first guess of frequent labels on small dense data: least squares, once inverted for all labels."""

import numpy as np
import pytest
from test_newton import as_problem, check

from proxml_mpi.solve import newton
from proxml_mpi.solve.newton_prepare import DAMPING, LEAST_ROWS, MOST_FEATURES, MOST_ROWS
from proxml_mpi.solve.problem import Outcome

N_INSTANCES, N_FEATURES = 1200, 30


def dense_labels(seed: int, size: float = 1.0) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return dense instances, and the positives of labels that are noisy half-spaces."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(N_INSTANCES, N_FEATURES)) * (generator.random((N_INSTANCES, N_FEATURES)) < 0.6)
    X = (size * X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)).astype(np.float32).astype(np.float64)
    scores = X @ generator.normal(size=(N_FEATURES, 6)) / size + 0.3 * generator.normal(size=(N_INSTANCES, 6))
    shares = (0.06, 0.1, 0.2, 0.4, 0.7, 0.95)
    lists = [np.flatnonzero(scores[:, k] > np.quantile(scores[:, k], 1 - share)) for k, share in enumerate(shares)]
    return X, [positives.astype(np.int32) for positives in lists]


@pytest.mark.parametrize("size", [1.0, 1000.0])
@pytest.mark.parametrize("ridge", [0.0, 3.0])
def test_a_guess_leads_to_the_same_optimum_sooner(size: float, ridge: float) -> None:
    X, lists = dense_labels(1, size)
    guessing = newton.prepare(as_problem(X))
    plain = guessing._replace(least_squares=np.zeros((0, 0)))
    penalty, mu, n_iterations = 0.3 * size, 0.3 * ridge * size**2, np.zeros(2, int)
    for positives in lists:
        one, other = (
            newton.solve(problem, newton.workspace(problem), positives, penalty, 1e-4 * len(positives), ridge=mu)
            for problem in (guessing, plain)
        )
        assert one.outcome == other.outcome == Outcome.converged
        assert one.objective == pytest.approx(other.objective, abs=1e-4 * len(positives))
        n_iterations += one.iterations, other.iterations
        check(X, positives.tolist(), penalty, tolerance=1e-5, ridge=mu)
    assert n_iterations[0] < n_iterations[1]


@pytest.mark.parametrize("n_instances", [LEAST_ROWS * N_FEATURES, 3 * MOST_ROWS * N_FEATURES + 7])
def test_the_inverse_is_that_of_damped_least_squares(n_instances: int) -> None:
    # Of the larger one, every third instance is read.
    generator = np.random.default_rng(2)
    X = generator.normal(size=(n_instances, N_FEATURES)) * (generator.random((n_instances, N_FEATURES)) < 0.3)
    X = X.astype(np.float32).astype(np.float64)
    inverse = newton.prepare(as_problem(X)).least_squares
    read = X[:: max(1, n_instances // (MOST_ROWS * N_FEATURES))]
    squares = (read - read.mean(axis=0)).T @ (read - read.mean(axis=0))
    squares += DAMPING * np.trace(squares) / N_FEATURES * np.eye(N_FEATURES)
    assert np.allclose(inverse @ squares, np.eye(N_FEATURES), atol=1e-9)


def test_only_small_dense_data_with_all_negatives_are_guessed_at() -> None:
    X, _ = dense_labels(3)
    assert newton.prepare(as_problem(X)).least_squares.shape == (N_FEATURES, N_FEATURES)
    without = [
        newton.prepare(as_problem(X), np.arange(N_INSTANCES) > 0),
        newton.prepare(as_problem(X[: LEAST_ROWS * N_FEATURES - 1])),
        newton.prepare(as_problem(np.zeros((100, 5)))),
        newton.prepare(as_problem(np.ones((LEAST_ROWS * (MOST_FEATURES + 1), MOST_FEATURES + 1)))),
    ]
    assert [prepared.least_squares.shape for prepared in without] == [(0, 0)] * 4


@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_guesses_without_a_direction(ridge: float) -> None:
    # Every instance is positive; or the positives have no features at all.
    X, _ = dense_labels(4)
    X[:100] = 0.0
    check(X, list(range(N_INSTANCES)), 0.1, tolerance=1e-5, ridge=ridge)
    check(X, list(range(100)), 0.1, tolerance=1e-5, ridge=ridge)
