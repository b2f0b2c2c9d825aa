"""Read a pair of sparse matrices as scipy.sparse.save_npz writes them: features and labels by instance."""

import zipfile
import zlib
from typing import Any

import numpy as np
import scipy.sparse

from proxml_mpi.data.checks import check_entries
from proxml_mpi.data.complaints import Complain, insist
from proxml_mpi.data.dataset import Dataset, Lists, Matrix
from proxml_mpi.data.files import Path
from proxml_mpi.data.text_reference import LARGEST_ID_COUNT
from proxml_mpi.data.two_files import check_heights, check_label_values
from proxml_mpi.errors import DataError
from proxml_mpi.files import reason

# What numpy, scipy and zipfile raise for a file that is something else, or damaged.
_FOREIGN = (
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    IndexError,
    NotImplementedError,
    RuntimeError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
)


def read_npz(paths: tuple[Path, Path], complain: Complain = insist) -> Dataset:
    """Read the files of features and labels."""
    features, n_features = _read_matrix(paths[0], complain)
    labels, n_labels = _read_matrix(paths[1], complain)
    check_label_values(labels, paths[1], n_header_lines=None, complain=complain)
    check_heights(features, labels, paths)
    return Dataset(features, Lists(labels.indptr, labels.indices), n_features, n_labels)


def _read_matrix(path: Path, complain: Complain) -> tuple[Matrix, int]:
    matrix = _load(path)
    if matrix.ndim != 2 or min(matrix.shape) < 1 or max(matrix.shape) > LARGEST_ID_COUNT:
        expected = f"a matrix of 1 to {LARGEST_ID_COUNT} rows and columns"
        raise DataError(path, f"found the shape {matrix.shape}, expected {expected}")
    if matrix.dtype.kind not in "biuf":
        raise DataError(path, f"found values of type {matrix.dtype}, expected numbers")
    rows = _by_rows(matrix, path)
    with np.errstate(over="ignore"):
        values = rows.data.astype(np.float32)
    is_kept = values != 0
    n_kept = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_kept)])
    found = Matrix(n_kept[rows.indptr], rows.indices[is_kept].astype(np.int32), values[is_kept])
    check_entries(path, "matrix", *found, rows.shape[1], complain)
    return found, int(rows.shape[1])


def _load(path: Path) -> Any:
    """Load what scipy makes of a file; whatever it finds wrong with it becomes a DataError."""
    try:
        matrix: Any = scipy.sparse.load_npz(path)
        if matrix.format not in ("csr", "csc", "coo"):
            raise DataError(path, f"found a matrix in the format {matrix.format}, expected csr, csc or coo")
        if matrix.format != "coo":
            matrix.check_format(full_check=True)
        return matrix
    except OSError as error:
        raise DataError(path, f"cannot be read: {reason(error)}") from None
    except _FOREIGN as error:
        raise DataError(path, f"is no sparse matrix of scipy.sparse.save_npz: {error}") from None


def _by_rows(matrix: Any, path: Path) -> Any:
    """Turn a checked matrix into rows of ascending ids; the same place twice is refused, not added up."""
    n_entries = matrix.nnz
    rows = matrix.tocsr()
    rows.sort_indices()
    rows.sum_duplicates()
    if rows.nnz != n_entries:
        raise DataError(path, f"found {n_entries - rows.nnz} entries at places that have one already, expected one")
    return rows
