"""Weights of another model as the starting points of a training run."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.errors import ModelError
from proxml_mpi.solve.problem import COLD, Start
from proxml_mpi.store.checksums import HEADER_DIGEST
from proxml_mpi.store.model_reader import read_header, read_labels


class Starts(NamedTuple):
    """The weights of all labels of a model, as they are in its file."""

    indptr: NDArray[np.int64]  # [n_labels + 1]
    indices: NDArray[np.int32]  # [n_weights]
    data: NDArray[np.float32]  # [n_weights]
    bias: NDArray[np.float32]  # [n_labels]

    def of(self, label: int) -> Start:
        """Return where a label begins: as it was left, or anew when the model does not have it."""
        if label >= len(self.bias) or self.bias[label] == -np.inf:
            return COLD
        weights = slice(self.indptr[label], self.indptr[label + 1])
        return Start(self.indices[weights], self.data[weights], float(self.bias[label]))


def read_starts(path: Path, n_features: int) -> tuple[Starts, str]:
    """Read a model to start from, labels matched by id; return its weights and what identifies it."""
    header = read_header(path)
    if header.n_features != n_features:
        raise ModelError(path, f"found {header.n_features} features, expected {n_features} as in the training data")
    block = read_labels(header, 0, header.n_labels)
    return Starts(block.indptr, block.indices, block.data, block.bias), str(header.attributes[HEADER_DIGEST])
