"""Which features join the local problem: the support, those that violate most, then those that nearly do."""

import numpy as np
import pytest
from numba import njit
from test_newton import as_problem

from proxml_mpi.solve import newton
from proxml_mpi.solve.newton_data import COLUMN, FEATURE, GRADIENT, MET, SUPPORT, WEIGHT
from proxml_mpi.solve.newton_label import LARGE_SUPPORT, count_new
from proxml_mpi.solve.newton_select import MANY, NEARLY, choose_columns

N = MANY + 40


@njit
def choose(problem, work, n_support, penalty, ridge, n_new):  # type: ignore[no-untyped-def]
    """Return the chosen features and the largest violation; all features are met."""
    n_columns, worst = choose_columns(problem, work, n_support, len(work.is_met), 0.0, penalty, ridge, n_new)
    return work.features[FEATURE, :n_columns].copy(), worst


def chosen(n_support: int, ridge: float, n_new: int, largest: float = 1.5) -> tuple[set[int], float]:
    """Return the features chosen beside the support, the first ones: after it come violations and near ones."""
    problem = newton.prepare(as_problem(np.eye(N)))
    work = newton.workspace(problem)
    work.features[SUPPORT, :n_support] = work.features[MET, :n_support] = np.arange(n_support)
    work.features[MET, :N] = np.arange(N)
    work.is_met[:] = 1
    work.columns[WEIGHT, :n_support] = 0.001
    work.columns[GRADIENT, :n_support] = 2.0 + ridge * 0.001
    after = np.r_[2.0 * largest, 2.2, 1.99, -1.95, 1.81, 2.0 * NEARLY - 0.01, 0.5]
    work.columns[GRADIENT, n_support : n_support + len(after)] = after
    features, worst = choose(problem, work, n_support, 2.0, ridge, n_new)
    assert features[:n_support].tolist() == list(range(n_support))
    assert (work.features[COLUMN, features] == np.arange(1, len(features) + 1)).all()
    return {int(j) - n_support for j in features[n_support:]}, worst


def test_near_violations_follow_violations_as_long_as_there_is_room() -> None:
    for n_new, expected in ((1, {0}), (2, {0, 1}), (3, {0, 1, 2}), (4, {0, 1, 2, 3}), (20, {0, 1, 2, 3, 4})):
        found, worst = chosen(MANY, 0.0, n_new)
        assert found == expected and worst == pytest.approx(1.0)


def test_near_violations_stay_out_of_small_supports_and_of_labels_with_a_ridge() -> None:
    assert chosen(MANY - 1, 0.0, 20)[0] == chosen(MANY, 0.5, 20)[0] == {0, 1}


def test_near_violations_are_no_violation() -> None:
    found, worst = chosen(MANY, 0.0, 20, largest=0.5)
    assert 1 in found and worst == pytest.approx(0.2)


def test_large_supports_grow_half_as_fast_without_a_ridge() -> None:
    count = count_new.py_func  # type: ignore[attr-defined]
    assert count(9, LARGE_SUPPORT, LARGE_SUPPORT, 0.0) == 2 * LARGE_SUPPORT
    assert count(9, LARGE_SUPPORT + 2, LARGE_SUPPORT + 2, 0.0) == LARGE_SUPPORT + 2
    assert count(9, LARGE_SUPPORT + 2, 2 * LARGE_SUPPORT, 0.0) == LARGE_SUPPORT // 2 + 1
    assert count(9, LARGE_SUPPORT + 2, LARGE_SUPPORT + 2, 1.0) == 2 * (LARGE_SUPPORT + 2)
