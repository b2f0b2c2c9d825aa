# mypy: allow-untyped-decorators
"""Numba kernels of scoring: build the inverted index, score instances with it, merge ranked lists.

The three arrays by_feature are those of index.Index: indptr, positions, weights; the three arrays of instances are a
CSR matrix. numba does not check bounds: every id has been validated before it comes here. Kernels that make no arrays
do without numba's runtime (_nrt), which counts references to arrays wherever they are passed or gone through: atomic
operations, for labels and features of every instance.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt32 = NDArray[np.uint32]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Matrix = tuple[Int64, Int32, Float32]

OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
BLOCK = 64  # labels that are passed over together
ONE, TWO, THREE, FOUR = (np.uint64(k) for k in range(1, 5))  # an unsigned index plus an int would be a float


@njit(**OPTIONS)
def invert(
    indptr: Int64, indices: Int32, data: Float32, order: Int32, start: Int64, positions: Int32, weights: Float32
) -> None:
    """Copy weights by label into weights by feature: a counting sort, so positions ascend within a feature.

    indptr int64 [n_labels + 1], indices int32 [n_weights], data float32 [n_weights]: the model by label.
    order int32 [n_labels]: the label at each position; start int64 [n_features]: where each feature's weights begin; on
    return, where they end. positions int32 [n_weights], weights float32 [n_weights]: written.
    """
    for position in range(len(order)):
        label = order[position]
        for entry in range(indptr[label], indptr[label + 1]):
            place = start[indices[entry]]
            start[indices[entry]] = place + 1
            positions[place] = position
            weights[place] = data[entry]


@njit(**OPTIONS)
def add_squares_by_label(indptr: Int64, data: Float32, squares: Float64) -> None:
    """Add the squares of every label's weights, in the order of features, to squares, float64 [n_labels]."""
    for label in range(len(squares)):
        for entry in range(indptr[label], indptr[label + 1]):
            squares[label] += np.float64(data[entry]) * np.float64(data[entry])


@njit(**OPTIONS)
def add_squares_by_feature(labels: Int32, weights: Float32, squares: Float64) -> None:
    """Add the same, to the same bits, when weights come by feature: labels int32 [n_weights] tells whose they are."""
    for entry in range(len(labels)):
        squares[labels[entry]] += np.float64(weights[entry]) * np.float64(weights[entry])


@njit(**OPTIONS)
def insert(label: int, score: np.float32, labels: Int32, scores: Float32) -> None:
    """Put a label into a list ranked by score descending, then label ascending, unless it is there or too bad.

    labels int32 [k], scores float32 [k]: empty places hold -1 and -inf; a score of -inf never enters.
    """
    place = len(labels)
    while place > 0 and (score > scores[place - 1] or (score == scores[place - 1] and label < labels[place - 1])):
        place -= 1
    if place == len(labels) or (place > 0 and labels[place - 1] == label):
        return
    for later in range(len(labels) - 1, place, -1):
        labels[later] = labels[later - 1]
        scores[later] = scores[later - 1]
    labels[place] = label
    scores[place] = score


@njit(**OPTIONS)
def merge_lists(labels: Int32, scores: Float32, top_labels: Int32, top_scores: Float32) -> None:
    """Rank every row's entries and keep the best.

    labels int32 [n_instances, n_entries], scores float32 alike: any order, empty places -1 and -inf.
    top_labels int32 [n_instances, k], top_scores float32 alike: written, must come empty.
    """
    for i in range(labels.shape[0]):
        for entry in range(labels.shape[1]):
            insert(labels[i, entry], scores[i, entry], top_labels[i], top_scores[i])


@njit(**OPTIONS)
def entry_limit(scores: Float32) -> float:
    """Give a limit that only exact scores above it can pass to enter the list: the float32 below its last score."""
    return np.float64(np.nextafter(scores[-1], np.float32(-np.inf)))


@njit(**OPTIONS)
def count_weights(i: int, instances: Matrix, feature_indptr: Int64) -> int:
    """Count the weights that the features of instance i touch."""
    indptr, indices, _ = instances
    n_weights = 0
    for feature in indices[indptr[i] : indptr[i + 1]]:
        n_weights += feature_indptr[feature + 1] - feature_indptr[feature]
    return n_weights


@njit(**OPTIONS)
def rank_touched(
    i: int,
    instances: Matrix,
    by_feature: Matrix,
    bias: Float32,
    label_at: Int32,
    sums: Float64,
    touched: UInt32,
    labels: Int32,
    scores: Float32,
) -> None:
    """Rank the touched labels of instance i among the best untouched ones.

    A touched label whose sum is exactly zero has the score of an untouched one: taking it for untouched, or noting it
    twice, changes nothing. sums float64 [n_labels or more]: zero before and after. touched uint32: room for more
    entries than weights are touched.
    """
    indptr, indices, values = instances
    feature_indptr, positions, weights = by_feature
    n_touched = 0
    for entry in range(indptr[i], indptr[i + 1]):
        feature, value = indices[entry], np.float64(values[entry])
        for place in range(feature_indptr[feature], feature_indptr[feature + 1]):
            position = np.uint32(positions[place])
            touched[n_touched] = position
            n_touched += sums[position] == 0.0
            sums[position] += value * weights[place]

    # The best untouched labels fill the list, already in their order.
    n_found = 0
    for untouched in range(len(bias)):
        if n_found == len(labels) or bias[untouched] == -np.inf:
            break
        if sums[untouched] == 0.0:
            labels[n_found] = label_at[untouched]
            scores[n_found] = bias[untouched]
            n_found += 1

    # The touched ones compete with them. Rounding to float32 waits until it matters: this loop must be tight.
    limit = entry_limit(scores)
    for position in touched[:n_touched]:
        score = bias[position] + sums[position]
        if score > limit:
            insert(label_at[position], np.float32(score), labels, scores)
            limit = entry_limit(scores)
    for position in touched[:n_touched]:
        sums[position] = 0.0


@njit(**OPTIONS)
def count_above(block: Float64, need: float) -> int:
    """Count the sums of a block that exceed what is needed, several at once."""
    count = 0
    for k in range(BLOCK):
        count += block[k] > need
    return count


@njit(**OPTIONS)
def rank_all(
    i: int,
    instances: Matrix,
    by_feature: Matrix,
    bias: Float32,
    label_at: Int32,
    sums: Float64,
    labels: Int32,
    scores: Float32,
) -> None:
    """Rank all labels for instance i: faster than rank_touched where many are touched, with the same result.

    Biases descend, so that a block of labels is passed over when no sum lifts even its first bias into the list.
    sums float64 [n_labels, filled up to whole blocks]: zero before and after.
    """
    indptr, indices, values = instances
    feature_indptr, positions, weights = by_feature
    for entry in range(indptr[i], indptr[i + 1]):
        feature, value = indices[entry], np.float64(values[entry])
        place, n_places = np.uint64(feature_indptr[feature]), feature_indptr[feature + 1] - feature_indptr[feature]
        # The labels of a feature differ, so that four of its sums can be under way at once.
        for _ in range(n_places // 4):
            a, b = np.uint32(positions[place]), np.uint32(positions[place + ONE])
            c, d = np.uint32(positions[place + TWO]), np.uint32(positions[place + THREE])
            sum_a, sum_b = sums[a] + value * weights[place], sums[b] + value * weights[place + ONE]
            sum_c, sum_d = sums[c] + value * weights[place + TWO], sums[d] + value * weights[place + THREE]
            sums[a], sums[b], sums[c], sums[d] = sum_a, sum_b, sum_c, sum_d
            place += FOUR
        for _ in range(n_places % 4):
            sums[np.uint32(positions[place])] += value * weights[place]
            place += ONE
    limit = entry_limit(scores)
    for begin in range(0, len(bias), BLOCK):
        # Indices into this slice cannot be negative, as numba knows: only so is it seen and cleared as vectors.
        block = sums[begin : begin + BLOCK]
        # The slack is far above the rounding of bias + sum, and far below what lets too many pass.
        slack = 1e-9 * (1.0 + abs(limit) + abs(bias[begin]))
        if count_above(block, limit - bias[begin] - slack) > 0 or limit == -np.inf:
            for position in range(begin, min(begin + BLOCK, len(bias))):
                score = bias[position] + sums[position]
                if score > limit:
                    insert(label_at[position], np.float32(score), labels, scores)
                    limit = entry_limit(scores)
        for k in range(BLOCK):
            block[k] = 0.0


@njit(**OPTIONS)
def count_live(bias: Float32) -> int:
    """Count the labels that may be predicted: those of bias -inf, which have no weights either, come last."""
    low, high = 0, len(bias)
    while low < high:
        middle = (low + high) // 2
        if bias[middle] == -np.inf:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, nogil=True)  # makes arrays
def score_instances(
    by_feature: Matrix,
    bias: Float32,
    label_at: Int32,
    instances: Matrix,
    first: int,
    last: int,
    top_labels: Int32,
    top_scores: Float32,
) -> None:
    """Find the best labels of the instances from first to last (excluded).

    bias float32 [n_labels], descending; label_at int32 [n_labels]: of the index.
    top_labels int32 [n_instances, k], top_scores float32 alike: written, must come empty.
    """
    live = bias[: count_live(bias)]
    sums = np.zeros((len(bias) // BLOCK + 1) * BLOCK, np.float64)
    touched = np.empty(len(bias) // 12 + 1, np.uint32)  # from there on, measured, going through all labels is faster
    for i in range(first, last):
        labels, scores = top_labels[i], top_scores[i]
        if count_weights(i, instances, by_feature[0]) < len(touched):
            rank_touched(i, instances, by_feature, bias, label_at, sums, touched, labels, scores)
        else:
            rank_all(i, instances, by_feature, live, label_at, sums, labels, scores)
