"""What the minimisation of a model lists and keeps apart: weights that move much more than the others."""

import numpy as np
import pytest
from numba import njit
from test_newton import as_problem, check

from proxml_mpi.solve import newton
from proxml_mpi.solve.newton_data import CURVATURE, FEW, LIST, MOST_DIRECT, MOVING, RESIDUAL, SQUARE, SUM, TRIAL, U
from proxml_mpi.solve.newton_lasso import list_moving, sweep
from proxml_mpi.solve.newton_model import Model, best_bias


@njit
def listed_moving(work, n_listed, least):  # type: ignore[no-untyped-def]
    n_moving = list_moving(work, n_listed, least)
    return work.features[MOVING, :n_moving].copy()


@njit
def sweep_again(work, model, total):  # type: ignore[no-untyped-def]
    """Sweep over what MOVING lists, four columns; return E, b, and the best b."""
    total, bias = sweep(work, model, MOVING, 4, total, best_bias(model, total))[1:]
    return total, bias, best_bias(model, total)


def test_columns_that_move_much_and_keep_their_weight_are_listed() -> None:
    work = newton.workspace(newton.prepare(as_problem(np.eye(12))))
    listed = np.array([3, 5, 6, 8, 11], np.uint32)
    work.features[LIST, : len(listed)] = listed
    work.columns[U, listed] = [1.0, 0.0, -1.0, 2.0, 3.0]
    work.columns[TRIAL, listed] = [0.5, 0.9, 0.1, 0.2, 1.0]
    assert listed_moving(work, 5, 0.1).tolist() == [3, 8, 11]
    assert listed_moving(work, 4, 0.3).tolist() == [3]
    assert listed_moving(work, 5, 1.0).tolist() == []


def test_a_sweep_over_some_columns_keeps_the_residual_and_leaves_the_others() -> None:
    generator = np.random.default_rng(9)
    X = (generator.random((40, 12)) * (generator.random((40, 12)) < 0.5)).astype(np.float32)
    y, u = np.where(np.arange(40) < 15, 1.0, -1.0), generator.normal(size=12)
    work = newton.workspace(newton.prepare(as_problem(X)))
    rows, columns = (each.astype(np.uint32) for each in np.nonzero(X.T)[::-1])
    values = X[rows, columns]
    work.starts[FEW, :13] = np.searchsorted(columns, np.arange(13))
    work.columns[U, :12], work.columns[SUM, :12], work.columns[SQUARE, :12] = u, X.sum(0), np.square(X).sum(0)
    work.columns[CURVATURE, :12] = work.columns[SQUARE, :12]
    work.rows[RESIDUAL, :40] = y - X @ u
    work.features[MOVING, :4] = moving = [1, 4, 7, 9]
    model = Model(rows, values, rows, values, 12, 40, 40.0, np.inf, True, 0.05, 0.0)
    total, bias, best = sweep_again(work, model, (y - X @ u).sum())
    after = work.columns[U, :12]
    assert np.flatnonzero(after != u).tolist() == moving
    np.testing.assert_allclose(work.rows[RESIDUAL, :40], y - X @ after, atol=1e-12)
    assert abs(total - (y - X @ after).sum()) < 1e-5 and bias == pytest.approx(best, abs=1e-12)


def test_labels_that_nothing_explains_are_solved_in_large_models() -> None:
    generator = np.random.default_rng(8)
    X = generator.random((500, 600)) * (generator.random((500, 600)) < 0.2)
    positives = np.sort(generator.permutation(500)[:200])
    assert len(check(X, positives.tolist(), 0.01, tolerance=1e-6).features) > MOST_DIRECT
