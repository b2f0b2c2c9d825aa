"""What happens to the values of the features before training, and again, from what was stored, before prediction.

    tfidf       (1 + ln tf) ln(N / df)      tf the value, N and df (instances, instances with the feature) from training
    normalize   every instance divided by its L2 norm

A feature that training has never seen, or has seen in every instance, gets the weight 0 and its entries vanish. An
instance whose norm is 1 to the precision of printed data (six digits) is left as it is, bit for bit: normalising twice
is normalising once, and unit rows from a text file are not touched.
"""

from dataclasses import dataclass
from os import PathLike
from typing import Self

import numpy as np

from proxml_mpi.data.dataset import Dataset, Float32, Int32, Matrix
from proxml_mpi.data.weighting_kernels import drop_zeros, normalize_rows, weigh_counts
from proxml_mpi.errors import DataError, SettingsError


@dataclass(frozen=True, eq=False)
class Weighting:
    """How values are weighted; all that a model must keep to weight test data as it weighted training data."""

    kind: str  # none or tfidf
    normalize: bool
    idf: Float32 | None = None  # [n_features], for tfidf

    def __post_init__(self) -> None:
        if self.kind not in ("none", "tfidf"):
            raise SettingsError("weighting", self.kind, "none or tfidf")
        if (self.kind == "tfidf") != (self.idf is not None):
            raise ValueError(f"weighting {self.kind!r} with{'out' if self.idf is None else ''} idf")

    @classmethod
    def fit(cls, dataset: Dataset, kind: str, normalize: bool, path: str | PathLike[str] = "training data") -> Self:
        """Learn the weights of the features from training data; path stands for its file in complaints."""
        if kind != "tfidf":
            return cls(kind, normalize)
        require_counts(dataset.features, path)
        return cls.from_frequencies(dataset.feature_counts, dataset.n_instances, normalize)

    @classmethod
    def from_frequencies(cls, df: Int32, n_instances: int, normalize: bool) -> Self:
        """Make the weighting tfidf from the number of instances with each feature."""
        idf = np.where(df > 0, np.log(n_instances / np.maximum(df, 1)), 0)
        return cls("tfidf", normalize, idf.astype(np.float32))

    def apply(self, features: Matrix, path: str | PathLike[str] = "data") -> Matrix:
        """Weight training or test data; the input stays (ids may be shared), zeros are left out of the result."""
        values = features.values.copy()
        if self.idf is not None:
            require_counts(features, path)
            _require_known(features, len(self.idf), path)
            weigh_counts(features.indices, values, self.idf)
        if self.normalize:
            normalize_rows(features.indptr, values)
        if np.all(values):
            return Matrix(features.indptr, features.indices, values)
        return Matrix(*drop_zeros(features.indptr, features.indices, values))


def require_counts(features: Matrix, path: str | PathLike[str], first_instance: int = 0) -> None:
    """Refuse values below 1, which no count has; first_instance is the number of the first row."""
    if len(features.values) == 0 or features.values.min() >= 1:
        return
    entry = int(np.argmax(~(features.values >= 1)))
    instance = first_instance + int(np.searchsorted(features.indptr - features.indptr[0], entry, side="right")) - 1
    raise DataError(
        path,
        f"instance {instance}, feature {features.indices[entry]}: found the value {features.values[entry]!s}, expected "
        "counts of at least 1 for the weighting tfidf; such data are weighted already, use the weighting none",
    )


def _require_known(features: Matrix, n_features: int, path: str | PathLike[str]) -> None:
    """Refuse feature ids beyond the training data's, which a kernel would follow out of the array."""
    largest = int(features.indices.max(initial=-1))
    if largest >= n_features:
        raise DataError(path, f"found feature {largest}, expected ids from 0 to {n_features - 1} as in training")
