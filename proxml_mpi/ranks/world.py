"""The world of ranks: who is here, and how all of them end together."""

import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from numpy.typing import NDArray

from proxml_mpi.errors import StoppedError, UserError
from proxml_mpi.ranks.launch import check_launch
from proxml_mpi.ranks.mpi import MPI


class World:
    """All ranks, those of this node, and the first rank of every node.

    A context manager: leaving it frees the shared windows, so arrays from `share` must not be used afterwards.
    """

    def __init__(self, comm: Any = None, node: Any = None) -> None:
        """Collective: every rank calls this. `node` stands in for the ranks that share memory with this one."""
        self.comm: Any = comm or MPI.COMM_WORLD
        self.rank: int = self.comm.rank
        self.size: int = self.comm.size
        self.node: Any = node or self.comm.Split_type(MPI.COMM_TYPE_SHARED, key=self.rank)
        self.node_rank: int = self.node.rank
        leaders = self.comm.Split(0 if self.node_rank == 0 else MPI.UNDEFINED, key=self.rank)
        self.leaders = leaders if self.node_rank == 0 else None
        self.n_nodes: int = self.comm.bcast(leaders.size if self.rank == 0 else None)
        self.windows: list[Any] = []

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def __enter__(self) -> "World":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Free what was shared: Collective, unless an error is on its way that other ranks know nothing of."""
        if error is None or isinstance(error, StoppedError) or (isinstance(error, UserError) and error.is_shared):
            self.free_windows(0)

    def free_windows(self, n_kept: int) -> None:
        """Free the shared arrays made after the first n_kept. Collective: every rank calls this."""
        while len(self.windows) > n_kept:
            window = self.windows.pop()
            window.Unlock_all()
            window.Free()

    def agree(self, error: UserError | None) -> None:
        """Raise the error of the lowest rank that has one, on every rank. Collective: every rank calls this."""
        wait_idly(self.comm)
        found = next((e for e in self.comm.allgather(None if error is None else str(error)) if e is not None), None)
        if found is not None:
            shared = UserError(found)
            shared.is_shared = True
            raise shared from error

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run a paragraph in which any rank may find a user's mistake. Collective: every rank comes here and leaves."""
        error: UserError | None = None
        try:
            yield
        except UserError as mistake:
            error = mistake
        self.agree(error)

    def from_first(self, value: Any) -> Any:
        """Return rank 0's small value on every rank. Collective: every rank calls this."""
        return self.comm.bcast(value)

    def total(self, value: float) -> Any:
        """Return the sum over ranks of a small number. Collective: every rank calls this."""
        return self.comm.allreduce(value)

    def largest(self, value: float) -> Any:
        """Return the largest over ranks of a small number. Collective: every rank calls this."""
        return self.comm.allreduce(value, op=MPI.MAX)

    def sum_up(self, array: NDArray[Any]) -> None:
        """Replace an array by its sum over ranks, everywhere. Collective: every rank calls this."""
        self.comm.Allreduce(MPI.IN_PLACE, array, op=MPI.SUM)

    def take_smallest(self, array: NDArray[Any]) -> None:
        """Replace an array by its smallest values over ranks, everywhere. Collective: every rank calls this."""
        self.comm.Allreduce(MPI.IN_PLACE, array, op=MPI.MIN)

    def barrier(self) -> None:
        """Wait for all ranks. Collective: every rank calls this."""
        self.comm.Barrier()

    @contextmanager
    def first_of_node_first(self) -> Iterator[None]:
        """Run a paragraph on the first rank of each node, then on the others: they find its caches filled."""
        if self.node_rank > 0:
            wait_idly(self.node)
        yield
        if self.node_rank == 0:
            wait_idly(self.node)


def wait_idly(comm: Any) -> None:
    """Wait for all ranks of comm without the busy loop of a barrier: the processor belongs to those who work."""
    request, seconds = comm.Ibarrier(), 1e-5
    while not request.Test():
        time.sleep(seconds)
        seconds = min(2 * seconds, 0.02)


def open_world(refuses_broken_launch: bool = True) -> World:
    """Start MPI, refuse a broken launch, and make sure that an error on one rank ends all. Collective."""
    if refuses_broken_launch:
        check_launch(MPI.COMM_WORLD.size)
    sys.excepthook = abort_on_error
    return World()


def abort_on_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Say which rank failed and end the job: the other ranks would wait for this one for ever."""
    comm = MPI.COMM_WORLD
    text = "".join(traceback.format_exception(kind, error, trace))
    print(f"rank {comm.rank} of {comm.size} failed:\n{text}", file=sys.stderr, end="", flush=True)
    sys.stdout.flush()
    comm.Abort(1)


def end_all(status: int) -> None:
    """End the job because of something that only this rank knows of."""
    if MPI.COMM_WORLD.size > 1:
        MPI.COMM_WORLD.Abort(status)


def leave_together() -> None:
    """Let rank 0 speak before any rank ends with a status that makes the launcher end the others. Collective."""
    wait_idly(MPI.COMM_WORLD)
