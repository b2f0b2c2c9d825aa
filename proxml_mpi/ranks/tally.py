"""How far all ranks are, known to rank 0, and the wish to stop, known to all: without anybody waiting."""

import time
from typing import Any

import numpy as np

from proxml_mpi.ranks.mpi import MPI
from proxml_mpi.ranks.world import World

SECONDS_BETWEEN = 0.5  # reports of one rank

COUNT, LEAVE, STOP = range(3)  # the tags of messages


class Tally:
    """A running sum over ranks: every rank adds, rank 0 reads. Any rank may ask all of them to stop.

    Between creation and `close` no rank waits for another; each calls `listen` now and then.
    """

    def __init__(self, world: World) -> None:
        """Collective: every rank calls this."""
        self.comm = world.comm.Dup()
        self.total = 0  # on rank 0, that of all ranks as far as heard of
        self.is_stopping = False
        self._has_asked = False
        self._stopped_by: set[int] = set()  # ranks whose wish has been received
        self._unsent = 0
        self._last_time = time.monotonic()
        self._sent: list[tuple[Any, Any]] = []  # requests, with the buffers that must outlive them
        self._n_running: int = self.comm.size - 1

    def add(self, count: int) -> None:
        """Add to the sum; now and then tell rank 0."""
        if self.comm.rank == 0:
            self.total += count
            return
        self._unsent += count
        if time.monotonic() - self._last_time > SECONDS_BETWEEN:
            self._report()

    def stop_all(self) -> None:
        """Ask every rank to stop; rank 0 passes it on."""
        if not self.is_stopping:
            self.is_stopping = True
            for rank in range(1, self.comm.size) if self.comm.rank == 0 else (0,):
                self._send(0, rank, STOP)
            self._has_asked = True

    def listen(self) -> int:
        """Take in what has arrived; return the total so far, which on rank 0 is that of all."""
        # What was probed is what is received: with any other way, MPICH on several nodes waits for ever.
        while (message := self.comm.Improbe()) is not None:
            self._receive(message)
        return self.total

    def _receive(self, message: Any) -> None:
        status, number = MPI.Status(), np.zeros(1, np.int64)
        message.Recv(number, status)
        if status.Get_tag() == COUNT:
            self.total += int(number[0])
        elif status.Get_tag() == LEAVE:
            self._n_running -= 1
        else:
            self._stopped_by.add(status.Get_source())
            if self.comm.rank == 0:
                self.stop_all()
            self.is_stopping = True

    @property
    def all_left(self) -> bool:
        """Whether, as far as rank 0 has heard, all other ranks have called `leave`."""
        return self._n_running == 0

    def leave(self) -> None:
        """Say that this rank adds no more."""
        if self.comm.rank > 0:
            self._report()
            self._send(0, 0, LEAVE)

    def close(self) -> None:
        """End the tally, no message left behind. Collective: every rank calls this, rank 0 when all have left."""
        asked = self.comm.allgather(self._has_asked)
        for rank in range(1, self.comm.size) if self.comm.rank == 0 else (0,):
            if asked[rank] and rank not in self._stopped_by:
                self.comm.Recv(np.zeros(1, np.int64), source=rank, tag=STOP)
        MPI.Request.Waitall([request for request, _ in self._sent])
        self.comm.Free()

    def _report(self) -> None:
        if self._unsent:
            self._send(self._unsent, 0, COUNT)
        self._unsent = 0
        self._last_time = time.monotonic()

    def _send(self, number: int, rank: int, tag: int) -> None:
        message = np.array([number], np.int64)
        self._sent.append((self.comm.Isend(message, dest=rank, tag=tag), message))
