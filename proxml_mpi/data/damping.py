"""Damping of rare features at prediction: what training has seen a few times is less sure than its weights are large.

    g_j  = min(1, ln(1 + d_j) / ln(1 + D))^0.75      d_j training instances with feature j, D the damping (0: none)
    x'_j = g_j x_j, then the instance is stretched to the length that it had

Features that D or more training instances have are not damped, those of none vanish. An instance without any damped
feature stays as it is, bit for bit, and so does one that would vanish. Training knows nothing of this: weights and
certificates are what they are. docs/quality.md has the reasons.
"""

import logging
from dataclasses import dataclass
from os import PathLike
from typing import Self

import numpy as np

from proxml_mpi.data.dataset import Float32, Int32, Matrix
from proxml_mpi.data.weighting_kernels import damp_rows

log = logging.getLogger("proxml")
POWER = 0.75


@dataclass(frozen=True, eq=False)
class Damping:
    """The factors of all features; None when no feature is damped."""

    level: float  # D of the formula; 0: no damping
    factors: Float32 | None  # [n_features]

    @classmethod
    def from_counts(cls, counts: Int32, level: float) -> Self:
        """Make the factors from the number of training instances with each feature, int32 [n_features]."""
        if level == 0 or counts.min(initial=np.iinfo(np.int32).max) >= level:
            return cls(level, None)
        factors = (np.log1p(np.minimum(counts, level)) / np.log1p(level)) ** POWER
        return cls(level, factors.astype(np.float32))

    @classmethod
    def of_model(cls, counts: Int32 | None, level: float, path: str | PathLike[str]) -> Self:
        """Make the factors from what a model file says; files of before damping say nothing, and nothing is damped."""
        if counts is not None:
            return cls.from_counts(counts, level)
        if level > 0:
            log.info("%s has no /features/n_instances, as older models have not: no damping", path)
        return cls(0.0, None)

    def apply(self, features: Matrix) -> Matrix:
        """Damp weighted instances, ids below n_features; the input stays."""
        if self.factors is None:
            return features
        values = features.values.copy()
        damp_rows(features.indptr, features.indices, values, self.factors)
        return Matrix(features.indptr, features.indices, values)


NO_DAMPING = Damping(0.0, None)
