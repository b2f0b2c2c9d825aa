"""A model in Python, without MPI: `proxml_mpi.load_model(path)`."""

import math
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from proxml_mpi.data.damping import Damping
from proxml_mpi.data.dataset import Matrix
from proxml_mpi.data.weighting import Weighting
from proxml_mpi.score.index import Index, build_index, score_top_k, stored_index
from proxml_mpi.score.topk import TopK
from proxml_mpi.settings.predict import DAMPING
from proxml_mpi.solve.block import Block
from proxml_mpi.store.model_reader import ModelHeader, read_header, read_index, read_labels
from proxml_mpi.store.names import read_names

Stored: TypeAlias = "scipy.sparse.csr_array[np.float32] | scipy.sparse.csc_array[np.float32]"


class Certificates(NamedTuple):
    """What is known of the solution of every label; arrays [n_labels]."""

    objective: NDArray[np.float64]
    duality_gap: NDArray[np.float64]  # the objective is at most so far above the optimum
    n_positives: NDArray[np.int32]  # training instances with the label
    lambda_: NDArray[np.float64]
    iterations: NDArray[np.int32]
    outcome: NDArray[np.uint8]  # see solve.problem.Outcome


class Model:
    """A trained model; features go in as they were before training weighted them, and are damped at prediction."""

    def __init__(
        self,
        header: ModelHeader,
        block: Block,
        index: Index,
        weights: Stored,
        label_names: tuple[str, ...] | None,
        damping: float = DAMPING,
    ) -> None:
        self.n_features, self.n_labels, self.n_instances = header.n_features, header.n_labels, header.n_instances
        self.attributes = header.attributes
        self.bias = block.bias + np.float32(0)
        self._weights = weights
        self.labels: Sequence[str] | Sequence[int] = label_names or range(header.n_labels)
        self.certificates = Certificates(
            block.objective, block.duality_gap, block.n_positives, block.lambda_, block.iterations, block.outcome
        )
        self._index = index
        self._weighting = Weighting(header.attributes["weighting"], bool(header.attributes["normalize"]), header.idf)
        self._damping = Damping.of_model(header.feature_counts, damping, header.path)

    @property
    def weights(self) -> scipy.sparse.csc_array[np.float32]:
        """The weights as they are stored, sparse [n_labels, n_features]."""
        return self._weights.tocsc()

    def predict(self, X: Any, k: int = 5, threads: int = 1) -> TopK:
        """Find the best k labels of every row of X, exactly.

        X: scipy sparse or dense [n_instances, n_features]; one row may be given as a vector. Returns (labels, scores),
        int32 and float32 [n_instances, k], best first, equal scores by label; -1 and -inf where there are fewer labels.
        """
        if k < 1 or threads < 1:
            raise ValueError(f"found k {k} and threads {threads}, expected whole numbers from 1")
        return score_top_k(self._index, self._rows(X), k, threads)

    def decision_function(self, X: Any, labels: ArrayLike | None = None) -> NDArray[np.float32]:
        """Compute the scores of chosen labels (None: of all) for every row of X, float32 [n_instances, n_chosen].

        They equal those of `predict` to the last bit.
        """
        chosen = np.arange(self.n_labels) if labels is None else np.atleast_1d(np.asarray(labels))
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
            raise ValueError(f"labels: found {chosen.dtype} {chosen.shape}, expected a list of label ids")
        if np.any((chosen < 0) | (chosen >= self.n_labels)):
            raise ValueError(f"labels: found an id out of range, expected 0 to {self.n_labels - 1}")
        rows = self._rows(X)
        features = scipy.sparse.csr_array(
            (rows.values.astype(np.float64), rows.indices, rows.indptr), shape=(len(rows.indptr) - 1, self.n_features)
        )
        index, shape = self._index, (self.n_labels, self.n_features)
        by_feature = scipy.sparse.csc_array((index.weights, index.label_at[index.positions], index.indptr), shape=shape)
        bias = np.empty_like(index.bias)
        bias[index.label_at] = index.bias
        # scipy adds up in the order of a row's features, in float64, as the scoring kernels do.
        sums = (features @ by_feature.tocsr()[chosen].astype(np.float64).T.tocsr()).toarray()
        return (sums + bias[chosen]).astype(np.float32)

    def _rows(self, X: Any) -> Matrix:
        """Bring features into the form of the kernels, checked, weighted as training's were, and damped."""
        if not scipy.sparse.issparse(X):
            X = np.atleast_2d(np.asarray(X))
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise ValueError(f"X: found the shape {X.shape}, expected {self.n_features} features a row")
        if X.dtype.kind not in "biuf":
            raise ValueError(f"X: found {X.dtype}, expected numbers")
        rows = scipy.sparse.csr_array(X, dtype=np.float32, copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        if not np.isfinite(rows.data).all():
            raise ValueError("X: found nan or infinity, expected finite numbers")
        features = Matrix(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data)
        return self._damping.apply(self._weighting.apply(features, "X"))


def load_model(path: str | PathLike[str], damping: float = DAMPING, calibrate: bool = True) -> Model:
    """Open a model file of proxml-train; ModelError says what is wrong with it.

    damping, calibrate: as those options of proxml-predict; 0 and False: scores are weights times features, plus bias.
    """
    if not 0 <= damping < math.inf:
        raise ValueError(f"damping: found {damping}, expected a finite number, at least 0")
    header = read_header(Path(path))
    stored, shape = read_index(header), (header.n_labels, header.n_features)
    n_positives = header.n_positives if calibrate else None
    weights: Stored
    if stored is not None:
        by_feature, block = stored
        index = stored_index(*by_feature, block.bias, n_positives)
        weights = scipy.sparse.csc_array((by_feature.weights, by_feature.labels, by_feature.indptr), shape=shape)
    else:
        block = read_labels(header, 0, header.n_labels)
        by_label = (block.indptr, block.indices, block.data)
        index = build_index(*by_label, block.bias, header.n_features, 0, n_positives)
        weights = scipy.sparse.csr_array((block.data, block.indices, block.indptr), shape=shape)
    names = read_names(header.path, header.n_labels, header.n_features)
    return Model(header, block, index, weights, names.labels, damping)
