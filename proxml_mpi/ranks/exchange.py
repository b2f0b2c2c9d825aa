"""Rows that change hands: every rank has all rows of its labels and wants all labels of its rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.ranks.partition import share_of
from proxml_mpi.ranks.world import World


def exchange_rows(world: World, rows: NDArray[Any]) -> NDArray[Any]:
    """Give every rank its share of everybody's rows. Collective: every rank calls this.

    rows: [n_rows, k], the same shape everywhere. Returns [n_ranks, n_rows of this rank's share, k], by rank of origin.
    """
    n_rows, k = rows.shape
    bounds = np.array([share_of(n_rows, world.size, rank) for rank in range(world.size)])
    counts = (bounds[:, 1] - bounds[:, 0]) * k
    n_mine = int(counts[world.rank])
    received = np.empty((world.size, n_mine // k, k), rows.dtype)
    begins = np.arange(world.size) * n_mine
    world.comm.Alltoallv(
        [np.ascontiguousarray(rows), (counts, bounds[:, 0] * k)], [received, (np.full(world.size, n_mine), begins)]
    )
    return received


def collect_rows(world: World, rows: NDArray[Any]) -> NDArray[Any] | None:
    """Put the shares of all ranks together on rank 0, in order; None elsewhere. Collective: every rank calls this."""
    counts = world.comm.gather(rows.size)
    if not world.is_first:
        world.comm.Gatherv(np.ascontiguousarray(rows), None)
        return None
    received = np.empty((sum(counts) // rows.shape[1], rows.shape[1]), rows.dtype)
    world.comm.Gatherv(np.ascontiguousarray(rows), [received, counts])
    return received
