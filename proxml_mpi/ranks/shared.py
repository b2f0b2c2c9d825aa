"""Arrays that exist once per node: filled by rank 0, sent to the first rank of every node, read by all."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.ranks.mpi import MPI
from proxml_mpi.ranks.world import World

SLICE_BYTES = 1 << 30  # MPI counts with 32-bit integers: larger messages fail
ALIGNMENT = 64

Arrays = TypeVar("Arrays", bound=tuple[Any, ...])
Layout = list[tuple[str, tuple[int, ...]]]  # dtype and shape of every array


def share(world: World, arrays: Arrays | None) -> Arrays:
    """Return rank 0's arrays (a NamedTuple of them) on every rank, one copy a node. Collective: every rank calls this.

    The arrays live until the world is left; nobody writes to them.
    """
    kind: type[Arrays] = world.from_first(type(arrays) if arrays is not None else None)
    layout = world.from_first([(a.dtype.str, a.shape) for a in arrays] if arrays is not None else None)

    def fill(copies: Arrays) -> None:
        for copy, array in zip(copies, arrays or (), strict=True):
            np.copyto(copy, array)

    return share_filled(world, kind, layout, fill)


def share_filled(world: World, kind: type[Arrays], layout: Layout, fill: Callable[[Arrays], None]) -> Arrays:
    """Share arrays that rank 0 fills in their place, so that it needs no other copy. Collective: every rank calls this.

    layout: dtype and shape of every array of the kind.
    """
    copies = allocate(world, kind, layout)
    if world.is_first:
        fill(copies)
    if world.leaders is not None and world.leaders.size > 1:
        for copy in copies:
            broadcast(world.leaders, copy)
        verify_arrival(world.leaders, copies)
    publish(world)
    return copies


def allocate(world: World, kind: type[Arrays], layout: Layout) -> Arrays:
    """Make room for arrays, once a node; what is in them shows after `publish`. Collective: every rank calls this."""
    return kind(*_allocate(world, layout))


def publish(world: World) -> None:
    """Make what any rank wrote into the shared arrays visible to its node. Collective: every rank calls this."""
    for window in world.windows:
        window.Sync()
    world.node.Barrier()
    for window in world.windows:
        window.Sync()


def verify_arrival(leaders: Any, arrays: Sequence[NDArray[Any]]) -> None:
    """Make sure that every node has the bytes that rank 0 sent. Collective: every rank of leaders calls this."""
    content = hashlib.blake2b(digest_size=16)
    for array in arrays:
        content.update(array.data)
    digests = leaders.allgather(content.hexdigest())
    if digests[leaders.rank] != digests[0]:
        raise RuntimeError(
            f"node {leaders.rank}: the data arrived with the digest {digests[leaders.rank]}, "
            f"rank 0 sent {digests[0]}: is the network, or this node's memory, in order?"
        )


def broadcast(comm: Any, array: NDArray[Any], slice_bytes: int | None = None) -> None:
    """Send rank 0's buffer into everybody's, in slices. Collective: every rank of comm calls this."""
    slice_bytes = slice_bytes or SLICE_BYTES
    flat = array.reshape(-1).view(np.uint8)
    for begin in range(0, len(flat), slice_bytes):
        comm.Bcast([flat[begin : begin + slice_bytes], MPI.BYTE], root=0)


def _allocate(world: World, layout: Layout) -> list[NDArray[Any]]:
    """Allocate room for all arrays, one piece of memory a node, and return them as views of it. Collective."""
    dtypes = [np.dtype(kind) for kind, _ in layout]
    sizes = [dtype.itemsize * int(np.prod(shape)) for dtype, (_, shape) in zip(dtypes, layout, strict=True)]
    begins = np.cumsum([0, *(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)])
    # numpy asks for huge pages, which MPI's windows seldom have: rows far apart are found sooner.
    make = _shared_memory if world.node.size > 1 else _own_memory
    buffer = make(world, int(begins[-1]))
    return [
        buffer[begin : begin + size].view(dtype).reshape(shape)
        for begin, size, dtype, (_, shape) in zip(begins, sizes, dtypes, layout, strict=False)
    ]


def _own_memory(_: World, n_bytes: int) -> NDArray[np.uint8]:
    """Return memory of this process, for a rank that is alone on its node."""
    return np.empty(n_bytes, np.uint8)


def _shared_memory(world: World, n_bytes: int) -> NDArray[np.uint8]:
    """Return memory that all ranks of a node see. Collective."""
    window = MPI.Win.Allocate_shared(max(n_bytes, 1) if world.node_rank == 0 else 1, 1, comm=world.node)
    window.Lock_all(MPI.MODE_NOCHECK)
    world.windows.append(window)
    memory, _ = window.Shared_query(0)
    return np.frombuffer(cast(memoryview, memory), np.uint8, count=n_bytes)
