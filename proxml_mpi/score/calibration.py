"""Calibration: the scores of rare and of frequent labels made comparable at prediction.

    score of a label = n / (n + K) (1 + w.x + b) - C ln n - 1        n training instances with the label

1 + w.x + b is how far an instance lies beyond a sure negative. Weights that were learned from few positives are
believed less, and of labels with equal scores the rarer one comes first: both helped on validation data. The order of
instances within a label stays. Training, stored weights and certificates know nothing of this; docs/quality.md has the
numbers.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SHRINKAGE = 0.5  # K
RARITY = 0.02  # C


class Calibration(NamedTuple):
    """By what the scores of labels are multiplied, and what is added to them then."""

    factors: NDArray[np.float32]  # [n_labels]
    shifts: NDArray[np.float64]  # [n_labels]

    def bias(self, bias: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the biases, float32 [n_labels], of calibrated scores; -inf stays."""
        return (self.factors * bias.astype(np.float64) + self.shifts).astype(np.float32)


def calibration_of(n_positives: NDArray[np.integer], is_wanted: bool = True) -> Calibration | None:
    """Make the calibration of labels from the number of their training instances, [n_labels]; None: scores stay."""
    if not is_wanted:
        return None
    # One logarithm at a time: those of arrays may differ in the last bit with the length of the array.
    counts, place = np.unique(np.maximum(n_positives, 1), return_inverse=True)
    factors = (counts / (counts + SHRINKAGE)).astype(np.float32)
    logarithms = np.array([math.log(count) for count in counts.tolist()], np.float64)
    return Calibration(factors[place], (factors - RARITY * logarithms - 1.0)[place])
