# mypy: allow-untyped-decorators
"""Numba kernel of the metrics: what every instance contributes, added up without rounding.

A group is a set of labels: all of them, or those of one frequency bin. A field is one sum, kept for every group and k.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]
Float64 = NDArray[np.float64]

ALL = 0  # the group of all labels; bin b is group 1 + b

INSTANCES = 0  # all instances
LABELLED = 1  # instances with a true label of the group
HITS = 2
RECALL = 3
NDCG = 4
GAIN, BEST_GAIN = 5, 6  # inverse propensities of the hits, and of the best list there is
GAIN_RECALL, BEST_GAIN_RECALL = 7, 8  # the same over the number of true labels
GAIN_NDCG, BEST_GAIN_NDCG = 9, 10  # the same, discounted, over the ideal discounts
N_FIELDS = 11

HIT, BEST = 0, 1  # rows of best_ranks

# A value is split into whole multiples of 2^-20 and the rest in multiples of 2^-50.
HIGH_SCALE = 2.0**20
LOW_SCALE = 2.0**30


N_PLACED = 3  # what stands at a rank: hit, its weight, and the weight in the best list; all fields follow from them


@njit(cache=True, nogil=True)
def place_truth(truth: Int32, weight: Float64, group_of: UInt8, placed: Float64, n_true: Int64, ranks: Int32) -> None:
    """Place the best list there is, true labels int32 [|y|] by weight descending, of each group; count them."""
    for label in truth:
        ranks[label] = min(ranks[label], n_true[ALL])
        for group in (ALL, np.int64(group_of[label])):
            if n_true[group] < placed.shape[2]:
                placed[group, 2, n_true[group]] = weight[label]
            n_true[group] += 1


@njit(cache=True, nogil=True)
def is_among(label: int, truth: Int32) -> bool:
    """Return whether a label is a true one."""
    found = False
    for other in truth:
        found |= other == label
    return found


@njit(cache=True, nogil=True)
def place_hits(labels: Int32, truth: Int32, group_of: UInt8, weight: Float64, row: int, placed: Float64) -> None:
    """Place the hits of a ranked list int32 [width]: 1 in row 0, their weights in row 1."""
    for rank in range(min(len(labels), placed.shape[2])):
        label = labels[rank]
        if is_among(label, truth):
            amount = weight[label] if row == 1 else 1.0
            placed[ALL, row, rank] = amount
            placed[group_of[label], row, rank] = amount


@njit(cache=True, nogil=True)
def clear(placed: Float64, n_true: Int64) -> None:
    """Make ready for the next instance."""
    for group in range(len(n_true)):
        n_true[group] = 0
        for row in range(placed.shape[1]):
            for rank in range(placed.shape[2]):
                placed[group, row, rank] = 0.0


@njit(cache=True, nogil=True)
def add_up(placed: Float64, n_true: int, ks: Int64, discounts: Float64, values: Float64) -> None:
    """Sum what stands at the ranks, float64 [3, n_ranks], up to each k, into values float64 [N_FIELDS, n_k]."""
    for j in range(len(ks)):
        values[INSTANCES, j] = 1.0
        for field in range(INSTANCES + 1, N_FIELDS):
            values[field, j] = 0.0
    if n_true == 0:
        return
    hits = ndcg = gain = gain_ndcg = best = best_ndcg = ideal = 0.0
    j = 0
    for rank in range(placed.shape[1]):
        hits += placed[0, rank]
        ndcg += placed[0, rank] * discounts[rank]
        gain += placed[1, rank]
        gain_ndcg += placed[1, rank] * discounts[rank]
        best += placed[2, rank]
        best_ndcg += placed[2, rank] * discounts[rank]
        if rank < n_true:
            ideal += discounts[rank]
        if rank + 1 == ks[j]:
            values[LABELLED, j] = 1.0
            values[HITS, j], values[RECALL, j], values[NDCG, j] = hits, hits / n_true, ndcg / ideal
            values[GAIN, j], values[BEST_GAIN, j] = gain, best
            values[GAIN_RECALL, j], values[BEST_GAIN_RECALL, j] = gain / n_true, best / n_true
            values[GAIN_NDCG, j], values[BEST_GAIN_NDCG, j] = gain_ndcg / ideal, best_ndcg / ideal
            j += 1


@njit(cache=True, nogil=True)
def add_exactly(values: Float64, sums: Int64) -> None:
    """Add values float64 [N_FIELDS, n_k], rounded once to multiples of 2^-50, to sums int64 [N_FIELDS, n_k, 2]."""
    for field in range(N_FIELDS):
        for j in range(values.shape[1]):
            high = np.floor(values[field, j] * HIGH_SCALE)
            sums[field, j, 0] += np.int64(high)
            sums[field, j, 1] += np.int64(np.rint((values[field, j] * HIGH_SCALE - high) * LOW_SCALE))


@njit(cache=True, nogil=True)
def add_instances(
    lists: Int32,
    indptr: Int64,
    truth: Int32,
    weight: Float64,
    group_of: UInt8,
    ks: Int64,
    discounts: Float64,
    space: tuple[Float64, Float64, Int64],
    sums: Int64,
    best_ranks: Int32,
    contributions: Int64,
) -> None:
    """Add the contributions of instances to sums and best_ranks.

    lists int32 [2, n_instances, width]: ranked lists, -1 where empty, and those whose gains count.
    indptr int64 [n_instances + 1], truth int32: true labels of each instance, by inverse propensity descending.
    weight float64 [n_labels]: inverse propensities; group_of uint8 [n_labels]: group of each label's frequency bin.
    ks int64 [n_k], ascending; discounts float64 [ks[-1]]; sums int64 [n_groups, N_FIELDS, n_k, 2].
    space: float64 [n_groups, N_PLACED, ks[-1]], float64 [N_FIELDS, n_k] and int64 [n_groups], to work in.
    best_ranks int32 [2, n_labels]: the best rank of each label as a hit, and in the best list of some instance.
    contributions int64 [n_instances, N_FIELDS, n_k, 2]: zeros, filled for the group of all labels; or of no instances.
    """
    placed, values, n_true = space
    for i in range(len(indptr) - 1):
        mine = truth[indptr[i] : indptr[i + 1]]
        clear(placed, n_true)
        place_truth(mine, weight, group_of, placed, n_true, best_ranks[BEST])
        for row in range(2):
            place_hits(lists[row, i], mine, group_of, weight, row, placed)
        for rank in range(min(lists.shape[2], len(discounts))):
            if placed[ALL, 0, rank] > 0.0:
                best_ranks[HIT, lists[0, i, rank]] = min(best_ranks[HIT, lists[0, i, rank]], rank)
        for group in range(len(n_true)):
            add_up(placed[group], n_true[group], ks, discounts, values)
            add_exactly(values, sums[group])
            if group == ALL and len(contributions) > 0:
                add_exactly(values, contributions[i])
