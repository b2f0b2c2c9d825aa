"""Calibration: the scores of rare and of frequent labels made comparable at prediction.

    score of a label = (n / (n + K) + A / max(1, |w|)) (1 + w.x + b) - C ln n - 1     n its training instances

1 + w.x + b is how far an instance lies beyond a sure negative; divided by |w|, how far it would have to move to be one.
Weights that were learned from few positives are believed less; the same score by shorter weights, which an instance
must match better, more; and of labels with equal scores the rarer one comes first: all three helped on validation data.
The order of instances within a label stays. Training, stored weights and certificates know nothing of this;
docs/quality.md has the numbers.
"""

import math

import numpy as np
from numpy.typing import NDArray

SHRINKAGE = 2.0  # K
RARITY = 0.02  # C
DISTANCE = 1.0  # A


def calibrate(
    bias: NDArray[np.float32], n_positives: NDArray[np.integer], lengths: NDArray[np.float64]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return by what the weights of labels are multiplied, float32 [n_labels], and their new biases; -inf stays.

    bias, n_positives, lengths [n_labels]: of labels, their training instances, |w|.
    """
    # One logarithm at a time: those of arrays may differ in the last bit with the length of the array.
    counts, place = np.unique(np.maximum(n_positives, 1), return_inverse=True)
    logarithms = np.array([math.log(count) for count in counts.tolist()], np.float64)
    trust = counts / (counts + SHRINKAGE)
    factors = (trust[place] + DISTANCE / np.maximum(lengths, 1.0)).astype(np.float32)
    shifts = factors - RARITY * logarithms[place] - 1.0
    return factors, (factors * bias.astype(np.float64) + shifts).astype(np.float32)
