"""How fast messages travel between ranks, and what MPI says of itself."""

import time
from typing import Any, NamedTuple

import numpy as np

from proxml_mpi.ranks.mpi import MPI
from proxml_mpi.ranks.shared import broadcast, share_filled
from proxml_mpi.ranks.world import World

MESSAGE_BYTES = 1 << 24


class Library(NamedTuple):
    """The MPI library in use."""

    name: str
    standard: str
    threads: str


class Counted(NamedTuple):
    """An array to be shared."""

    numbers: Any


def library() -> Library:
    """Return what the MPI library says of itself."""
    levels = {
        MPI.THREAD_SINGLE: "single",
        MPI.THREAD_FUNNELED: "funneled",
        MPI.THREAD_SERIALIZED: "serialized",
        MPI.THREAD_MULTIPLE: "multiple",
    }
    words = MPI.Get_library_version().replace("\0", "").split("\n")[0].replace(",", " ").split()
    name = "Open MPI " + words[2].lstrip("v") if words[:2] == ["Open", "MPI"] else " ".join(words[:6])
    return Library(name, ".".join(map(str, MPI.Get_version())), levels[MPI.Query_thread()])


def shared_memory_works(world: World, n_numbers: int = 1 << 20) -> bool:
    """Return whether every rank reads what the first rank of its node has in shared memory. Collective."""
    n_windows = len(world.windows)

    def fill(counted: Counted) -> None:
        counted.numbers[:] = np.arange(n_numbers)

    counted = share_filled(world, Counted, [("<i8", (n_numbers,))], fill)
    n_right = world.total(int(np.array_equal(counted.numbers, np.arange(n_numbers))))
    del counted
    world.free_windows(n_windows)
    return bool(n_right == world.size)


def broadcast_speed(comm: Any, seconds: float) -> float:
    """Return the bytes a second that each rank of comm receives from its rank 0. Collective over comm."""
    message = np.full(MESSAGE_BYTES, comm.rank == 0, np.uint8)
    broadcast(comm, message)
    if not message.all():
        raise RuntimeError(f"rank {comm.rank}: a broadcast arrived damaged")
    n_rounds, began, goes_on = 0, time.monotonic(), True
    while goes_on:
        broadcast(comm, message)
        n_rounds += 1
        goes_on = comm.bcast(time.monotonic() - began < seconds)
    comm.Barrier()
    return n_rounds * MESSAGE_BYTES / (time.monotonic() - began)


def exchange_speed(comm: Any, seconds: float) -> float:
    """Return the bytes a second between rank 0 and the last rank, to and fro, on rank 0. Collective over comm."""
    message, last = np.zeros(MESSAGE_BYTES, np.uint8), comm.size - 1
    n_rounds, began, goes_on = 0, time.monotonic(), True
    while goes_on:
        if comm.rank == 0:
            comm.Send(message, dest=last)
            comm.Recv(message, source=last)
        elif comm.rank == last:
            comm.Recv(message, source=0)
            comm.Send(message, dest=0)
        n_rounds += 1
        goes_on = comm.bcast(time.monotonic() - began < seconds)
    return 2 * n_rounds * MESSAGE_BYTES / (time.monotonic() - began)
