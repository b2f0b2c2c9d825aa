"""Confidence intervals of the metrics by the Poisson bootstrap.

In every replicate each instance counts 0, 1, 2, ... times, drawn from the Poisson distribution of mean 1. The draw is a
hash of the replicate and of the instance's number in the data set: it depends neither on ranks nor on rounds. The
contributions of instances are whole numbers (see `metrics`), so that the sums of a replicate are exact and add up over
ranks. An interval holds the middle 95 % of the replicates. Coverage is no sum over instances and has no interval.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.score import metric_kernels as sums_of
from proxml_mpi.score.metric_kernels import HIGH_SCALE, LOW_SCALE, N_FIELDS

QUANTILES = (0.025, 0.975)
SEED = 20180304
_INSTANCES_AT_ONCE = 1024
_POISSON = np.array([*accumulate(exp(-1) / factorial(n) for n in range(14))])  # probability of at most n


@dataclass(eq=False)
class Bootstrap:
    """The sums of every replicate."""

    ks: tuple[int, ...]
    sums: NDArray[np.int64]  # [n_replicates, N_FIELDS, n_k, 2]: add over ranks

    def update(self, contributions: NDArray[np.int64], first_instance: int) -> None:
        """Add instances: contributions int64 [n_instances, N_FIELDS, n_k, 2], numbered from first_instance on."""
        sums = self.sums.reshape(len(self.sums), -1)
        flat = contributions.reshape(len(contributions), sums.shape[1])
        for begin in range(0, len(flat), _INSTANCES_AT_ONCE):
            part = flat[begin : begin + _INSTANCES_AT_ONCE]
            sums += draw_counts(len(sums), first_instance + begin, len(part)) @ part

    def intervals(self, skip_unlabelled: bool) -> dict[str, list[float]]:
        """Compute the lower and upper bound of every metric that is a sum over instances, in percent."""
        totals = (self.sums[..., 0] + self.sums[..., 1] / LOW_SCALE) / HIGH_SCALE
        found = {}
        for j, k in enumerate(self.ks):
            total = [totals[:, field, j] for field in range(N_FIELDS)]
            n_counted = total[sums_of.LABELLED if skip_unlabelled else sums_of.INSTANCES]
            for name, (part, whole) in quotients(total, n_counted, n_counted, k).items():
                percents = 100 * part[whole > 0] / whole[whole > 0]
                if len(percents):
                    found[f"{name}@{k}"] = np.quantile(percents, QUANTILES).tolist()
        return found


def start_bootstrap(n_replicates: int, ks: Sequence[int]) -> Bootstrap:
    """Make replicates without instances."""
    return Bootstrap(tuple(ks), np.zeros((n_replicates, N_FIELDS, len(ks), 2), np.int64))


def draw_counts(n_replicates: int, first_instance: int, n_instances: int) -> NDArray[np.int64]:
    """Draw how often each instance counts in each replicate, int64 [n_replicates, n_instances]."""
    replicates = np.arange(n_replicates, dtype=np.uint64)[:, None]
    instances = np.arange(first_instance, first_instance + n_instances, dtype=np.uint64)
    bits = _mix(_mix(replicates + np.uint64(SEED)) + instances)
    uniform = (bits >> np.uint64(11)) * 2.0**-53
    return np.searchsorted(_POISSON, uniform, side="right")


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scatter the bits of numbers (the finaliser of splitmix64, Steele et al. 2014); overflow is meant."""
    x = x * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def quotients(total: Sequence[Any], n_counted: Any, n_mean: Any, k: int) -> Mapping[str, tuple[Any, Any]]:
    """Return every metric that is a sum over instances as (part, whole), from the sums of all fields at k."""
    return {
        "P": (total[sums_of.HITS], k * n_counted),
        "nDCG": (total[sums_of.NDCG], n_mean),
        "PSP": (total[sums_of.GAIN], total[sums_of.BEST_GAIN]),
        "PSnDCG": (total[sums_of.GAIN_NDCG], total[sums_of.BEST_GAIN_NDCG]),
        "recall": (total[sums_of.RECALL], n_mean),
        "PSR": (total[sums_of.GAIN_RECALL], total[sums_of.BEST_GAIN_RECALL]),
    }
