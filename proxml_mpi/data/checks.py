"""Checks of sparse arrays from elsewhere, in words; nothing that passed them can lead a kernel astray."""

import numpy as np

from proxml_mpi.data.check_kernels import DESCENT, FINE, OUTSIDE, UNORDERED, check_rows, check_starts
from proxml_mpi.data.complaints import Complain
from proxml_mpi.data.dataset import Float32, Int32, Int64
from proxml_mpi.data.files import Path
from proxml_mpi.errors import DataError

NO_VALUES = np.empty(0, np.float32)


def check_indptr(path: Path, name: str, indptr: Int64, n_entries: int, complain: Complain) -> bool:
    """Check that a row pointer begins at 0, never descends and ends at the number of entries."""
    problem, row = check_starts(indptr, n_entries)
    if problem == FINE:
        return True
    if problem == DESCENT:
        found = f"a descent from {indptr[row]} to {indptr[row + 1]} at {row}, expected ascending numbers"
    else:
        found = f"{indptr[row]} at {row}, expected {n_entries if row else 0}"
    complain(DataError(path, f"{name}: found {found}"))
    return False


def check_entries(
    path: Path, name: str, indptr: Int64, indices: Int32, values: Float32, n_columns: int, complain: Complain
) -> bool:
    """Check the ids and values of rows with a checked row pointer."""
    return check_slice(path, name, 0, indptr, indices, values, n_columns, complain)


def check_slice(
    path: Path,
    name: str,
    first_row: int,
    indptr: Int64,
    indices: Int32,
    values: Float32,
    n_columns: int,
    complain: Complain,
) -> bool:
    """Check the ids and values of the rows from first_row on; the arrays hold those rows only."""
    problem, row, entry = check_rows(indptr, int(indptr[0]), indices, values, n_columns)
    if problem == FINE:
        return True
    if problem == OUTSIDE:
        found = f"id {indices[entry]}, expected ids from 0 to {n_columns - 1}"
    elif problem == UNORDERED:
        found = f"id {indices[entry]} after {indices[entry - 1]}, expected ascending ids, each once"
    else:
        found = f"the value {values[entry]!s}, expected finite numbers other than 0"
    complain(DataError(path, f"{name}: row {first_row + row}: found {found}"))
    return False
