"""The L2-regularised baseline against dense arithmetic, finite differences and scipy's minimisers."""

from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize

from proxml_mpi.solve.labels import solve_labels
from proxml_mpi.solve.problem import COLD, Outcome, Problem, Solution, Start, make_problem
from proxml_mpi.solve.truncated_newton import TruncatedNewton, first_bias, unsigned
from proxml_mpi.solve.truncated_newton_kernels import (
    conjugate_gradients,
    differentiate,
    hessian_product,
    list_active,
    loss_along,
    move,
)

RUN_ON = np.zeros(1, np.uint8)
N, D = 40, 12
seeds = st.integers(0, 10**6)


def sparse(X: np.ndarray) -> Problem:
    row_start = np.concatenate([[0], np.cumsum((X != 0).sum(axis=1))]).astype(np.int64)
    rows, columns = np.nonzero(X)
    return make_problem(row_start, columns.astype(np.int32), X[rows, columns].astype(np.float32), X.shape[1])


def random_features(seed: int, density: float = 0.4) -> np.ndarray:
    """Features of either sign; the first instance is empty, the last two are equal."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(N, D)) * (generator.random((N, D)) < density)
    X[0] = 0
    X[-1] = X[-2]
    return X.astype(np.float32).astype(np.float64)


class Dense:
    """One label's problem in dense numpy; the bias is the last column, where there is one."""

    def __init__(self, X: np.ndarray, positives: Any, penalty: float, has_bias: bool) -> None:
        self.X = np.hstack([X, np.full((len(X), 1), float(has_bias))])
        self.y = np.full(len(X), -1.0)
        self.y[positives] = 1
        self.penalty = penalty

    def violation(self, w: np.ndarray) -> np.ndarray:
        return np.maximum(0, 1 - self.y * (self.X @ w))

    def objective(self, w: np.ndarray) -> float:
        return float(self.penalty / 2 * w @ w + (self.violation(w) ** 2).sum())

    def gradient(self, w: np.ndarray) -> np.ndarray:
        return self.penalty * w - 2 * self.X.T @ (self.y * self.violation(w))

    def hessian(self, w: np.ndarray) -> np.ndarray:
        active = self.X[self.violation(w) > 0]
        return self.penalty * np.eye(len(w)) + 2 * active.T @ active

    def optimum(self) -> float:
        """The lower of what two of scipy's methods reach."""
        begin = np.zeros(self.X.shape[1])
        quasi = minimize(self.objective, begin, jac=self.gradient, method="L-BFGS-B", options={"gtol": 1e-10})
        newton = minimize(
            self.objective, quasi.x, jac=self.gradient, hess=self.hessian, method="Newton-CG", options={"xtol": 1e-12}
        )
        return float(min(quasi.fun, newton.fun))


def full_weights(solution: Solution, n_features: int = D) -> np.ndarray:
    w = np.zeros(n_features + 1)
    w[solution.features] = solution.weights
    w[-1] = solution.bias
    return w


def solve(
    X: np.ndarray,
    positives: Any,
    penalty: float,
    has_bias: bool = True,
    tolerance: float = 1e-8,
    max_iterations: int = 1000,
    prune: float = 0.0,
    start: Start = COLD,
    stop: np.ndarray = RUN_ON,
) -> Solution:
    solver = TruncatedNewton(sparse(X), tolerance, max_iterations, has_bias, prune)
    return solver.solve(solver.workspace(), np.array(positives, np.int32), penalty, start, stop)


def loaded_workspace(X: np.ndarray, positives: Any, w: np.ndarray) -> Any:
    """A workspace in the middle of a solve, at w."""
    space = TruncatedNewton(sparse(X), 1e-3, 10, True, 0.0).workspace()
    space.is_positive[positives] = 1
    space.weights[:] = w
    space.scores[:] = X @ w[:-1] + w[-1]
    return space


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=seeds, penalty=st.floats(0.01, 10), has_bias=st.booleans())
def test_derivatives_agree_with_dense_arithmetic(seed: int, penalty: float, has_bias: bool) -> None:
    X, generator = random_features(seed), np.random.default_rng(seed)
    positives = np.flatnonzero(generator.random(N) < 0.3)
    w, d = generator.normal(size=D + 1), generator.normal(size=D + 1)
    if not has_bias:
        w[-1] = d[-1] = 0.0
    dense, problem = Dense(X, positives, penalty, has_bias), unsigned(sparse(X))
    space = loaded_workspace(X, positives, w)

    objective, square = differentiate(problem, space, penalty, has_bias)
    assert objective == pytest.approx(dense.objective(w), rel=1e-12)
    assert space.gradient == pytest.approx(dense.gradient(w), rel=1e-10, abs=1e-10)
    assert square == pytest.approx(space.gradient @ space.gradient)
    active = list_active(space)
    assert np.array_equal(active, np.flatnonzero(dense.violation(w) > 0))
    hessian_product(problem, active, penalty, has_bias, d, space.product)
    assert space.product == pytest.approx(dense.hessian(w) @ d, rel=1e-10, abs=1e-10)


def test_derivatives_agree_with_finite_differences() -> None:
    X, generator = random_features(3), np.random.default_rng(3)
    positives, w, d = [1, 5, 9], generator.normal(size=D + 1), generator.normal(size=D + 1)
    dense, problem = Dense(X, positives, 0.3, True), unsigned(sparse(X))
    space = loaded_workspace(X, positives, w)
    differentiate(problem, space, 0.3, True)
    assert space.gradient == pytest.approx(approx_fprime(w, dense.objective, 1e-7), abs=1e-4)

    hessian_product(problem, list_active(space), 0.3, True, d, space.product)
    ahead = loaded_workspace(X, positives, w + 1e-7 * d)
    differentiate(problem, ahead, 0.3, True)
    assert space.product == pytest.approx((ahead.gradient - space.gradient) / 1e-7, abs=1e-4)


def test_loss_along_a_line_agrees_with_finite_differences() -> None:
    generator = np.random.default_rng(4)
    scores, step, is_positive = generator.normal(size=N), generator.normal(size=N), np.arange(N) % 3 == 0
    y = np.where(is_positive, 1, -1)

    def loss(t: float) -> float:
        return float((np.maximum(0, 1 - y * (scores + t * step)) ** 2).sum())

    for t in (0.0, 0.3, 2.0):
        change, slope, curvature = loss_along(scores, step, is_positive.astype(np.uint8), t)
        assert change == pytest.approx(loss(t) - loss(0.0), abs=1e-10)
        assert slope == pytest.approx((loss(t + 1e-6) - loss(t - 1e-6)) / 2e-6, rel=1e-6)
        assert curvature == pytest.approx((loss(t + 1e-4) - 2 * loss(t) + loss(t - 1e-4)) / 1e-8, rel=1e-3)


def test_conjugate_gradients_lower_the_model_and_stop_when_told() -> None:
    X, positives, problem = random_features(6), [2, 3], unsigned(sparse(random_features(6)))
    space = loaded_workspace(X, positives, np.zeros(D + 1))
    differentiate(problem, space, 0.1, True)
    g, H = space.gradient.copy(), Dense(X, positives, 0.1, True).hessian(np.zeros(D + 1))
    gains = []
    for stop in (np.ones(1, np.uint8), RUN_ON):
        conjugate_gradients(problem, space, list_active(space), 0.1, True, 0.0, stop)
        s = space.step
        assert space.residual == pytest.approx(-g - H @ s, abs=1e-9)
        gains.append(-(g @ s + s @ H @ s / 2))
    best = g @ np.linalg.solve(H, g) / 2
    assert 0 < gains[0] < gains[1] <= best
    assert gains[1] > 0.9 * best


def test_move_refuses_a_flat_point_that_is_higher() -> None:
    """2 w^2 + max(0, 1 - 100 w)^2 falls from 1 to almost 0 at w = 0.01, then rises gently to 2 at the full step."""
    problem, space = unsigned(sparse(np.array([[100.0]]))), loaded_workspace(np.array([[100.0]]), [0], np.zeros(2))
    differentiate(problem, space, 4.0, False)
    space.step[:] = 1.0, 0.0
    assert move(problem, space, 4.0)
    assert space.scores == pytest.approx(100 * space.weights[:1])
    assert differentiate(problem, space, 4.0, False)[0] < 1.0


def test_move_stays_where_nothing_is_lower() -> None:
    problem, space = unsigned(sparse(np.array([[100.0]]))), loaded_workspace(np.array([[100.0]]), [0], np.zeros(2))
    differentiate(problem, space, 4.0, False)
    space.step[:] = -1.0, 0.0
    assert not move(problem, space, 4.0)
    assert space.weights[0] == space.scores[0] == 0.0


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    seed=seeds,
    exponent=st.floats(-3, 3),
    has_bias=st.booleans(),
    n_positives=st.integers(1, N),
    density=st.sampled_from([0.1, 0.4, 1.0]),
)
def test_optimum_agrees_with_scipy(
    seed: int, exponent: float, has_bias: bool, n_positives: int, density: float
) -> None:
    X, penalty = random_features(seed, density), 10.0**exponent
    positives = np.sort(np.random.default_rng(seed).permutation(N)[:n_positives])
    dense = Dense(X, positives, penalty, has_bias)
    solution = solve(X, positives, penalty, has_bias)
    assert solution.outcome == Outcome.converged
    assert 0 <= solution.duality_gap <= 1e-8 * n_positives
    assert has_bias or solution.bias == 0.0
    assert solution.objective == pytest.approx(dense.optimum(), rel=1e-6, abs=1e-9)

    w = full_weights(solution)
    assert solution.objective == pytest.approx(dense.objective(w), rel=1e-12)
    # One of the two roads to the bound: the gradient of the very weights, or that before rounding them.
    gradient = dense.gradient(w)
    assert solution.duality_gap <= gradient @ gradient / (2 * penalty) * (1 + 1e-6) + 1e-15


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=seeds, exponent=st.floats(-3, 2), max_iterations=st.integers(0, 6))
def test_bound_is_never_below_the_suboptimality(seed: int, exponent: float, max_iterations: int) -> None:
    X, penalty, positives = random_features(seed), 10.0**exponent, np.arange(1, 1 + seed % 9)
    optimum = solve(X, positives, penalty, tolerance=1e-10).objective
    solution = solve(X, positives, penalty, max_iterations=max_iterations)
    rounding = 1e-12 * optimum
    assert solution.iterations <= max_iterations
    assert solution.outcome == (Outcome.converged if solution.duality_gap <= 1e-8 * len(positives) else 1)
    assert solution.objective - optimum <= solution.duality_gap + rounding


def test_every_iteration_lowers_the_objective() -> None:
    X, positives = random_features(7, 1.0), [3, 4, 30]
    objectives = [solve(X, positives, 1e-3, max_iterations=n).objective for n in range(30)]
    n_iterations = solve(X, positives, 1e-3).iterations
    steps = np.diff(objectives[: n_iterations + 1])
    assert n_iterations > 3
    assert np.all(steps < 0)


@pytest.mark.parametrize("positives", [[5], [0], list(range(N)), list(range(1, N)), list(range(N // 2))])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("penalty", [1e-6, 1.0, 1e6])
def test_corners(positives: list[int], has_bias: bool, penalty: float) -> None:
    """One positive, an empty one, all, all but one; tiny and huge lambda."""
    X = random_features(9)
    solution = solve(X, positives, penalty, has_bias, tolerance=1e-6)
    assert solution.outcome == Outcome.converged
    assert solution.duality_gap <= 1e-6 * len(positives)
    optimum = Dense(X, positives, penalty, has_bias).optimum()
    assert abs(solution.objective - optimum) <= 1e-6 * len(positives) + 1e-6 * optimum


def test_no_entries_at_all() -> None:
    solution = solve(np.zeros((N, D)), [0, 1], 2.0)
    # b minimises b^2 + 2 (1 - b)^2 + 38 (1 + b)^2.
    assert len(solution.features) == 0
    assert solution.bias == pytest.approx(-36 / 41, rel=1e-6)
    unbiased = solve(np.zeros((N, D)), [0, 1], 2.0, has_bias=False)
    assert (len(unbiased.features), unbiased.bias, unbiased.objective) == (0, 0.0, N)


def test_first_bias_never_begins_above_zero_weights() -> None:
    assert first_bias(1000, 3, 1.0) == -first_bias(1000, 997, 1.0) < -1
    assert first_bias(1000, 500, 1.0) == first_bias(1000, 3, 1e6) == 0.0


@pytest.mark.parametrize("prune", [0.0, 0.01, 0.2, 100.0])
def test_prune_drops_exactly_the_small_weights(prune: float) -> None:
    X, positives = random_features(10), [4, 5, 6]
    whole, pruned = solve(X, positives, 0.5), solve(X, positives, 0.5, prune=prune)
    is_kept = np.abs(whole.weights) >= prune
    assert np.array_equal(pruned.features, whole.features[is_kept])
    assert np.array_equal(pruned.weights, whole.weights[is_kept])
    assert pruned[2:] == whole[2:]
    assert pruned.weights.dtype == np.float32 and np.float32(pruned.bias) == pruned.bias


def test_iteration_limit_is_said() -> None:
    solution = solve(random_features(11), [1, 2], 1e-2, max_iterations=2)
    assert (solution.outcome, solution.iterations) == (Outcome.iteration_limit, 2)
    assert solution.duality_gap > 1e-8 * 2


def test_unreachable_tolerance_ends_at_the_optimum() -> None:
    X = random_features(11)
    solution = solve(X, [1, 2], 1e-2, tolerance=0.0, max_iterations=10**6)
    assert solution.outcome == Outcome.iteration_limit
    assert solution.iterations < 100
    assert solution.objective == pytest.approx(solve(X, [1, 2], 1e-2).objective, rel=1e-9)


def test_stop_flag_abandons_the_label() -> None:
    solution = solve(random_features(12), [1, 2], 0.1, stop=np.ones(1, np.uint8))
    assert (solution.outcome, solution.iterations) == (Outcome.not_trained, 0)


def test_warm_start_at_the_optimum_needs_no_iteration() -> None:
    X, positives = random_features(13), [1, 2, 3]
    first = solve(X, positives, 0.1)
    again = solve(X, positives, 0.1, tolerance=1e-4, start=Start(first.features, first.weights, first.bias))
    assert again.iterations == 0
    assert np.array_equal(again.weights, first.weights)
    far = Start(np.arange(D, dtype=np.int32), np.full(D, 50, np.float32), -30.0)
    assert solve(X, positives, 0.1, start=far).objective == pytest.approx(first.objective, rel=1e-6)
    assert solve(X, positives, 0.1, has_bias=False, start=far).bias == 0.0


def test_threads_order_and_reuse_change_no_bit() -> None:
    problem = sparse(random_features(14))
    solver = TruncatedNewton(problem, 1e-4, 1000, has_bias=True, prune=0.01)
    lists = [np.array(p, np.int32) for p in ([0], [1, 2], [3, 4, 5], [39], range(30), range(N))]

    def solve_all(n_threads: int, order: np.ndarray) -> dict[int, Solution]:
        found = solve_labels(solver, order, lists.__getitem__, lambda label: 0.2, n_threads, RUN_ON)
        return dict(chain.from_iterable(found))

    forth, back = solve_all(1, np.arange(6)), solve_all(3, np.arange(6)[::-1])
    assert forth.keys() == back.keys() == set(range(6))
    for label, reused in forth.items():
        fresh = solver.solve(solver.workspace(), lists[label], 0.2, COLD, RUN_ON)
        for other in (back[label], fresh):
            assert reused.weights.tobytes() == other.weights.tobytes()
            assert reused.features.tobytes() == other.features.tobytes()
            assert reused[2:7] == other[2:7]
