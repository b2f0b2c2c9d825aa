"""Ranked lists of labels and their merging.

A ranked list is ordered by score descending, equal scores by label ascending. That order is total, and a score depends
on its own label only, so lists of any split of the labels merge into the same bits.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.score.kernels import merge_lists

NO_LABEL = -1


class TopK(NamedTuple):
    """The best k labels of every instance; places without a label come last and hold -1 and -inf."""

    labels: NDArray[np.int32]  # [n_instances, k]
    scores: NDArray[np.float32]  # [n_instances, k]


def empty_top_k(n_instances: int, k: int) -> TopK:
    """Make lists without any label."""
    return TopK(np.full((n_instances, k), NO_LABEL, np.int32), np.full((n_instances, k), -np.inf, np.float32))


def merge_top_k(parts: Sequence[TopK], k: int) -> TopK:
    """Merge lists of the same instances over disjoint labels into the best k of all.

    parts: one or more, labels int32 [n_instances, k_of_the_part] and scores float32 alike, empty places allowed.
    One part is simply cut or filled to k.
    """
    top = empty_top_k(len(parts[0].labels), k)
    labels = np.concatenate([part.labels for part in parts], axis=1)
    scores = np.concatenate([part.scores for part in parts], axis=1)
    merge_lists(labels, scores, *top)
    return top
