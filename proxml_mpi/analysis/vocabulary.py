"""How the words of test instances differ from those of training: the overlap there is, and changes made on purpose."""

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.data.dataset import Lists, Matrix

KINDS = ("drop", "replace")
OVERLAP = ("n_pairs", "share_sum", "n_distinct", "n_known")


def change(features: Matrix, n_features: int, kind: str, fraction: float, seed: int) -> Matrix:
    """Drop a share of the vocabulary, or let its features stand in for each other.

    The share is the beginning of one order of all features, drawn by seed: a larger share contains a smaller one. A
    feature that is replaced hands its values to the next one of the share, in all instances: the words are others, and
    an instance has as many as before.
    """
    order = np.random.default_rng(seed).permutation(n_features).astype(np.int32)
    chosen = order[: round(fraction * n_features)]
    if kind == "drop":
        is_kept = np.ones(n_features, bool)
        is_kept[chosen] = False
        entries = is_kept[features.indices]
        sums = np.concatenate([[0], np.cumsum(entries)])
        return Matrix(sums[features.indptr].astype(np.int64), features.indices[entries], features.values[entries])
    successor = np.arange(n_features, dtype=np.int32)
    successor[chosen] = np.roll(chosen, -1)
    indices = successor[features.indices]
    instance_of = np.repeat(np.arange(len(features.indptr) - 1), np.diff(features.indptr))
    ascending = np.lexsort((indices, instance_of))
    return Matrix(features.indptr, indices[ascending], features.values[ascending])


def overlaps(
    labels: range, train: tuple[Matrix, Lists], test: tuple[Matrix, Lists], n_features: int
) -> NDArray[np.float64]:
    """Return, for every label, how much of its test positives' vocabulary its training positives have: OVERLAP.

    train, test: features by instance and positives by label. n_pairs counts test positives that have features (0 where
    the label has no training positives), share_sum adds up the share of their features that some training positive
    has; n_distinct counts the different features of all test positives, n_known those that training positives have.
    """
    known = np.full(n_features, -1, np.int64)
    rows = np.zeros((len(labels), len(OVERLAP)))
    for at, label in enumerate(labels):
        trained, tested = (_of_label(positives, label) for _, positives in (train, test))
        if len(trained) == 0 or len(tested) == 0:
            continue
        known[_features_of(train[0], trained)[0]] = label
        features, lengths = _features_of(test[0], tested)
        is_known = known[features] == label
        ends = np.cumsum(lengths)
        n_known = np.diff(np.concatenate([[0], np.cumsum(is_known)])[np.concatenate([[0], ends])])
        shares = n_known[lengths > 0] / lengths[lengths > 0]
        distinct = np.unique(features)
        rows[at] = len(shares), shares.sum(), len(distinct), np.count_nonzero(known[distinct] == label)
    return rows


def _of_label(positives: Lists, label: int) -> NDArray[np.int32]:
    return positives.indices[positives.indptr[label] : positives.indptr[label + 1]]


def _features_of(features: Matrix, instances: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the features of instances, one after the other, and how many each has."""
    begins = features.indptr[instances]
    lengths = features.indptr[instances.astype(np.int64) + 1] - begins
    ends = np.cumsum(lengths)
    places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(begins - (ends - lengths), lengths)
    return features.indices[places], lengths
