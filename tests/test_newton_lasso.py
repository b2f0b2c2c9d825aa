"""What the minimisation of a model lists and keeps apart: weights that move much more than the others."""

import numpy as np
from numba import njit
from test_newton import as_problem, check

from proxml_mpi.solve import newton
from proxml_mpi.solve.newton_data import LIST, MOST_DIRECT, MOVING, TRIAL, U
from proxml_mpi.solve.newton_lasso import list_moving


@njit
def listed_moving(work, n_listed, least):  # type: ignore[no-untyped-def]
    n_moving = list_moving(work, n_listed, least)
    return work.features[MOVING, :n_moving].copy()


def test_columns_that_move_much_and_keep_their_weight_are_listed() -> None:
    work = newton.workspace(newton.prepare(as_problem(np.eye(12))))
    listed = np.array([3, 5, 6, 8, 11], np.uint32)
    work.features[LIST, : len(listed)] = listed
    work.columns[U, listed] = [1.0, 0.0, -1.0, 2.0, 3.0]
    work.columns[TRIAL, listed] = [0.5, 0.9, 0.1, 0.2, 1.0]
    assert listed_moving(work, 5, 0.1).tolist() == [3, 8, 11]
    assert listed_moving(work, 4, 0.3).tolist() == [3]
    assert listed_moving(work, 5, 1.0).tolist() == []


def test_labels_that_nothing_explains_have_large_models_with_few_moving_weights() -> None:
    generator = np.random.default_rng(8)
    X = generator.random((500, 600)) * (generator.random((500, 600)) < 0.2)
    positives = np.sort(generator.permutation(500)[:200])
    assert len(check(X, positives.tolist(), 0.01, tolerance=1e-6).features) > MOST_DIRECT
