"""Propensities of labels (Jain, Prabhu, Varma 2016), and the re-ordering and re-scoring of top lists by them.

    inverse propensity of label l = 1 + C (N_l + B)^(-A),    C = (ln N - 1) (B + 1)^A

N counts the training instances, N_l those of label l (0 for a label unseen in training).
"""

from dataclasses import dataclass
from math import inf, log

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.errors import SettingsError
from proxml_mpi.score.topk import TopK


@dataclass(frozen=True)
class Propensity:
    """The two constants of the propensity model; values that cannot be used raise SettingsError."""

    a: float
    b: float

    def __post_init__(self) -> None:
        for option, value in (("--propensity-a", self.a), ("--propensity-b", self.b)):
            if not 0 < value < inf:
                raise SettingsError(option, value, "a number above 0")


N_RESCORED = 20  # labels of an instance, at least, that compete for its list

PRESETS = {
    "wikipedia": Propensity(0.5, 0.4),
    "amazon": Propensity(0.6, 2.6),
    "other": Propensity(0.55, 1.5),
}


def choose_propensity(preset: str | None, a: float | None, b: float | None) -> Propensity:
    """Return the propensity model of a and b when both are given, else the preset [other]."""
    return PRESETS[preset or "other"] if a is None or b is None else Propensity(a, b)


def inverse_propensities(
    n_positives: NDArray[np.integer], n_instances: int, propensity: Propensity
) -> NDArray[np.float64]:
    """Compute the inverse propensity of every label, float64 [n_labels].

    n_positives int [n_labels]: training instances of each label; n_instances: all training instances.
    Below three instances ln N - 1 is negative and the model has no meaning: all propensities are then 1.
    """
    c = max(log(max(n_instances, 1)) - 1, 0.0) * (propensity.b + 1) ** propensity.a
    inverse: NDArray[np.float64] = 1 + c * (n_positives + propensity.b) ** -propensity.a
    return inverse


def reorder_by_propensity(top: TopK, inverse_propensity: NDArray[np.float64]) -> TopK:
    """Re-order whole lists as the published evaluation of PRoXML does with its top 5; P and nDCG keep the plain order.

    The rule: take the best-scored remaining label, replace it by any later one with score > 0 and larger inverse
    propensity, emit it, repeat. Scores descend, so labels with score > 0 come first: the rule sorts them by inverse
    propensity descending, equal ones staying in order, and leaves the others behind them as they are.
    top: ranked lists [n_instances, k]; inverse_propensity float64 [n_labels].
    """
    key = np.where(top.scores > 0, -inverse_propensity[top.labels], inf)
    order = np.argsort(key, axis=1, kind="stable")
    return TopK(np.take_along_axis(top.labels, order, axis=1), np.take_along_axis(top.scores, order, axis=1))


def score_by_propensity(top: TopK, inverse_propensity: NDArray[np.float64], k: int) -> TopK:
    """Score lists anew by max(0, 1 + score)^2 x inverse propensity, and cut them to k: rare labels rise.

    A score of -1 is that of a sure negative. Labels of equal new scores stay in order. top: ranked lists [n_instances,
    N_RESCORED or more].
    """
    found = top.labels >= 0
    chance = np.square(np.maximum(1.0 + np.where(found, top.scores.astype(np.float64), -1.0), 0.0))
    scores = np.where(found, chance * inverse_propensity[top.labels], -inf).astype(np.float32)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return TopK(np.take_along_axis(top.labels, order, axis=1), np.take_along_axis(scores, order, axis=1))
