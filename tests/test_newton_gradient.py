"""Gradients estimated from some rows: exact wherever it matters, and never what a certificate rests on."""

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray
from test_newton import as_problem, check

from proxml_mpi.solve import newton
from proxml_mpi.solve.newton_data import GRADIENT, MET, NEAR, PLACE, SHIFT, SUPPORT, TOUCHED, VIOLATION
from proxml_mpi.solve.newton_gradient import LEAST_ROWS, LIKELY, clear_gradient, estimate_gradient, read_rows


@njit
def estimate(problem, work, n_rows, is_near, n_support, common, penalty):  # type: ignore[no-untyped-def]
    """Return the whole gradient of all features, the estimated one, entries read for each, and whether it was done."""
    n_met, n_whole = read_rows(problem, work, n_rows, is_near)
    whole = work.columns[GRADIENT].copy()
    clear_gradient(work, n_met)
    n_met, n_read, is_done = estimate_gradient(problem, work, n_rows, is_near, n_support, common, penalty)
    estimated, met = work.columns[GRADIENT].copy(), work.features[MET, :n_met].copy()
    clear_gradient(work, n_met)
    return whole, estimated, met, n_whole, n_read, is_done


def sparse_matrix(seed: int, n: int = 1500, d: int = 2000) -> NDArray[np.float64]:
    """Return instances of some fifty features each, few of them frequent, as words are."""
    generator = np.random.default_rng(seed)
    share = np.minimum(0.5, 8.0 / np.arange(1, d + 1))
    X = generator.exponential(size=(n, d)) * (generator.random((n, d)) < share)
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(lengths > 0, lengths, 1.0)


@pytest.mark.parametrize("is_near", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_support_and_likely_features_are_exact(seed: int, is_near: bool) -> None:
    check_estimate(seed, is_near)


def check_estimate(seed: int, is_near: bool) -> None:
    generator, X = np.random.default_rng(seed), sparse_matrix(seed)
    X[:, 1500:1520] *= 200.0  # no sampled instance has some of these, whose column sums are large
    problem = newton.prepare(as_problem(X))
    work = newton.workspace(problem)
    n_touched, n_rows, support, penalty = 900, 600 if is_near else 900, np.array([40, 300, 700]), 0.5
    touched = generator.permutation(len(X))[:n_touched].astype(np.uint32)
    near = generator.permutation(n_touched)[:n_rows].astype(np.uint32) + 1 if is_near else np.arange(1, n_touched + 1)
    work.instances[TOUCHED, 1 : n_touched + 1] = touched
    work.instances[PLACE, touched] = np.arange(1, n_touched + 1)
    work.instances[NEAR, :n_rows] = near
    work.features[SUPPORT, :3] = support
    work.rows[VIOLATION, :n_rows] = generator.normal(size=n_rows) * np.where(np.arange(n_rows) < 20, 1.0, 0.02)
    common = 0.0 if is_near else 0.003
    whole, estimated, met, n_whole, n_read, is_done = estimate(
        problem, work, n_rows, is_near, len(support), common, penalty
    )
    assert is_done and n_rows >= LEAST_ROWS and n_read < n_whole
    dense = work.rows[VIOLATION, :n_rows] @ X.astype(np.float32)[touched[near.astype(int) - 1]]
    np.testing.assert_allclose(whole[:-1], dense, atol=1e-12)
    seems_likely = np.abs(estimated[:-1] - common * problem.column_sum) > LIKELY * penalty
    exact = np.union1d(support, np.flatnonzero(seems_likely))
    assert len(exact) > len(support) and np.isin(exact, met).all()
    np.testing.assert_allclose(estimated[exact], dense[exact], atol=1e-12)
    assert not work.rows[SHIFT].any() and not work.columns[GRADIENT].any() and not work.is_met.any()


@pytest.mark.parametrize("penalty", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_rare_labels_of_many_active_instances_are_certified(penalty: float, ridge: float) -> None:
    X = sparse_matrix(9, 1000, 600)
    generator = np.random.default_rng(9)
    for n_positives in (1, 3, 20):
        check(X, np.sort(generator.permutation(1000)[:n_positives]).tolist(), penalty, tolerance=1e-5, ridge=ridge)
