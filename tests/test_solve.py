"""The objective, its certificate, the paper's Algorithm 1 and the threads over labels, by independent roads."""

from itertools import chain
from typing import Any

import numpy as np
import pytest
from conftest import dense
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from proxml_mpi.solve.block import assemble_block, join_neighbours, untrained_block
from proxml_mpi.solve.forward_backward import ForwardBackward
from proxml_mpi.solve.labels import expected_costs, label_penalties, solve_labels
from proxml_mpi.solve.objective import certify, largest_useful_penalty, loss_gradient, squared_hinge
from proxml_mpi.solve.problem import COLD, Outcome, Problem, Solution, Start, make_problem

RUN_ON = np.zeros(1, np.uint8)


def random_problem(seed: int, n_instances: int = 30, n_features: int = 12) -> tuple[Problem, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n_instances, n_features)) * (generator.random((n_instances, n_features)) < 0.4)
    X = X.astype(np.float32)
    row_start = np.concatenate([[0], np.cumsum((X != 0).sum(axis=1))]).astype(np.int64)
    rows, columns = np.nonzero(X)
    return make_problem(row_start, columns.astype(np.int32), X[rows, columns], n_features), X.astype(np.float64)


def dense_objective(X: np.ndarray, y: np.ndarray, w: np.ndarray, b: float, penalty: float) -> float:
    violation = np.maximum(0, 1 - y * (X @ w + b))
    return penalty * (np.abs(w).sum() + abs(b)) + (violation**2).sum()


def dense_dual(X: np.ndarray, y: np.ndarray, w: np.ndarray, b: float, penalty: float, has_bias: bool) -> float:
    """A feasible dual point made from (w, b), checked for feasibility here."""
    a = 2 * np.maximum(0, 1 - y * (X @ w + b))
    columns = np.hstack([X, np.ones((len(X), 1))]) if has_bias else X
    g = np.abs(columns.T @ (y * a)).max(initial=0)
    s = min(1, penalty / g if g else 1, 2 * a.sum() / (a @ a) if a.any() else 1)
    assert np.all(np.abs(columns.T @ (y * s * a)) <= penalty * (1 + 1e-12))
    return s * a.sum() - s * s * (a @ a) / 4


def signs(n_instances: int, positives: np.ndarray) -> np.ndarray:
    y = np.full(n_instances, -1.0)
    y[positives] = 1
    return y


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), penalty=st.floats(0.01, 10), has_bias=st.booleans())
def test_certificate_agrees_with_dense_arithmetic(seed: int, penalty: float, has_bias: bool) -> None:
    problem, X = random_problem(seed)
    generator = np.random.default_rng(seed)
    w = generator.normal(size=12) * (generator.random(12) < 0.5)
    b = float(generator.normal()) if has_bias else 0.0
    is_positive = (generator.random(30) < 0.2).astype(np.uint8)
    y = np.where(is_positive, 1.0, -1.0)
    objective, dual = certify(problem, w, b, is_positive, penalty, has_bias, np.zeros(30), np.zeros(12))
    assert objective == pytest.approx(dense_objective(X, y, w, b, penalty), rel=1e-12)
    assert dual == pytest.approx(dense_dual(X, y, w, b, penalty, has_bias), rel=1e-9, abs=1e-12)
    assert dual <= objective


def test_gradient_agrees_with_finite_differences() -> None:
    problem, X = random_problem(5)
    is_positive = np.zeros(30, np.uint8)
    is_positive[[2, 7]] = 1
    y = np.where(is_positive, 1.0, -1.0)
    w = np.random.default_rng(5).normal(size=12)

    def loss(wb: np.ndarray) -> float:
        return squared_hinge(X @ wb[:-1] + wb[-1], is_positive)

    gradient = np.zeros(12)
    bias_gradient, a_sum, a_square_sum = loss_gradient(problem, X @ w - 0.5, is_positive, gradient)
    numeric = approx_fprime(np.append(w, -0.5), loss, 1e-7)
    assert np.append(gradient, bias_gradient) == pytest.approx(numeric, abs=1e-4)
    a = 2 * np.maximum(0, 1 - y * (X @ w - 0.5))
    assert (a_sum, a_square_sum) == pytest.approx((a.sum(), a @ a))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), penalty=st.floats(0.05, 3), has_bias=st.booleans(), n_positives=st.integers(1, 8))
def test_forward_backward_reaches_a_certified_optimum(
    seed: int, penalty: float, has_bias: bool, n_positives: int
) -> None:
    problem, X = random_problem(seed)
    positives = np.sort(np.random.default_rng(seed).permutation(30)[:n_positives]).astype(np.int32)
    solver = ForwardBackward(problem, tolerance=1e-4, max_iterations=100_000, has_bias=has_bias)
    solution = solver.solve(solver.workspace(), positives, penalty, COLD, RUN_ON)
    assert solution.outcome == Outcome.converged
    assert 0 <= solution.duality_gap <= 1e-4 * n_positives

    w, y = np.zeros(12), signs(30, positives)
    w[solution.features] = solution.weights
    assert solution.objective == pytest.approx(dense_objective(X, y, w, solution.bias, penalty), rel=1e-12)
    # Nothing near the solution is better by more than the certificate allows.
    generator = np.random.default_rng(seed + 1)
    for scale in (1e-3, 1e-2, 1e-1):
        near = w + generator.normal(scale=scale, size=12)
        bias = solution.bias + (generator.normal(scale=scale) if has_bias else 0.0)
        assert dense_objective(X, y, near, bias, penalty) >= solution.objective - solution.duality_gap - 1e-12


def test_weights_vanish_from_the_largest_useful_penalty_on() -> None:
    problem, _ = random_problem(11)
    positives = np.array([3, 4], np.int32)
    largest = largest_useful_penalty(problem, positives, has_bias=True)
    solver = ForwardBackward(problem, 1e-9, 100_000, has_bias=True)
    above = solver.solve(solver.workspace(), positives, largest * 1.0001, COLD, RUN_ON)
    below = solver.solve(solver.workspace(), positives, largest * 0.95, COLD, RUN_ON)
    assert len(above.features) == 0 and above.bias == 0.0
    assert len(below.features) > 0 or below.bias != 0.0


def test_iteration_limit_is_said_and_the_gap_is_true() -> None:
    problem, _ = random_problem(1)
    positives = np.array([0, 5], np.int32)
    solver = ForwardBackward(problem, 1e-6, 3, has_bias=True)
    solution = solver.solve(solver.workspace(), positives, 0.1, COLD, RUN_ON)
    assert (solution.outcome, solution.iterations) == (Outcome.iteration_limit, 3)
    exact = ForwardBackward(problem, 1e-9, 10**6, has_bias=True)
    optimum = exact.solve(exact.workspace(), positives, 0.1, COLD, RUN_ON)
    assert solution.objective - optimum.objective <= solution.duality_gap


def test_warm_start_at_the_optimum_needs_no_iteration() -> None:
    problem, _ = random_problem(2)
    positives = np.array([1, 2, 3], np.int32)
    solver = ForwardBackward(problem, 1e-4, 10**6, has_bias=True)
    first = solver.solve(solver.workspace(), positives, 0.1, COLD, RUN_ON)
    looser = ForwardBackward(problem, 1e-3, 10**6, has_bias=True)
    again = looser.solve(looser.workspace(), positives, 0.1, Start(first.features, first.weights, first.bias), RUN_ON)
    assert again.iterations == 0 and np.array_equal(again.weights, first.weights)


def solve_all(solver: ForwardBackward, n_threads: int, order: np.ndarray, stop: np.ndarray) -> dict[int, Solution]:
    lists = [np.array(p, np.int32) for p in ([0], [1, 2], [3, 4, 5], [29], list(range(20)))]
    found = solve_labels(solver, order, lists.__getitem__, lambda label: 0.2, n_threads, stop)
    return dict(chain.from_iterable(found))


def test_threads_and_order_change_no_bit() -> None:
    problem, _ = random_problem(8)
    solver = ForwardBackward(problem, 1e-4, 10**5, has_bias=True)
    alone = solve_all(solver, 1, np.arange(5), RUN_ON)
    together = solve_all(solver, 3, np.arange(5)[::-1], RUN_ON)
    assert alone.keys() == together.keys() == set(range(5))
    for label, solution in alone.items():
        other = together[label]
        assert [np.asarray(v).tobytes() for v in solution[:-1]] == [np.asarray(v).tobytes() for v in other[:-1]]


def test_twins_are_solved_once_and_equal_what_they_would_be_alone() -> None:
    problem, _ = random_problem(8)
    solved: list[bytes] = []

    class Counting(ForwardBackward):
        def solve(
            self, workspace: Any, positives: np.ndarray, penalty: float, start: Start, stop: np.ndarray
        ) -> Solution:
            solved.append(positives.tobytes())
            return super().solve(workspace, positives, penalty, start, stop)

    solver = Counting(problem, 1e-4, 10**5, has_bias=True)
    lists = [np.array(p, np.int32) for p in ([3], [1, 2], [3], [1, 2], [3], list(range(20)), list(range(20)))]
    penalties = [0.2, 0.2, 0.2, 0.2, 0.3, 0.2, 0.2]
    found = solve_labels(solver, np.arange(7), lists.__getitem__, penalties.__getitem__, 1, RUN_ON)
    together = dict(chain.from_iterable(found))
    # Label 4 has another lambda, labels 5 and 6 too many positives to be looked up.
    assert solved == [lists[label].tobytes() for label in (0, 1, 4, 5, 6)]
    for label, solution in together.items():
        alone = solver.solve(solver.workspace(), lists[label], penalties[label], COLD, RUN_ON)
        assert [np.asarray(v).tobytes() for v in solution[:-1]] == [np.asarray(v).tobytes() for v in alone[:-1]]
    # With a start of their own, labels are no twins.
    solved.clear()
    start = Start(np.array([0], np.int32), np.array([0.5], np.float32), -1.0)
    list(solve_labels(solver, np.arange(3), lists.__getitem__, penalties.__getitem__, 1, RUN_ON, lambda label: start))
    assert len(solved) == 3


def test_stop_ends_labels_in_hand_and_begins_none() -> None:
    problem, _ = random_problem(8)
    solver = ForwardBackward(problem, 1e-12, 10**9, has_bias=True)
    assert solve_all(solver, 2, np.arange(5), np.ones(1, np.uint8)) == {}
    stop = np.zeros(1, np.uint8)
    lists = [np.arange(8, dtype=np.int32)] * 50
    seen = []
    for together in solve_labels(solver, np.arange(50), lists.__getitem__, lambda label: 1e-4, 2, stop):
        stop[0] = 1
        seen += [solution.outcome for _, solution in together]
    assert len(seen) < 50 and set(seen) <= {Outcome.not_trained, Outcome.converged}


def test_quick_labels_are_handed_over_together_and_each_once() -> None:
    problem, _ = random_problem(8)
    solver = ForwardBackward(problem, 1e-3, 1000, has_bias=True)
    nobody = np.empty(0, np.int32)
    for n_threads in (1, 3):
        found = list(solve_labels(solver, np.arange(3000), lambda label: nobody, float, n_threads, RUN_ON))
        assert sorted(label for label, _ in chain.from_iterable(found)) == list(range(3000))
        assert len(found) < 1500


def test_an_error_in_a_thread_reaches_the_caller() -> None:
    problem, _ = random_problem(8)
    solver = ForwardBackward(problem, 1e-3, 10, has_bias=True)
    with pytest.raises(IndexError):
        list(solve_labels(solver, np.arange(5), [].__getitem__, lambda label: 0.2, 2, RUN_ON))


def test_costs_and_penalties_grow_with_positives() -> None:
    n_positives = np.array([3, 0, 100, 3, 1])
    costs = expected_costs(n_positives, np.full(5, 0.1))
    assert costs[2] > costs[0] == costs[3] > costs[4] > costs[1] > 0
    assert np.all(expected_costs(n_positives, np.array([0.1, 0.1, 0.1, 0.2, 0.1]))[3] < costs[3])
    assert len(expected_costs(n_positives[:0], np.empty(0))) == 0
    assert label_penalties(np.array([0, 1, 4, 100]), 0.1, 0.5) == pytest.approx([0.1, 0.1, 0.2, 1.0])


def test_neighbouring_blocks_join() -> None:
    problem, _ = random_problem(8)
    solved = solve_all(ForwardBackward(problem, 1e-3, 1000, has_bias=True), 1, np.arange(5), RUN_ON)
    whole = assemble_block(7, list(solved.values()), np.arange(5), np.full(5, 0.2))
    parts = [
        assemble_block(
            7 + first, [solved[k] for k in range(first, end)], np.arange(first, end), np.full(end - first, 0.2)
        )
        for first, end in ((3, 5), (0, 1), (1, 3))
    ]
    (joined,) = join_neighbours(parts)
    assert joined.first_label == 7
    assert [(a.dtype, a.tobytes()) for a in joined[1:]] == [(a.dtype, a.tobytes()) for a in whole[1:]]
    assert [(b.first_label, b.end_label) for b in join_neighbours(parts[:2])] == [(7, 8), (10, 12)]
    assert len(join_neighbours(parts, most_weights=1)) == 3 and join_neighbours([]) == []


def test_a_block_holds_its_labels_in_order() -> None:
    problem, _ = random_problem(8)
    solved = solve_all(ForwardBackward(problem, 1e-3, 1000, has_bias=True), 1, np.arange(5), RUN_ON)
    block = assemble_block(7, list(solved.values()), np.arange(5), np.full(5, 0.2))
    assert (block.first_label, block.end_label, block.n_labels) == (7, 12, 5)
    for label, solution in solved.items():
        of_label = slice(block.indptr[label], block.indptr[label + 1])
        assert np.array_equal(block.indices[of_label], solution.features)
        assert np.array_equal(block.data[of_label], solution.weights) and block.bias[label] == solution.bias
    untrained = untrained_block(3, np.array([4, 0]), np.ones(2))
    assert untrained.outcome.tolist() == [Outcome.not_trained] * 2
    assert untrained.bias.tolist() == [-np.inf] * 2 and untrained.duality_gap.tolist() == [np.inf] * 2


def test_a_label_without_positives_has_nothing_to_learn() -> None:
    problem, _ = random_problem(8)
    solver = ForwardBackward(problem, 1e-3, 1000, has_bias=True)
    nobody = np.empty(0, np.int32)
    found = solve_labels(solver, np.arange(1), lambda label: nobody, float, 1, RUN_ON)
    [(_, solution)] = chain.from_iterable(found)
    assert (solution.outcome, len(solution.features), solution.bias) == (Outcome.no_positives, 0, -np.inf)


def test_columns_of_a_problem_are_its_rows_turned() -> None:
    problem, X = random_problem(4)
    assert np.array_equal(dense(problem[:3], 12), X) and np.array_equal(dense(problem[3:], 30).T, X)
