"""How many threads a rank may use."""

import logging
import os
from collections.abc import Mapping, Sequence

from proxml_mpi.ranks.world import World

log = logging.getLogger("proxml")


def choose_threads(world: World, wanted: int | None) -> int:
    """Return the wanted number of threads, or this rank's fair share of the cores. Collective: every rank calls this.

    Says who works here, and warns when they will stand in each other's way.
    """
    affinities = world.node.allgather(os.sched_getaffinity(0))
    mine = affinities[world.node_rank]
    n_threads = wanted or fair_share(mine, affinities, os.environ)
    n_threads_of_node = sum(world.node.allgather(n_threads))
    log.info("%d ranks on %d nodes, %d threads each", world.size, world.n_nodes, n_threads)
    n_cores = len(set().union(*affinities))
    if n_threads_of_node > n_cores and world.node_rank == 0:
        log.warning("%d threads of %d ranks share %d cores", n_threads_of_node, world.node.size, n_cores)
    elif n_threads > len(mine):
        log.warning("%d threads are bound to %d cores: launch with --bind-to none", n_threads, len(mine))
    return n_threads


def fair_share(mine: set[int], all_of_node: Sequence[set[int]], environment: Mapping[str, str]) -> int:
    """Divide the cores of a rank by the ranks of the node that may run on them too, within SLURM's allowance."""
    n_sharers = sum(1 for other in all_of_node if other & mine)
    share = max(1, len(mine) // max(1, n_sharers))
    allowance = environment.get("SLURM_CPUS_PER_TASK", "")
    return min(share, int(allowance)) if allowance.isdigit() and int(allowance) > 0 else share
