"""Memory that the ranks of a node share, and memory and disk for a given data set."""

import os
import shutil
from pathlib import Path

from proxml_mpi.data.formats import find_source
from proxml_mpi.doctor.finding import Finding, change, fine
from proxml_mpi.errors import UserError
from proxml_mpi.loading import check_fit, size_of_source
from proxml_mpi.ranks.measure import shared_memory_works
from proxml_mpi.ranks.memory import gibibytes, rooms, smallest_room, window_room
from proxml_mpi.ranks.world import World
from proxml_mpi.settings.train import TrainSettings

SHARED_LITTLE = 256 << 20  # containers leave 64 MiB unless told


def examine_shared_memory(world: World) -> Finding:
    """Share an array among the ranks of every node. Collective."""
    room = window_room(os.environ)
    smallest = -int(world.largest(-room.n_bytes))
    if not shared_memory_works(world):
        advice = "is /dev/shm mounted and writable on every node? MPI keeps the memory that ranks share there"
        return change("shared memory", "ranks of a node do not read what their first rank wrote", advice)
    found = f"works; {gibibytes(smallest)} left by {room.limit}"
    if smallest < SHARED_LITTLE and world.node.size > 1:
        return change("shared memory", found, "make /dev/shm larger (docker: --shm-size), or use one rank a node")
    return fine("shared memory", found)


def examine_memory(world: World) -> Finding:
    """Say what is left on the node that has least. Collective."""
    room = smallest_room(rooms(os.environ, Path("/"), 0))
    least = min(world.comm.allgather(room))
    return fine("memory", f"{gibibytes(least.n_bytes)} a node left by {least.limit}")


def examine_data(world: World, settings: TrainSettings, n_threads: int) -> list[Finding]:
    """Compare an estimate for a data set with the memory of the nodes and the disk. Collective."""
    size, free_bytes = None, 0
    try:
        with world.together():
            if world.is_first:
                size = size_of_source(find_source(settings.train, settings.format))
                free_bytes = shutil.disk_usage(settings.model.resolve().parent).free
    except UserError as error:
        return [change("data", str(error), "give --data a data set that can be read")]
    size, free_bytes = world.from_first((size, free_bytes))
    # A weight belongs to a feature of a positive instance, as a rule; the journal holds as much as the model.
    n_weights = size.n_pairs * size.n_entries // max(1, size.n_instances)
    disk_bytes = 2 * (8 * n_weights + 64 * size.n_labels)
    shape = f"{size.n_instances:,} instances, {size.n_features:,} features, {size.n_labels:,} labels"
    disk = f"model and journal need at most about {gibibytes(disk_bytes)}, {gibibytes(free_bytes)} are free"
    findings = [fine("disk", disk)]
    if disk_bytes > free_bytes:
        findings = [change("disk", disk, "choose a directory on a larger disk, or --scratch for the journal")]
    try:
        n_bytes = check_fit(settings, world, size, n_threads, is_exact=False)
    except UserError as error:
        return [change("data", f"{shape}: {error}", "see the message"), *findings]
    return [fine("data", f"about {shape}: a node needs about {gibibytes(n_bytes)} more"), *findings]
