"""The inverted index of a range of labels, and exact top-k scoring with it.

The score of a label for an instance is

    float32( bias + sum over the instance's features, in their order, of float64(value) * float64(weight) )

of weights and biases as they are stored or calibrated, float32 both. The product of two float32 numbers is exact in
float64, so fused multiply-add changes nothing; the sum runs in the order of the instance's features and sees no other
label. Hence the bits of a score depend neither on the split of labels over ranks, nor on threads, nor on the processor.
Ranking is by the rounded float32 scores that are returned, so lists merged later, or read back from a file, are in the
very same order.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.score.calibration import calibrate
from proxml_mpi.score.kernels import add_squares_by_feature, add_squares_by_label, invert, score_instances
from proxml_mpi.score.topk import TopK, empty_top_k

Rows = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]

LEAST_FOR_THREADS = 64  # instances: fewer are scored before a thread has started
PIECES_PER_THREAD = 4  # instances cost unequally: a thread that is done takes the next piece


class Index(NamedTuple):
    """The weights of a contiguous range of labels by feature.

    Labels have positions, by bias descending, then label; -inf, which bars a label from being predicted, comes last.
    """

    indptr: NDArray[np.int64]  # [n_features + 1]
    positions: NDArray[np.int32]  # [n_weights], ascending within a feature
    weights: NDArray[np.float32]  # [n_weights]
    bias: NDArray[np.float32]  # [n_labels], by position
    label_at: NDArray[np.int32]  # [n_labels]: the label at each position


def build_index(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    data: NDArray[np.float32],
    bias: NDArray[np.float32],
    n_features: int,
    first_label: int,
    n_positives: NDArray[np.int32] | None = None,
) -> Index:
    """Turn a model by label into an index by feature, in time proportional to its weights.

    indptr int64 [n_labels + 1] from 0, indices int32 [n_weights] in [0, n_features), data float32 [n_weights], finite:
    the weights of the range by label. bias float32 [n_labels]: finite, or -inf for labels that must never be predicted.
    n_positives int32 [n_labels], the training instances of labels, calibrates scores; None: they stay as they are. The
    caller has validated all of them.
    """
    if n_positives is not None:
        squares = np.zeros(len(bias), np.float64)
        add_squares_by_label(indptr, data, squares)
        factors, bias = calibrate(bias, n_positives, np.sqrt(squares))
        data = data * np.repeat(factors, np.diff(indptr))
    feature_indptr = np.zeros(n_features + 1, np.int64)
    np.cumsum(np.bincount(indices, minlength=n_features), out=feature_indptr[1:])
    positions, weights = np.empty(len(indices), np.int32), np.empty(len(indices), np.float32)
    bias, order = _order(bias)
    invert(indptr, indices, data, order, feature_indptr[:-1].copy(), positions, weights)
    return Index(feature_indptr, positions, weights, bias, first_label + order)


def stored_index(
    indptr: NDArray[np.int64],
    labels: NDArray[np.int32],
    weights: NDArray[np.float32],
    bias: NDArray[np.float32],
    n_positives: NDArray[np.int32] | None = None,
) -> Index:
    """Make an index of all weights as a model file keeps them by feature: arrays as in Index, but labels by their ids.

    bias float32 [n_labels], n_positives: by label, as build_index has them. The caller has validated all of them.
    """
    if n_positives is not None:
        squares = np.zeros(len(bias), np.float64)
        add_squares_by_feature(labels, weights, squares)
        factors, bias = calibrate(bias, n_positives, np.sqrt(squares))
        weights = weights * factors[labels]
    bias, order = _order(bias)
    position_of = np.empty_like(order)
    position_of[order] = np.arange(len(order), dtype=np.int32)
    return Index(indptr, position_of[labels], weights, bias, order)


def _order(bias: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return the biases descending, and the labels in that order."""
    bias = bias + np.float32(0)  # -0 becomes +0: equal scores have equal bits
    order = np.argsort(-bias, kind="stable").astype(np.int32)
    return bias[order], order


def score_top_k(index: Index, rows: Rows, k: int, n_threads: int = 1) -> TopK:
    """Rank the labels of the range for every instance and keep the best k >= 1; labels are global ids.

    rows: indptr int64 [n_instances + 1] (it may be a slice of a longer one), indices int32 in [0, n_features) and
    ascending within an instance, values float32, finite; the caller has validated them. The cost of an instance is in
    proportion to the weights that its features touch. The result does not depend on n_threads.
    """
    n_instances = len(rows[0]) - 1
    top = empty_top_k(n_instances, k)
    by_feature = (index.indptr, index.positions, index.weights)
    rows = (rows[0], rows[1], rows[2])  # plain tuples: one signature to compile
    if n_threads == 1 or n_instances < LEAST_FOR_THREADS:
        score_instances(by_feature, *index[3:], rows, 0, n_instances, *top)
        return top
    bounds = _even_bounds(rows[0], n_threads * PIECES_PER_THREAD)
    with ThreadPoolExecutor(n_threads) as pool:
        pieces = [
            pool.submit(score_instances, by_feature, *index[3:], rows, first, last, *top)
            for first, last in pairwise(bounds)
        ]
    for piece in pieces:
        piece.result()
    return top


def _even_bounds(indptr: NDArray[np.int64], n_pieces: int) -> list[int]:
    """Cut instances into pieces with about as many features each; return the n_pieces + 1 bounds."""
    goals = np.linspace(indptr[0], indptr[-1], n_pieces + 1)[1:-1]
    return [0, *(int(bound) for bound in np.searchsorted(indptr, goals)), len(indptr) - 1]
