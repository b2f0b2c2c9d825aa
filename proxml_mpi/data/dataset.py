"""A multi-label data set in memory: sparse features and the labels of every instance."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]


class Matrix(NamedTuple):
    """A sparse matrix by rows (or by columns): the three arrays, always in this order."""

    indptr: Int64  # [n_rows + 1]
    indices: Int32  # [n_entries], ascending within a row
    values: Float32  # [n_entries]


class Lists(NamedTuple):
    """A list of ascending ids for every row."""

    indptr: Int64  # [n_rows + 1]
    indices: Int32  # [n_entries]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Instances with their features (CSR) and labels (CSR without values)."""

    features: Matrix  # by instance
    labels: Lists  # by instance
    n_features: int
    n_labels: int
    label_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None

    @property
    def n_instances(self) -> int:
        return len(self.features.indptr) - 1

    @cached_property
    def positives(self) -> Lists:
        """The instances of every label, ascending."""
        return transpose_lists(self.labels, self.n_labels)

    @cached_property
    def feature_counts(self) -> Int32:
        """The number of instances with each feature, int32 [n_features]."""
        return np.bincount(self.features.indices, minlength=self.n_features).astype(np.int32)

    @cached_property
    def digest(self) -> str:
        """A checksum of the content, whatever file or format it came from."""
        content = hashlib.blake2b(digest_size=16)
        content.update(np.array([self.n_instances, self.n_features, self.n_labels], dtype="<i8").tobytes())
        for array in (*self.features, *self.labels):
            content.update(np.ascontiguousarray(array).data)
        return content.hexdigest()


def transpose_lists(lists: Lists, n_columns: int) -> Lists:
    """Turn lists by row into lists by column; ids stay ascending."""
    n_rows = len(lists.indptr) - 1
    indptr = np.zeros(n_columns + 1, np.int64)
    np.cumsum(np.bincount(lists.indices, minlength=n_columns), out=indptr[1:])
    rows = np.repeat(np.arange(n_rows, dtype=np.int32), np.diff(lists.indptr))
    return Lists(indptr, rows[np.argsort(lists.indices, kind="stable")])
