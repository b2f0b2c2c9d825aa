"""Compile the kernels of this room, or load them from numba's cache, on something tiny."""

import numpy as np

from proxml_mpi.score.index import build_index, score_top_k, stored_index
from proxml_mpi.score.metrics import start_evaluation
from proxml_mpi.score.topk import merge_top_k


def compile_scoring() -> None:
    """Score, merge and evaluate one instance of one label."""
    indptr, indices, values = np.arange(2), np.zeros(1, np.int32), np.ones(1, np.float32)
    bias, n_positives = np.zeros(1, np.float32), np.ones(1, np.int32)
    stored_index(indptr, indices, values, bias, n_positives)
    index = build_index(indptr, indices, values, bias, n_features=1, first_label=0, n_positives=n_positives)
    top = merge_top_k([score_top_k(index, (indptr, indices, values), k=1)], k=1)
    start_evaluation([1], np.ones(1), np.ones(1, np.int32)).update(top.labels, (indptr, indices))
