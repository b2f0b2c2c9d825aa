# mypy: ignore-errors
"""Kernels that check sparse arrays from elsewhere, before any other kernel follows their numbers."""

import numpy as np
from numba import njit

FINE, DESCENT, OUTSIDE, UNORDERED, UNUSABLE = range(5)


@njit(nogil=True, cache=True)
def check_starts(indptr, n_entries):
    """Check a row pointer: (FINE, -1), or what is wrong and the row where."""
    n_rows = len(indptr) - 1
    if n_rows < 0 or indptr[0] != 0:
        return OUTSIDE, 0
    for row in range(n_rows):
        if indptr[row + 1] < indptr[row]:
            return DESCENT, row
    if indptr[n_rows] != n_entries:
        return OUTSIDE, n_rows
    return FINE, -1


@njit(nogil=True, cache=True)
def check_rows(indptr, first, indices, values, n_columns):
    """Check rows whose first entry, indptr[0], is indices[0] when first is indptr[0].

    Ids must be in range and ascend, values (as many as ids, or none at all) be finite and not zero. Returns what is
    wrong, the row and the entry where: the first of them.
    """
    has_values = len(values) > 0
    for row in range(len(indptr) - 1):
        previous = -1
        for entry in range(indptr[row] - first, indptr[row + 1] - first):
            column = indices[entry]
            if column < 0 or column >= n_columns:
                return OUTSIDE, row, entry
            if column <= previous:
                return UNORDERED, row, entry
            if has_values and (values[entry] == 0 or not np.isfinite(values[entry])):
                return UNUSABLE, row, entry
            previous = column
    return FINE, -1, -1


@njit(nogil=True, cache=True)
def transpose(indptr, indices, values, column_start, rows, column_values):
    """Fill columns, column_start int64 [n_columns + 1] included, from checked rows; without values both are empty."""
    column_start[:] = 0
    n_columns = len(column_start) - 1
    for entry in range(indptr[-1]):
        column_start[indices[entry] + 1] += 1
    for column in range(n_columns):
        column_start[column + 1] += column_start[column]
    # While filling, a column's start is its next free place; afterwards it is the start of the next column.
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            place = column_start[indices[entry]]
            rows[place] = row
            if len(values) > 0:
                column_values[place] = values[entry]
            column_start[indices[entry]] = place + 1
    for column in range(n_columns, 0, -1):
        column_start[column] = column_start[column - 1]
    column_start[0] = 0


@njit(nogil=True, cache=True)
def find_difference(indptr, indices, values, column_start, rows, column_values):
    """Find a column that is not the transpose of rows with as many entries; -1 when all are. Both are checked."""
    # Row after row, every column must go on with this row: its places are visited in order, as when it was filled.
    cursor = column_start[:-1].copy()
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            column = indices[entry]
            place = cursor[column]
            if place >= column_start[column + 1] or rows[place] != row:
                return column
            if len(values) > 0 and values[entry] != column_values[place]:
                return column
            cursor[column] = place + 1
    return -1
