"""Compile the kernels that all ranks of a node read a dataset file with, or load them from numba's cache."""

import numpy as np

from proxml_mpi.data.check_kernels import check_rows, check_starts
from proxml_mpi.data.weighting_kernels import normalize_rows, weigh_counts


def compile_reading() -> None:
    """Check and weight one instance of one feature."""
    indptr, indices, values = np.arange(2), np.zeros(1, np.int32), np.ones(1, np.float32)
    check_starts(indptr, 1)
    check_rows(indptr, 0, indices, values, 1)
    weigh_counts(indices, values, np.ones(1, np.float32))
    normalize_rows(indptr, values)
