"""Errors under an infinity-norm budget, in closed form: moving every feature by at most epsilon lowers the margin

    y (w.x + b)     to     y (w.x + b) - epsilon |w|_1     at worst.

A label is predicted where its score is above 0. In the worst case a positive is missed unless w.x + b > epsilon |w|_1,
and a negative is hit as soon as w.x + b > -epsilon |w|_1. Only pairs of an instance and a label that share a feature
are looked at one by one; the scores of all others are the bias.
"""

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from proxml_mpi.instances import Piece
from proxml_mpi.solve.block import Block

LABELS_AT_ONCE = 512
FACTS = ("n_true", "score_sum", "norm", "is_silent")  # of a label, before its errors by budget


def worst_errors(block: Block, piece: Piece, n_features: int, budgets: tuple[float, ...]) -> NDArray[np.float64]:
    """Return, for every label of the block, FACTS, then positives missed and negatives hit, one each a budget.

    score_sum: over the positives; is_silent: 1 where the label is never predicted (its bias is -inf).
    [block.n_labels, len(FACTS) + 2 len(budgets)]: sums of a label alone, so that blocks may be cut anywhere.
    """
    n_instances = len(piece.indptr) - 1
    X = scipy.sparse.csr_array(
        (piece.values.astype(np.float64), piece.indices, piece.indptr), shape=(n_instances, n_features)
    )
    ones = np.ones(len(piece.label_indices), np.int8)
    shape = (n_instances, int(max(block.end_label, piece.label_indices.max(initial=-1) + 1)))
    truth = scipy.sparse.csr_array((ones, piece.label_indices, piece.label_indptr), shape=shape).tocsc()
    parts = [np.empty((0, len(FACTS) + 2 * len(budgets)))]
    for first in range(0, block.n_labels, LABELS_AT_ONCE):
        end = min(first + LABELS_AT_ONCE, block.n_labels)
        of_labels = truth[:, block.first_label + first : block.first_label + end]
        parts.append(_errors(block, first, end, X, of_labels, budgets))
    return np.concatenate(parts)


def _errors(
    block: Block,
    first: int,
    end: int,
    X: scipy.sparse.csr_array,
    truth: scipy.sparse.csc_array,
    budgets: tuple[float, ...],
) -> NDArray[np.float64]:
    """Count the errors of the labels first ... end - 1 of the block; truth: [n_instances, end - first]."""
    n_instances, n_labels = truth.shape
    weights = slice(block.indptr[first], block.indptr[end])
    data = block.data[weights].astype(np.float64)
    arrays = (data, block.indices[weights], block.indptr[first : end + 1] - block.indptr[first])
    W = scipy.sparse.csr_array(arrays, shape=(n_labels, X.shape[1]))
    norm = np.bincount(np.repeat(np.arange(n_labels), np.diff(W.indptr)), np.abs(data), minlength=n_labels)
    bias = block.bias[first:end].astype(np.float64)
    scores = (X @ W.T).tocsc()
    scores.sort_indices()
    truth.sort_indices()
    label_of = np.repeat(np.arange(n_labels), np.diff(scores.indptr))
    true_label_of = np.repeat(np.arange(n_labels), np.diff(truth.indptr))
    touched = label_of * n_instances + scores.indices
    true = true_label_of * n_instances + truth.indices
    is_true = np.isin(touched, true, assume_unique=True)
    score = scores.data + bias[label_of]
    # Positives that share no feature with the weights have the bias as their score.
    true_score = bias[true_label_of].copy()
    true_score[np.isin(true, touched, assume_unique=True)] = score[is_true]
    n_true = np.diff(truth.indptr)
    n_far = n_instances - n_true - np.bincount(label_of[~is_true], minlength=n_labels)
    is_silent = np.isneginf(bias)
    sums = np.bincount(true_label_of, np.where(is_silent[true_label_of], 0.0, true_score), minlength=n_labels)
    missed, hit = [], []
    for budget in budgets:
        reach = budget * norm
        missed.append(np.bincount(true_label_of[true_score <= reach[true_label_of]], minlength=n_labels))
        wrong = ~is_true & (score > -reach[label_of])
        hit.append(np.bincount(label_of[wrong], minlength=n_labels) + np.where(bias > -reach, n_far, 0))
    return np.stack([n_true, sums, norm, is_silent, *missed, *hit], axis=1)
