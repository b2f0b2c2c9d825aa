# mypy: allow-untyped-decorators
"""Kernels of the weighting: sums in float64, in the order of the entries, so that their bits never change."""

import numpy as np
from numba import njit

from proxml_mpi.data.dataset import Float32, Int32, Int64

_UNIT_TOLERANCE = 1e-5  # on the squared norm: what six printed digits of each value leave of it


@njit(nogil=True, cache=True)
def weigh_counts(indices: Int32, values: Float32, idf: Float32) -> None:
    """Turn counts, float32 [n_entries], into (1 + ln tf) idf in place."""
    for entry in range(len(values)):
        values[entry] = (1 + np.log(np.float64(values[entry]))) * idf[indices[entry]]


@njit(nogil=True, cache=True)
def normalize_rows(indptr: Int64, values: Float32) -> int:
    """Divide every row by its L2 norm in place; empty and unit rows stay. Returns how many rows changed."""
    n_changed = 0
    for row in range(len(indptr) - 1):
        square = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            square += np.float64(values[entry]) ** 2
        if square > 0 and abs(square - 1) > _UNIT_TOLERANCE:
            n_changed += 1
            norm = np.sqrt(square)
            for entry in range(indptr[row], indptr[row + 1]):
                values[entry] = values[entry] / norm
    return n_changed


@njit(nogil=True, cache=True)
def damp_rows(indptr: Int64, indices: Int32, values: Float32, factors: Float32) -> None:
    """Multiply entries by the factors of their features, 0 to 1, and rows to the length they had, in place.

    Rows without a factor below 1, and rows that would vanish, stay as they are.
    """
    for row in range(len(indptr) - 1):
        before, after, is_damped = 0.0, 0.0, False
        for entry in range(indptr[row], indptr[row + 1]):
            value, factor = np.float64(values[entry]), np.float64(factors[indices[entry]])
            before += value**2
            after += (factor * value) ** 2
            is_damped = is_damped or bool(factor < 1)
        if is_damped and after > 0:
            stretch = np.sqrt(before / after)
            for entry in range(indptr[row], indptr[row + 1]):
                values[entry] = values[entry] * (stretch * factors[indices[entry]])


@njit(nogil=True, cache=True)
def drop_zeros(indptr: Int64, indices: Int32, values: Float32) -> tuple[Int64, Int32, Float32]:
    """Copy a matrix without its zero entries."""
    kept = np.empty_like(indptr)
    kept_indices, kept_values = np.empty_like(indices), np.empty_like(values)
    kept[0] = n_kept = 0
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            if values[entry] != 0:
                kept_indices[n_kept], kept_values[n_kept] = indices[entry], values[entry]
                n_kept += 1
        kept[row + 1] = n_kept
    return kept, kept_indices[:n_kept].copy(), kept_values[:n_kept].copy()
