"""The default solver against dense arithmetic, a second solver and its own certificate, on every kind of label."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxml_mpi.solve import newton
from proxml_mpi.solve.forward_backward import ForwardBackward
from proxml_mpi.solve.newton_data import (
    MOST_DIRECT,
)
from proxml_mpi.solve.objective import largest_useful_penalty
from proxml_mpi.solve.problem import COLD, Outcome, Problem, Solution, Start, make_problem
from proxml_mpi.solve.solvers import Plan, make_solver

RUN_ON = np.zeros(1, np.uint8)


def as_problem(X: np.ndarray) -> Problem:
    X = X.astype(np.float32)
    row_start = np.concatenate([[0], np.cumsum((X != 0).sum(axis=1))]).astype(np.int64)
    rows, columns = np.nonzero(X)
    return make_problem(row_start, columns.astype(np.int32), X[rows, columns], X.shape[1])


def random_matrix(seed: int, n_instances: int = 40, n_features: int = 15, density: float = 0.3) -> np.ndarray:
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n_instances, n_features)) * (generator.random((n_instances, n_features)) < density)
    return X.astype(np.float32).astype(np.float64)


def solve(
    X: np.ndarray,
    positives: list[int],
    penalty: float,
    tolerance: float = 1e-7,
    has_bias: bool = True,
    ridge: float = 0.0,
) -> Solution:
    prepared = newton.prepare(as_problem(X))
    of_label = np.array(positives, np.int32)
    gap_limit = tolerance * len(positives)
    work = newton.workspace(prepared)
    return newton.solve(prepared, work, of_label, penalty, gap_limit, 500, has_bias, ridge=ridge)


def signs(n_instances: int, positives: list[int]) -> np.ndarray:
    y = np.full(n_instances, -1.0)
    y[positives] = 1.0
    return y


def dense_certificate(
    X: np.ndarray, y: np.ndarray, w: np.ndarray, b: float, penalty: float, has_bias: bool, ridge: float = 0.0
) -> tuple[float, float]:
    """Objective, and the dual value of the point that (w, b) suggests, made feasible."""
    columns = np.hstack([X, np.ones((len(X), 1))]) if has_bias else X
    v = np.maximum(0, 1 - y * (X @ w + b))
    objective = penalty * (np.abs(w).sum() + abs(b)) + ridge / 2 * (w @ w) + (v**2).sum()
    a = 2 * v
    largest = np.abs(columns.T @ (y * a)).max(initial=0)
    scale = min(1, penalty / largest if largest else 1, 2 * a.sum() / (a @ a) if a.any() else 1)
    dual = scale * a.sum() - scale**2 * (a @ a) / 4
    if ridge > 0:
        pull = abs(y @ a) if has_bias else 0.0
        scale = min(1, penalty / pull if pull else 1)
        excess = np.maximum(0, scale * np.abs(X.T @ (y * a)) - penalty)
        dual = max(dual, scale * a.sum() - scale**2 * (a @ a) / 4 - excess @ excess / (2 * ridge))
    return objective, dual


def check(
    X: np.ndarray,
    positives: list[int],
    penalty: float,
    has_bias: bool = True,
    tolerance: float = 1e-7,
    ridge: float = 0.0,
) -> Solution:
    """Solve, derive the certificate again, and hold the objective against the dual bound."""
    X = X.astype(np.float32).astype(np.float64)  # as the solver sees it
    found = solve(X, positives, penalty, tolerance, has_bias, ridge)
    assert found.outcome == Outcome.converged
    y, w = signs(len(X), positives), np.zeros(X.shape[1])
    w[found.features] = found.weights
    objective, dual = dense_certificate(X, y, w, found.bias, penalty, has_bias, ridge)
    assert found.objective == pytest.approx(objective, rel=1e-9, abs=1e-12)
    assert -1e-9 * (1 + objective) <= found.duality_gap <= tolerance * len(positives)
    # A bound of the optimum, found at these weights or shortly before they were rounded to float32.
    assert max(dual, found.objective - found.duality_gap) <= optimum(X, y, found, penalty, has_bias, ridge)
    assert np.all(np.diff(found.features) > 0) and np.all(found.weights != 0)
    assert has_bias or found.bias == 0.0
    return found


def optimum(X: np.ndarray, y: np.ndarray, found: Solution, penalty: float, has_bias: bool, ridge: float = 0.0) -> float:
    """The objective near by, as low as a dense proximal gradient method gets it, and the rounding of a dual bound."""
    w, b = np.zeros(X.shape[1]), found.bias
    w[found.features] = found.weights
    curvature = ridge + 2 * np.linalg.norm(np.hstack([X, np.ones((len(X), 1))]), 2) ** 2
    best = np.inf
    for _ in range(200):
        pull = 2 * y * np.maximum(0, 1 - y * (X @ w + b))
        best = min(best, dense_certificate(X, y, w, b, penalty, has_bias, ridge)[0])
        target = w + (X.T @ pull - ridge * w) / curvature
        w = np.sign(target) * np.maximum(0, np.abs(target) - penalty / curvature)
        target = b + pull.sum() / curvature
        b = np.sign(target) * max(0.0, abs(target) - penalty / curvature) if has_bias else 0.0
    return best + 1e-9 * (1 + best)


def coordinate_descent(X: np.ndarray, y: np.ndarray, penalty: float, has_bias: bool) -> float:
    """A plain dense reference: proximal Newton steps on single coordinates until nothing moves; the objective."""
    Z = np.hstack([X, np.ones((len(X), 1))]) if has_bias else X
    w, z = np.zeros(Z.shape[1]), np.zeros(len(Z))
    for _ in range(20_000):
        moved = 0.0
        for j in range(Z.shape[1]):
            curvature = 2 * (Z[:, j] ** 2).sum()
            if curvature == 0:
                continue
            gradient = -2 * (y * Z[:, j] * np.maximum(0, 1 - y * z)).sum()
            target = w[j] - gradient / curvature
            new = np.sign(target) * max(0.0, abs(target) - penalty / curvature)
            moved = max(moved, abs(new - w[j]))
            z += (new - w[j]) * Z[:, j]
            w[j] = new
        if moved < 1e-9:
            break
    return float(penalty * np.abs(w).sum() + (np.maximum(0, 1 - y * z) ** 2).sum())


@settings(max_examples=250, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    log_penalty=st.floats(-3, 1.5),
    n_positives=st.integers(1, 39),
    has_bias=st.booleans(),
    density=st.sampled_from([0.05, 0.3, 1.0]),
)
def test_certified_optimum_of_random_problems(
    seed: int, log_penalty: float, n_positives: int, has_bias: bool, density: float
) -> None:
    positives = sorted(np.random.default_rng(seed).permutation(40)[:n_positives].tolist())
    check(random_matrix(seed, density=density), positives, 10**log_penalty, has_bias)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), penalty=st.floats(0.1, 3), has_bias=st.booleans())
def test_agreement_with_a_dense_reference(seed: int, penalty: float, has_bias: bool) -> None:
    X = random_matrix(seed, 25, 8)
    positives = sorted(np.random.default_rng(seed).permutation(25)[:6].tolist())
    expected = coordinate_descent(X, signs(25, positives), penalty, has_bias)
    assert solve(X, positives, penalty, 1e-8, has_bias).objective == pytest.approx(expected, rel=1e-6)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), penalty=st.floats(0.1, 3))
def test_agreement_with_forward_backward(seed: int, penalty: float) -> None:
    X = random_matrix(seed)
    positives = np.array([1, 5, 9], np.int32)
    second = ForwardBackward(as_problem(X), 1e-7, 200_000, has_bias=True)
    other = second.solve(second.workspace(), positives, penalty, COLD, RUN_ON)
    assert solve(X, positives.tolist(), penalty, 1e-7).objective == pytest.approx(other.objective, rel=1e-6)


CASES = {
    "one positive": (random_matrix(1), [3]),
    "all positives": (random_matrix(2), list(range(40))),
    "all but one": (random_matrix(3), list(range(39))),
    "duplicate instances": (np.repeat(random_matrix(4, 8), 5, axis=0), [0, 1, 2]),
    "duplicate, contradicting": (np.repeat(random_matrix(5, 8), 5, axis=0), [0, 5]),
    "duplicate features": (np.repeat(random_matrix(6, 40, 5), 3, axis=1), [1, 2]),
    "empty instances": (random_matrix(7) * (np.arange(40) % 3 > 0)[:, None], [0, 1, 6]),
    "only empty positives": (random_matrix(7) * (np.arange(40) % 3 > 0)[:, None], [0, 3]),
    "nothing but zeros": (np.zeros((10, 4)), [2]),
    "a feature in every instance": (np.hstack([random_matrix(8), np.ones((40, 1))]), [4, 5]),
    "many instances, few features": (random_matrix(9, 800, 4, 1.0), list(range(100))),
    "few instances, many features": (random_matrix(10, 12, 200), [1, 2, 3]),
    "large values": (1e3 * random_matrix(11), [1, 2]),
    "small values": (1e-3 * random_matrix(12), [1, 2]),
    "non-negative": (np.abs(random_matrix(13)), [1, 2, 3]),
    "zeros and ones": ((random_matrix(14) != 0).astype(float), [1, 2, 3]),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("penalty", [0.001, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("has_bias", [True, False])
def test_special_labels(case: str, penalty: float, has_bias: bool) -> None:
    X, positives = CASES[case]
    check(X, positives, penalty, has_bias, tolerance=1e-5)


@pytest.mark.parametrize("has_bias", [True, False])
def test_weights_vanish_from_the_largest_useful_penalty_on(has_bias: bool) -> None:
    X, positives = random_matrix(21), [3, 4, 8]
    largest = largest_useful_penalty(as_problem(X), np.array(positives), has_bias)
    for factor in (1.0001, 2.0, 100.0):
        found = check(X, positives, largest * factor, has_bias)
        assert len(found.features) == 0 and found.bias == 0.0
    below = check(X, positives, largest * 0.9, has_bias)
    assert len(below.features) > 0 or below.bias != 0.0


def test_no_positives_have_nothing_to_learn() -> None:
    assert solve(random_matrix(1), [], 0.1).outcome == Outcome.no_positives


def test_iteration_limit_is_said_and_the_gap_is_true() -> None:
    X, positives = random_matrix(31, 60, 30), np.array([1, 2, 3, 4], np.int32)
    prepared = newton.prepare(as_problem(X))
    stopped = newton.solve(prepared, newton.workspace(prepared), positives, 0.05, 1e-9, 1)
    assert stopped.outcome == Outcome.iteration_limit and stopped.iterations == 1
    optimum = solve(X, positives.tolist(), 0.05, 1e-9)
    assert stopped.objective - optimum.objective <= stopped.duality_gap + 1e-9


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    log_penalty=st.floats(-2, 1),
    log_tolerance=st.floats(-5, -2),
    n_positives=st.integers(1, 20),
    has_bias=st.booleans(),
    ridge=st.sampled_from([0.0, 1.0]),
)
def test_weights_are_rounded_on_the_way(
    seed: int, log_penalty: float, log_tolerance: float, n_positives: int, has_bias: bool, ridge: float
) -> None:
    # Tolerances that users ask for: what is certified are the float32 weights that are returned.
    X, penalty, tolerance = random_matrix(seed, 60, 25), 10**log_penalty, 10**log_tolerance
    positives = sorted(np.random.default_rng(seed).permutation(60)[:n_positives].tolist())
    found = solve(X, positives, penalty, tolerance, has_bias, ridge * penalty)
    assert found.outcome == Outcome.converged and 0 <= found.duality_gap <= tolerance * n_positives
    assert found.weights.dtype == np.float32 and found.bias == np.float32(found.bias)
    w = np.zeros(25)
    w[found.features] = found.weights
    y = signs(60, positives)
    objective, dual = dense_certificate(X, y, w, found.bias, penalty, has_bias, ridge * penalty)
    assert found.objective == pytest.approx(objective, rel=1e-9)
    optimum = solve(X, positives, penalty, 1e-8, has_bias, ridge * penalty).objective
    assert max(dual, found.objective - found.duality_gap) <= optimum + 1e-7 * n_positives


@pytest.mark.parametrize("size", [1.0, 1e5])  # large ones move more by rounding than what is not near may move
@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_rounding_wherever_it_stops_is_certified_on_all_instances(size: float, ridge: float) -> None:
    # Long columns, short rows: few instances are near, and their rows are what is read when the weights are rounded.
    X = np.abs(random_matrix(7, 1500, 90, 0.1))
    X = (size * X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)).astype(np.float32).astype(np.float64)
    prepared = newton.prepare(as_problem(X))
    work, penalty = newton.workspace(prepared), 0.05 * size
    for n_positives, most in itertools.product((1, 3, 12), range(1, 9)):
        positives = np.arange(n_positives, dtype=np.int32)
        found = newton.solve(prepared, work, positives, penalty, 1e-3 * n_positives, most, ridge=ridge * penalty * size)
        w = np.zeros(90)
        w[found.features] = found.weights
        arguments = (signs(1500, positives.tolist()), w, found.bias, penalty, True, ridge * penalty * size)
        objective, dual = dense_certificate(X, *arguments)
        assert found.objective == pytest.approx(objective, rel=1e-9)
        best = newton.solve(prepared, work, positives, penalty, 1e-7, ridge=ridge * penalty * size).objective
        assert max(dual, found.objective - found.duality_gap) <= best + 1e-9 * (1 + best)


@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_no_iteration_raises_the_objective(ridge: float) -> None:
    for seed in range(20):
        X, positives = random_matrix(seed, 200, 60), np.arange(5, dtype=np.int32)
        prepared = newton.prepare(as_problem(X))
        work = newton.workspace(prepared)
        objectives = [
            newton.solve(prepared, work, positives, 0.1, 1e-3, limit, ridge=ridge).objective for limit in range(1, 15)
        ]
        assert np.all(np.diff(objectives) <= 1e-6)


def chained_features(likeness: float) -> tuple[np.ndarray, np.ndarray]:
    """Return features each of which is nearly the one before, and many positives that have nothing to do with them."""
    generator, n_instances, n_features = np.random.default_rng(1), 600, 450
    X = generator.normal(size=(n_instances, n_features))
    for j in range(1, n_features):
        X[:, j] = likeness * X[:, j - 1] + np.sqrt(1 - likeness**2) * X[:, j]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.sort(generator.choice(n_instances, 220, replace=False)).astype(np.int32)


def test_small_steps_that_add_up_do_not_keep_a_label_from_its_optimum() -> None:
    # Neighbouring features are nearly equal: every step of a sweep is small, and they all go the same way. With models
    # minimised to the largest step alone this took 137 iterations.
    X, positives = chained_features(0.99)
    prepared = newton.prepare(as_problem(X))
    found = newton.solve(prepared, newton.workspace(prepared), positives, 0.1, 0.22, 40)
    assert found.outcome == Outcome.converged


def test_sweeps_that_lead_nowhere_do_not_keep_a_large_support_from_its_optimum() -> None:
    # To a gap of 1e-3 x positives this took 160 iterations, most of them to follow one flat direction.
    X, positives = chained_features(0.999)
    prepared = newton.prepare(as_problem(X))
    found = newton.solve(prepared, newton.workspace(prepared), positives, 0.01, 1e-6 * len(positives), 60)
    assert found.outcome == Outcome.converged and len(found.features) > MOST_DIRECT


def test_weights_that_drift_from_feature_to_feature_arrive() -> None:
    # Every feature has a twin that is nearly equal: sweeps moved weight from one to the other at a constant pace, until
    # after 24 iterations a factorisation ended it.
    generator = np.random.default_rng(3)
    X = generator.random((900, 220)) * (generator.random((900, 220)) < 0.15)
    X = np.hstack([X, X * (1 + 1e-3 * generator.normal(size=X.shape))])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    positives = np.sort(generator.choice(900, 200, replace=False)).tolist()
    found = check(X, positives, 0.1, tolerance=1e-5)
    assert found.iterations < 20 and len(found.features) > MOST_DIRECT


def test_rounding_the_bias_does_not_hold_a_label_up() -> None:
    # Thousands of instances violate a little: a bias that is float32 from step to step kept the dual bound too low,
    # until after 30 iterations it no longer was.
    generator, n_instances = np.random.default_rng(6), 3000
    X = np.zeros((n_instances, 104))
    X[0, :3] = 0.3
    X[1:2500, 2] = generator.uniform(0.02, 0.3, 2499)
    X[1:4, 0] = generator.uniform(0.1, 0.4, 3)
    X[1:15, 1] = generator.uniform(0.1, 0.3, 14)
    others = 4 + generator.integers(100, size=n_instances - 1)
    X[np.arange(1, n_instances), others] = generator.uniform(0.1, 0.8, n_instances - 1)
    found = solve(X, [0], 0.1, 2e-5)
    assert found.outcome == Outcome.converged and found.iterations < 20


def test_a_warm_start_reaches_the_same_optimum_sooner() -> None:
    X, positives = random_matrix(33, 80, 40), np.array([1, 2, 3, 4, 5], np.int32)
    plan = Plan("newton", 1e-6, 500, has_bias=True)
    solver = make_solver(plan, as_problem(X))
    near = solver.solve(solver.workspace(), positives, 0.11, COLD, RUN_ON)
    cold = solver.solve(solver.workspace(), positives, 0.1, COLD, RUN_ON)
    start = Start(near.features, near.weights, near.bias)
    warm = solver.solve(solver.workspace(), positives, 0.1, start, RUN_ON)
    assert warm.outcome == Outcome.converged and warm.iterations <= cold.iterations
    assert warm.objective == pytest.approx(cold.objective, abs=2e-6 * len(positives))
