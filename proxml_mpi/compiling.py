"""Kernels ready on every rank: compiled by the first rank of a node, loaded from its cache by the others."""

import time
from collections.abc import Callable
from typing import Any

from proxml_mpi.kernel_cache import Compilations, cache_folder
from proxml_mpi.progress import seconds_since_start
from proxml_mpi.ranks.world import World


class Kernels:
    """What it took to have all kernels: a cold start compiles, a warm one loads."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._compilations = Compilations()
        self._seconds = self._ready_seconds = 0.0

    def make_ready(self, compile: Callable[[], None]) -> None:
        """Compile kernels by a call that uses them, on the first rank of each node first. Collective."""
        with self._world.first_of_node_first():
            began = time.monotonic()
            compile()
            self._seconds += time.monotonic() - began
        self._ready_seconds = seconds_since_start()

    def report(self) -> dict[str, Any]:
        """Return how this run started: seconds of the slowest rank, kernels compiled by all. Collective."""
        is_leader = self._world.node_rank == 0
        n_compiled = self._compilations.count
        n_by_leaders, n_by_others = (self._world.total(n_compiled * (is_leader is kind)) for kind in (True, False))
        return {
            "is_cold": n_by_leaders + n_by_others > 0,
            "ready_seconds": self._world.largest(self._ready_seconds),
            "first_of_node_compile_seconds": self._world.largest(self._seconds * is_leader),
            "others_compile_seconds": self._world.largest(self._seconds * (not is_leader)),
            "first_of_node_kernels_compiled": n_by_leaders,
            "others_kernels_compiled": n_by_others,
            "cache_folder": str(cache_folder()),
        }
