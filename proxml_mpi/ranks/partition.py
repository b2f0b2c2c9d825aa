"""Who owns which labels: pure functions of costs and counts."""

import numpy as np
from numpy.typing import NDArray


def partition(costs: NDArray[np.float64], n_ranks: int) -> NDArray[np.int64]:
    """Cut labels into contiguous ranges, one a rank, so that the costliest range is as cheap as can be.

    costs: [n_labels], none negative. Returns bounds [n_ranks + 1]: rank r owns labels bounds[r] ... bounds[r + 1] - 1;
    ranges may be empty.
    """
    sums = np.concatenate([[0.0], np.cumsum(costs)])
    low, high = max(sums[-1] / n_ranks, costs.max(initial=0.0)), float(sums[-1])
    for _ in range(60):
        limit = 0.5 * (low + high)
        if _cut(sums, limit, n_ranks)[-1] == len(costs):
            high = limit
        else:
            low = limit
    bounds = _cut(sums, high, n_ranks)
    bounds[-1] = len(costs)
    return bounds


def _cut(sums: NDArray[np.float64], limit: float, n_ranks: int) -> NDArray[np.int64]:
    """Give each rank as many labels as cost at most limit."""
    bounds = np.zeros(n_ranks + 1, np.int64)
    for rank in range(n_ranks):
        bounds[rank + 1] = np.searchsorted(sums, sums[bounds[rank]] + limit, side="right") - 1
    return bounds


def share_of(n_items: int, n_ranks: int, rank: int) -> tuple[int, int]:
    """Return the half-open range of items that rank owns when all items cost the same."""
    return n_items * rank // n_ranks, n_items * (rank + 1) // n_ranks
