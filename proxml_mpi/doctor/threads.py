"""Cores, binding and threads of the ranks."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from proxml_mpi.doctor.finding import Finding, change, fine
from proxml_mpi.ranks.threads import fair_share
from proxml_mpi.ranks.world import World

UNBIND = "mpirun --bind-to none, mpirun --map-by slot:pe=THREADS, or srun --cpus-per-task=THREADS"


class NodeCores(NamedTuple):
    """The ranks of one node and the cores they may run on."""

    affinities: list[set[int]]  # by rank
    n_threads: list[int]  # by rank
    n_cores: int  # that the launcher may use


def examine_threads(world: World, wanted: int | None) -> Finding:
    """Find ranks that stand in each other's way, and cores that nobody uses; speak of the worst node. Collective."""
    affinities = world.node.allgather(os.sched_getaffinity(0))
    n_threads = wanted or fair_share(affinities[world.node_rank], affinities, os.environ)
    node = NodeCores(affinities, world.node.allgather(n_threads), usable_cores(world.size))
    found: list[Finding] = world.comm.allgather(judge_threads(node, world.size))
    return max(found, key=lambda finding: finding.level == "change")


def usable_cores(world_size: int, environment: Mapping[str, str] = os.environ) -> int:
    """Return the cores of this node that the job may use: those of the launcher, who is bound to none."""
    process = os.getppid() if world_size > 1 else 0
    n_cores = len(os.sched_getaffinity(process))
    granted = environment.get("SLURM_CPUS_ON_NODE", "")
    return min(n_cores, int(granted)) if granted.isdigit() and int(granted) > 0 else n_cores


def judge_threads(node: NodeCores, world_size: int) -> Finding:
    """Judge the ranks of one node."""
    bound = set().union(*node.affinities)
    n_ranks, n_threads = len(node.affinities), sum(node.n_threads)
    layout = f"{n_ranks} ranks a node, {node.n_threads[0]} threads each, on {len(bound)} of {node.n_cores} cores"
    narrow = [rank for rank in range(n_ranks) if node.n_threads[rank] > len(node.affinities[rank])]
    if n_threads > len(bound):
        advice = f"fewer ranks a node or --threads {max(1, len(bound) // n_ranks)}: {n_threads} threads are too many"
        return change("threads", f"{layout}: oversubscribed", advice)
    if narrow:
        cores = len(node.affinities[narrow[0]])
        return change("threads", f"{layout}: {node.n_threads[narrow[0]]} threads are bound to {cores} cores", UNBIND)
    if world_size > 1 and len(bound) < node.n_cores and all(len(each) == 1 for each in node.affinities):
        n_idle = node.n_cores - len(bound)
        found = f"{layout}: each rank is bound to one core, and {n_idle} cores are idle"
        return change("threads", found, f"more ranks a node, or more cores a rank: {UNBIND}")
    return fine("threads", layout)
