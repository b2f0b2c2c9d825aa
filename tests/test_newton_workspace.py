"""What threads work in and share: workspaces are as before after every label, and no bit depends on what they did."""

import itertools
from typing import Any

import numpy as np
import pytest
from test_newton import RUN_ON, as_problem, check, random_matrix, solve

from proxml_mpi.solve import newton
from proxml_mpi.solve.labels import solve_labels
from proxml_mpi.solve.newton_data import COLUMN, GRADIENT, PLACE, ROW, SCORE, SHIFT, SIGN, WEIGHT
from proxml_mpi.solve.newton_label import LONG
from proxml_mpi.solve.newton_step import WIDEST, WIDTH, next_width
from proxml_mpi.solve.problem import COLD, Outcome, Request, Solution, Start
from proxml_mpi.solve.solvers import Plan, make_solver


def same(one: Solution, other: Solution) -> bool:
    return [np.asarray(v).tobytes() for v in one[:-1]] == [np.asarray(v).tobytes() for v in other[:-1]]


def test_stop_abandons_a_label_and_leaves_the_workspace_clean() -> None:
    X, positives = random_matrix(32), np.array([1, 2], np.int32)
    prepared = newton.prepare(as_problem(X))
    work = newton.workspace(prepared)
    abandoned = newton.solve(prepared, work, positives, 0.05, 1e-9, stop=np.ones(1, np.uint8))
    assert abandoned.outcome == Outcome.not_trained
    assert same(newton.solve(prepared, work, positives, 0.05, 1e-9), solve(X, [1, 2], 0.05, 5e-10))


def test_order_threads_and_used_workspaces_change_no_bit() -> None:
    X = random_matrix(34, 120, 60, 0.1)
    generator = np.random.default_rng(0)
    lists = [np.sort(generator.permutation(120)[: 1 + 7 * k % 30]).astype(np.int32) for k in range(40)]
    solver = make_solver(Plan("newton", 1e-4, 200, has_bias=True), as_problem(X))

    def all_labels(order: np.ndarray, n_threads: int) -> dict[int, Solution]:
        found = solve_labels(solver, order, lists.__getitem__, lambda label: 0.1 + 0.01 * label, n_threads, RUN_ON)
        return dict(itertools.chain.from_iterable(found))

    forwards = all_labels(np.arange(40), 1)
    backwards = all_labels(np.arange(40)[::-1], 3)
    assert all(same(forwards[label], backwards[label]) for label in range(40))


@pytest.mark.parametrize("density", [0.1, 0.6])  # some instances are touched; all are, and their places in order
def test_a_workspace_is_as_it_was_before(density: float) -> None:
    X, generator = random_matrix(35, 300, 40, density), np.random.default_rng(35)
    prepared = newton.prepare(as_problem(X))
    used, new = newton.workspace(prepared), newton.workspace(prepared)
    for n_positives in (1, 7, 90):
        positives = np.sort(generator.permutation(300)[:n_positives]).astype(np.int32)
        found = newton.solve(prepared, used, positives, 0.1, 1e-6)
        assert found.outcome == Outcome.converged and len(found.features)
        assert np.array_equal(used.instances[[PLACE, ROW]], new.instances[[PLACE, ROW]])
        assert np.array_equal(used.rows[[SIGN, SCORE, SHIFT], :301], new.rows[[SIGN, SCORE, SHIFT], :301])
        assert not used.columns[[WEIGHT, GRADIENT]].any() and not used.features[COLUMN].any() and not used.is_met.any()


def test_a_workspace_forgets_positives_that_may_not_serve_as_negatives() -> None:
    X, generator = random_matrix(5, 60, 20), np.random.default_rng(5)
    prepared = newton.prepare(as_problem(X), generator.random(60) < 0.5)
    used = newton.workspace(prepared)
    for n_positives in (1, 3, 10, 30, 2, 20):
        positives = np.sort(generator.permutation(60)[:n_positives]).astype(np.int32)
        one, other = (newton.solve(prepared, work, positives, 0.1, 1e-6) for work in (used, newton.workspace(prepared)))
        assert same(one, other) and len(one.features)
    assert np.array_equal(used.instances[PLACE], newton.workspace(prepared).instances[PLACE])


def test_the_negatives_with_the_largest_values_of_a_feature_are_known() -> None:
    X, generator = random_matrix(36, 50, 30, 0.1), np.random.default_rng(36)
    X[:, 0], X[:, 1] = 0.0, 0.0
    X[7, 1] = -2.0
    negative = generator.random(50) < 0.7
    negative[7] = True
    top = newton.prepare(as_problem(X), negative).column_top
    sizes = np.abs(X) * negative[:, None]
    for j, found in enumerate(top):
        best = np.argsort(-sizes[:, j], kind="stable")[: len(found)]
        assert found.tolist() == [i if sizes[i, j] > 0 else 50 for i in best]
    assert top[:2].tolist() == [[50, 50], [7, 50]]


def test_labels_in_a_row_are_those_solved_one_by_one() -> None:
    generator = np.random.default_rng(37)
    X = random_matrix(37, 200, newton.FIRST_WEIGHTS, 0.1)
    prepared = newton.prepare(as_problem(X))
    work = newton.workspace(prepared)
    lists = [np.sort(generator.permutation(200)[:size]).astype(np.int32) for size in (1, 90, 0, 30, 200)]
    start = Start(np.array([3, 9], np.int32), np.array([0.5, -0.25], np.float32), -1.5)
    requests = [Request(each, 0.001 * (1 + k), start if k == 3 else COLD) for k, each in enumerate(lists)]
    limits, ridges = [1e-4 * len(each) for each in lists], [0.0, 1.0, 1.0, 0.0, 2.0]
    together = newton.solutions(newton.solve_requests(prepared, work, requests, limits, 200, True, RUN_ON, ridges))
    for request, limit, ridge, solution in zip(requests, limits, ridges, together, strict=True):
        positives, penalty, begin = request
        alone = newton.solve(prepared, newton.workspace(prepared), positives, penalty, limit, start=begin, ridge=ridge)
        assert same(solution, alone)
        assert np.all(np.diff(solution.features) > 0) and 0 < solution.seconds < 60
    assert [solution.outcome for solution in together] == [0, 0, Outcome.no_positives, 0, 0]
    assert sum(len(solution.features) for solution in together) > newton.FIRST_WEIGHTS  # more than had room at first


def test_stop_ends_a_row_of_labels() -> None:
    X = random_matrix(38)
    prepared = newton.prepare(as_problem(X))
    requests = [Request(np.array([k], np.int32), 0.05) for k in range(3)]
    work = newton.workspace(prepared)
    limits = ([1e-9] * 3, 200, True, np.ones(1, np.uint8), [0.0] * 3)
    found = newton.solutions(newton.solve_requests(prepared, work, requests, *limits))
    assert [solution.outcome for solution in found] == [Outcome.not_trained] * 3
    assert not work.columns[[WEIGHT, GRADIENT]].any() and not work.instances[PLACE].any()


def test_how_widely_instances_are_looked_for_follows_what_that_brings() -> None:
    of_python: Any = next_width
    width, seen = WIDTH, []
    for n_near in (20, 20, 20, 20, 45, 100, 100, 100, 100, 100, 100):
        width = of_python.py_func(width, n_near, 10)
        seen.append(width / WIDTH)
    assert seen == [4, 16, 20, 20, 20, 10, 5, 2.5, 1.25, 1, 1] and WIDEST == 20 * WIDTH


@pytest.mark.parametrize("n_positives", [3, 80])
def test_labels_that_take_long_are_certified(n_positives: int) -> None:
    # Many features and a small lambda: more iterations than it takes to look for instances more widely.
    X = random_matrix(39, 600, 400, 0.05)
    positives = np.sort(np.random.default_rng(39).permutation(600)[:n_positives]).tolist()
    assert check(X, positives, 0.003).iterations > LONG
