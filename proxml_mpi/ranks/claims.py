"""Who takes which block: every rank its own, and once these are taken, those that others of its node have not begun."""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from proxml_mpi.ranks.mpi import MPI
from proxml_mpi.ranks.world import World

COUNTER = np.dtype(np.int64)


class Claims:
    """A counter a rank of taken blocks, in the memory that the ranks of a node share.

    How long labels take is not known beforehand: with ranges alone the last of many ranks would finish long after the
    others. Nodes do not help each other: each has many labels, whose times add up to what was expected.
    """

    def __init__(self, world: World, n_blocks: int) -> None:
        """Collective: every rank calls this, with the number of its own blocks."""
        self.node = world.node
        self.ranks: list[int] = self.node.allgather(world.rank)
        self.n_blocks: list[int] = self.node.allgather(n_blocks)
        self._window: Any = MPI.Win.Allocate_shared(COUNTER.itemsize, COUNTER.itemsize, comm=self.node)
        self._window.Lock_all(MPI.MODE_NOCHECK)
        world.windows.append(self._window)
        memory, _ = self._window.Shared_query(self.node.rank)
        np.frombuffer(cast(memoryview, memory), COUNTER)[:] = 0
        self._window.Sync()
        self.node.Barrier()
        self._window.Sync()

    def take(self) -> Iterator[tuple[int, int]]:
        """Yield blocks, each to one rank only: the rank of the world that they belong to, and their number there."""
        for step in range(self.node.size):
            owner = (self.node.rank + step) % self.node.size
            while (block := self._count(owner)) < self.n_blocks[owner]:
                yield self.ranks[owner], block

    def _count(self, owner: int) -> int:
        """Take a number of the owner's counter."""
        number = np.zeros(1, COUNTER)
        self._window.Fetch_and_op(np.ones(1, COUNTER), number, owner, 0, MPI.SUM)
        self._window.Flush(owner)
        return int(number[0])
