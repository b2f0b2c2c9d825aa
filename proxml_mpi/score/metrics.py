"""Metrics of ranked lists as sums that add up, to the last bit, over any split of the instances.

Floating-point sums depend on their grouping, so none is taken across instances. What an instance contributes to a sum
is computed in a fixed order, rounded once to a multiple of 2^-50 (1e-15) and added as two int64: high, in multiples of
2^-20, and low, in multiples of 2^-50. Integers add up exactly in any order (there is room for 2^33 instances and sums
of 2^43); results are quotients of exact fractions, rounded once. So any number of ranks and rounds gives the same bits.

Coverage needs no sets: it keeps the best rank at which each label was ever hit, and its best rank in the best list of
an instance (the true labels by inverse propensity descending). They combine by minimum and serve every k.

Over ranks: Allreduce `sums` with SUM and `best_ranks` with MIN; then every rank has the result.

Frequency bins divide the labels by their training positives. For a bin, the truth is restricted to the labels of the
bin, and any other label in a list is a miss that keeps its place. P@k is the share of all top-k places that are hits
of the bin, so that the bins add up to the total. nDCG@k and recall@k are means over the instances with a true label of
the bin; PSP@k, PSnDCG@k and PSR@k are ratios to the best lists of the bin's labels; coverages count the bin's labels.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import nan

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.errors import SettingsError
from proxml_mpi.score import metric_kernels as sums_of
from proxml_mpi.score.bootstrap import Bootstrap, quotients, start_bootstrap
from proxml_mpi.score.metric_kernels import ALL, BEST, HIGH_SCALE, HIT, LOW_SCALE, N_FIELDS, N_PLACED, add_instances

FREQUENCY_BINS = ("0", "1", "2-5", "6-20", "21-100", ">100")
BIN_ENDS = (0, 1, 5, 20, 100)  # the most training positives in each bin but the last

NEVER = np.iinfo(np.int32).max


@dataclass(eq=False)
class Evaluation:
    """The sums behind all metrics, for a fixed list of k."""

    ks: tuple[int, ...]  # ascending
    inverse_propensity: NDArray[np.float64]  # [n_labels]
    group_of: NDArray[np.uint8]  # [n_labels]: 1 + frequency bin
    sums: NDArray[np.int64]  # [1 + n_bins, N_FIELDS, n_k, 2]: add over ranks
    best_ranks: NDArray[np.int32]  # [2, n_labels], from 0, NEVER where none: minimum over ranks
    bootstrap: Bootstrap | None = None

    def update(
        self,
        labels: NDArray[np.int32],
        truth: tuple[NDArray[np.int64], NDArray[np.int32]],
        reordered: NDArray[np.int32] | None = None,
        first_instance: int = 0,
    ) -> None:
        """Add instances with their ranked lists.

        labels int32 [n_instances, width]: -1 where empty; places missing up to k count as wrong.
        truth: indptr int64 [n_instances + 1] (it may be a slice of a longer one) and indices int32, distinct within an
        instance and in [0, n_labels); the caller has validated them.
        reordered int32 [n_instances, width]: lists re-ordered by propensity, on which to take PSP, PSnDCG, PSR.
        first_instance: number of the first one in the data set, by which the bootstrap draws.
        """
        n_groups, n_k = len(self.sums), len(self.ks)
        space = (np.zeros((n_groups, N_PLACED, self.ks[-1])), np.zeros((N_FIELDS, n_k)), np.zeros(n_groups, np.int64))
        n_contributions = 0 if self.bootstrap is None else len(labels)
        contributions = np.zeros((n_contributions, N_FIELDS, n_k, 2), np.int64)
        indptr, best_first = _best_lists(truth, self.inverse_propensity)
        add_instances(
            np.stack([labels, labels if reordered is None else reordered]),
            indptr,
            best_first,
            self.inverse_propensity,
            self.group_of,
            np.array(self.ks, np.int64),
            1.0 / np.log2(np.arange(self.ks[-1]) + 2.0),
            space,
            self.sums,
            self.best_ranks,
            contributions,
        )
        if self.bootstrap is not None:
            self.bootstrap.update(contributions, first_instance)

    def add(self, other: "Evaluation") -> None:
        """Add the sums of other instances, evaluated with the same k and the same labels."""
        self.sums += other.sums
        np.minimum(self.best_ranks, other.best_ranks, out=self.best_ranks)

    @property
    def n_instances(self) -> int:
        return int(self._sum(ALL, sums_of.INSTANCES, 0))

    @property
    def n_unlabelled(self) -> int:
        """Instances without any true label."""
        return self.n_instances - int(self._sum(ALL, sums_of.LABELLED, 0))

    def result(self, skip_unlabelled: bool = False) -> dict[str, float]:
        """Compute all metrics, in percent, unrounded; nan where there is nothing to divide by.

        Keys for each k: P nDCG PSP PSnDCG recall PSR; coverage (of the labels in the test truth), coverage_of_best (of
        the labels in the best k of some instance, as in the paper), coverage_of_all (of all labels); and covered, the
        number of labels covered. Instances without true labels count as zero, or not at all with
        skip_unlabelled.
        """
        return self._metrics(ALL, skip_unlabelled)

    def by_frequency(self, skip_unlabelled: bool = False) -> dict[str, dict[str, float]]:
        """Compute the metrics of every frequency bin, and its n_labels and n_instances (those with such a label)."""
        return {
            name: {
                "n_labels": _count(self.group_of == group),
                "n_instances": int(self._sum(group, sums_of.LABELLED, 0)),
                **self._metrics(group, skip_unlabelled),
            }
            for group, name in enumerate(FREQUENCY_BINS, start=1)
        }

    def _metrics(self, group: int, skip_unlabelled: bool) -> dict[str, float]:
        n_counted = self._sum(ALL, sums_of.LABELLED if skip_unlabelled else sums_of.INSTANCES, 0)
        n_mean = n_counted if group == ALL else self._sum(group, sums_of.LABELLED, 0)
        metrics: dict[str, float] = {}
        for j, k in enumerate(self.ks):
            total = [self._sum(group, field, j) for field in range(N_FIELDS)]
            metrics |= {f"{name}@{k}": _percent(*pair) for name, pair in quotients(total, n_counted, n_mean, k).items()}
            metrics.update(self._coverages(group, k))
        return metrics

    def _coverages(self, group: int, k: int) -> dict[str, float]:
        ranks = self.best_ranks if group == ALL else self.best_ranks[:, self.group_of == group]
        covered = _count(ranks[HIT] < k)
        return {
            f"coverage@{k}": _percent(covered, _count(ranks[BEST] < NEVER)),
            f"coverage_of_best@{k}": _percent(covered, _count(ranks[BEST] < k)),
            f"coverage_of_all@{k}": _percent(covered, ranks.shape[1]),
            f"covered@{k}": covered,
        }

    def _sum(self, group: int, field: int, j: int) -> Fraction:
        high, low = (int(part) for part in self.sums[group, field, j])
        return Fraction(high * int(LOW_SCALE) + low, int(HIGH_SCALE * LOW_SCALE))


def start_evaluation(
    ks: Iterable[int],
    inverse_propensity: NDArray[np.float64],
    n_positives: NDArray[np.integer],
    n_replicates: int = 0,
) -> Evaluation:
    """Make an evaluation without instances; the order of ks and repetitions do not matter.

    inverse_propensity float64 [n_labels], n_positives int [n_labels]: of the training data; n_replicates: of the
    bootstrap, 0 for none.
    """
    ks = tuple(sorted(set(ks)))
    if not ks or ks[0] < 1:
        raise SettingsError("--k", ks, "one or more whole numbers from 1")
    group_of = 1 + np.searchsorted(BIN_ENDS, n_positives)
    sums = np.zeros((1 + len(FREQUENCY_BINS), N_FIELDS, len(ks), 2), np.int64)
    best_ranks = np.full((2, len(inverse_propensity)), NEVER, np.int32)
    bootstrap = start_bootstrap(n_replicates, ks) if n_replicates else None
    return Evaluation(ks, inverse_propensity, group_of.astype(np.uint8), sums, best_ranks, bootstrap)


def _best_lists(
    truth: tuple[NDArray[np.int64], NDArray[np.int32]], inverse_propensity: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Order the true labels of every instance by inverse propensity descending, then label ascending."""
    indptr, indices = truth
    indices = indices[indptr[0] : indptr[-1]]
    instance = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    order = np.lexsort((indices, -inverse_propensity[indices], instance))
    return indptr - indptr[0], indices[order]


def _count(marks: NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(marks))


def _percent(part: Fraction | int, whole: Fraction | int) -> float:
    return float(100 * Fraction(part) / whole) if whole else nan
