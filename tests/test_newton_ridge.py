"""The default solver with a ridge beside the L1: certificates, second solvers, every kind of label."""

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st
from test_newton import CASES, RUN_ON, as_problem, check, random_matrix, signs, solve

from proxml_mpi.solve.forward_backward import ForwardBackward
from proxml_mpi.solve.problem import COLD, Outcome, Start
from proxml_mpi.solve.solvers import Plan, make_solver


def split_reference(X: np.ndarray, y: np.ndarray, penalty: float, ridge: float, has_bias: bool) -> float:
    """The optimum with a ridge by scipy, as a smooth problem in two non-negative halves of the weights."""
    Z = np.hstack([X, np.ones((len(X), 1))]) if has_bias else X
    d = Z.shape[1]
    mu = np.full(d, ridge)
    mu[d - has_bias :] = 0.0

    def value(halves: np.ndarray) -> tuple[float, np.ndarray]:
        w = halves[:d] - halves[d:]
        v = np.maximum(0, 1 - y * (Z @ w))
        slope = mu * w - 2 * Z.T @ (y * v)
        objective = penalty * halves.sum() + mu @ w**2 / 2 + v @ v
        return float(objective), np.concatenate([penalty + slope, penalty - slope])

    options = {"maxiter": 50_000, "maxfun": 100_000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 50}
    point, best = np.zeros(2 * d), np.inf
    while True:
        # It may stop far from the optimum when one step happens to gain nothing; begun anew there, it goes on.
        found = scipy.optimize.minimize(
            value, point, jac=True, bounds=[(0, None)] * (2 * d), method="L-BFGS-B", options=options
        )
        if not found.fun < best:
            return best
        point, best = found.x, float(found.fun)


RIDGES = st.sampled_from([1e-3, 0.1, 1.5, 30.0])


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    log_penalty=st.floats(-3, 1.5),
    ridge=RIDGES,
    n_positives=st.integers(1, 39),
    has_bias=st.booleans(),
    density=st.sampled_from([0.05, 0.3, 1.0]),
)
def test_certified_optimum_with_a_ridge(
    seed: int, log_penalty: float, ridge: float, n_positives: int, has_bias: bool, density: float
) -> None:
    positives = sorted(np.random.default_rng(seed).permutation(40)[:n_positives].tolist())
    X, penalty = random_matrix(seed, density=density), 10**log_penalty
    check(X, positives, penalty, has_bias, ridge=ridge * penalty)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    penalty=st.floats(0.1, 3),
    ridge=RIDGES,
    n_positives=st.integers(1, 24),
    has_bias=st.booleans(),
    is_negative=st.booleans(),
)
def test_agreement_with_a_second_solver_with_a_ridge(
    seed: int, penalty: float, ridge: float, n_positives: int, has_bias: bool, is_negative: bool
) -> None:
    X = random_matrix(seed, 25, 8)
    X = X if is_negative else np.abs(X)
    positives = sorted(np.random.default_rng(seed).permutation(25)[:n_positives].tolist())
    found = solve(X, positives, penalty, 1e-8, has_bias, ridge * penalty)
    expected = split_reference(X, signs(25, positives), penalty, ridge * penalty, has_bias)
    assert found.objective == pytest.approx(expected, rel=1e-6)
    assert expected >= found.objective - found.duality_gap - 1e-9 * expected


@settings(max_examples=15, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), penalty=st.floats(0.1, 3), ridge=RIDGES)
def test_agreement_with_forward_backward_with_a_ridge(seed: int, penalty: float, ridge: float) -> None:
    X = random_matrix(seed)
    positives = np.array([1, 5, 9], np.int32)
    second = ForwardBackward(as_problem(X), 1e-7, 200_000, has_bias=True, ridge=ridge)
    other = second.solve(second.workspace(), positives, penalty, COLD, RUN_ON)
    assert other.outcome == Outcome.converged and other.duality_gap <= 3e-7
    found = solve(X, positives.tolist(), penalty, 1e-7, ridge=ridge * penalty)
    assert found.objective == pytest.approx(other.objective, rel=1e-6)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("penalty", [0.01, 1.0])
@pytest.mark.parametrize("has_bias", [True, False])
def test_special_labels_with_a_ridge(case: str, penalty: float, has_bias: bool) -> None:
    X, positives = CASES[case]
    check(X, positives, penalty, has_bias, tolerance=1e-5, ridge=1.5 * penalty)


def test_a_ridge_where_most_instances_violate() -> None:
    """The bias is above -1: features that no touched instance has take part in the dual bound."""
    generator = np.random.default_rng(5)
    X = np.eye(60)[generator.integers(0, 60, 300)] * generator.normal(size=(300, 1))
    for penalty in (0.5, 5.0, 50.0):
        found = check(X, list(range(140)), penalty, ridge=penalty)
        assert found.bias > -1.0


@pytest.mark.parametrize("ratio", [1e-12, 1e-310])
def test_a_tiny_ridge_is_next_to_none(ratio: float) -> None:
    X, positives = random_matrix(35), [1, 2, 3]
    without = check(X, positives, 0.1)
    found = check(X, positives, 0.1, ridge=0.1 * ratio)
    assert found.objective == pytest.approx(without.objective, abs=1e-6)


def test_weights_shrink_and_spread_with_the_ridge() -> None:
    X, positives = np.repeat(random_matrix(36, 60, 10), 3, axis=1), [1, 2, 3, 4]
    found = [check(X, positives, 0.1, ridge=ridge) for ridge in (0.0, 0.1, 1.0, 10.0)]
    norms = [float((s.weights.astype(float) ** 2).sum()) for s in found]
    assert norms == sorted(norms, reverse=True) and len(found[0].features) < len(found[2].features)
    # Features that are alike share what one of them would carry, as far as the gap tells: |w - w*|^2 <= 2 gap / mu.
    one, other = (found[2].weights[found[2].features % 3 == k] for k in (0, 1))
    assert one == pytest.approx(other, abs=np.sqrt(4.0 * found[2].duality_gap / 1.0))
    ends = [s.objective for s in found]
    assert ends == sorted(ends)


def test_a_warm_start_with_a_ridge() -> None:
    X, positives = random_matrix(33, 80, 40), np.array([1, 2, 3, 4, 5], np.int32)
    solver = make_solver(Plan("newton", 1e-6, 500, has_bias=True, ridge=1.5), as_problem(X))
    cold = solver.solve(solver.workspace(), positives, 0.1, COLD, RUN_ON)
    start = Start(cold.features, cold.weights, cold.bias)
    warm = solver.solve(solver.workspace(), positives, 0.1, start, RUN_ON)
    assert warm.outcome == Outcome.converged and warm.iterations <= 2 < cold.iterations
    assert warm.objective == pytest.approx(cold.objective, abs=2e-6 * len(positives))
