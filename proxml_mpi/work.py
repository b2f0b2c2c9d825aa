"""The solve stage: which labels are left, who solves them, and what is kept as they finish."""

import functools
import itertools
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxml_mpi.data.dataset import Lists
from proxml_mpi.errors import UserError
from proxml_mpi.progress import Progress, log
from proxml_mpi.ranks.claims import Claims
from proxml_mpi.ranks.partition import partition, share_of
from proxml_mpi.ranks.tally import Tally
from proxml_mpi.ranks.world import World
from proxml_mpi.solve.block import Block, assemble_block
from proxml_mpi.solve.labels import Solver, expected_costs, solve_labels
from proxml_mpi.solve.problem import Outcome, Solution, Start
from proxml_mpi.stopping import StopSignals
from proxml_mpi.store.journal import BlockError, Journal

SECONDS_BETWEEN_BLOCKS = 0.5  # a write is a few milliseconds of waiting for the disk
SECONDS_BETWEEN_WRITES = 5.0  # at most, once something is finished
BLOCKS_PER_RANK = 64  # at least, where there are labels enough


class Work(NamedTuple):
    """What there is to do; the same on every rank."""

    positives: Lists  # by label
    n_positives: NDArray[np.int64]  # [n_labels]
    penalties: NDArray[np.float64]  # [n_labels]
    first_label: int  # of the part to train
    end_label: int
    block_size: int  # labels, at most

    def positives_of(self, label: int) -> NDArray[np.int32]:
        return self.positives.indices[self.positives.indptr[label] : self.positives.indptr[label + 1]]

    def penalty_of(self, label: int) -> float:
        return float(self.penalties[label])


def read_finished(world: World, journal: Journal) -> list[Block]:
    """Read this rank's share of the finished blocks; damaged ones are named and taken away. Collective."""
    paths = world.from_first(journal.block_files() if world.is_first else None)
    blocks = []
    with world.together():
        for path in paths[slice(*share_of(len(paths), world.size, world.rank))]:
            try:
                blocks.append(journal.read(path))
            except BlockError as error:
                log.warning("%s: %s; its labels are solved again", path, error)
                journal.discard(path)
    return blocks


def labels_left(world: World, work: Work, blocks: Sequence[Block]) -> NDArray[np.int64]:
    """Return the labels that no rank has a finished block of. Collective."""
    is_left = np.zeros(len(work.n_positives), np.bool_)
    is_left[work.first_label : work.end_label] = True
    for first, end in itertools.chain(*world.comm.allgather([(b.first_label, b.end_label) for b in blocks])):
        is_left[first:end] = False
    return np.flatnonzero(is_left)


def cut_blocks(labels: NDArray[np.int64], costs: NDArray[np.float64], block_size: int) -> list[NDArray[np.int64]]:
    """Cut one rank's labels into blocks of neighbours, the costliest block first.

    A block ends at a gap, at block_size labels, or when it holds its share of the costs: so a rank has many blocks,
    little is lost with one, and the last ones, which threads wait for, are cheap.
    """
    if len(labels) == 0:
        return []
    limit = costs[labels].sum() / BLOCKS_PER_RANK
    shares = np.floor(np.cumsum(costs[labels]) / limit) if limit > 0 else np.zeros(len(labels))
    is_cut = (np.diff(labels) != 1) | (np.diff(shares) > 0)
    runs = np.split(labels, np.flatnonzero(is_cut) + 1)
    blocks = [run[at : at + block_size] for run in runs for at in range(0, len(run), block_size)]
    return sorted(blocks, key=lambda block: -float(costs[block].sum()))


def solve_blocks(
    world: World,
    work: Work,
    solver: Solver,
    starts: Callable[[int], Start],
    left: NDArray[np.int64],
    journal: Journal,
    signals: StopSignals,
    n_threads: int,
) -> list[Block]:
    """Solve this rank's part of what is left, help others of the node, and journal what is finished. Collective.

    Returns what this rank has finished: together all that was left, unless the signals of any rank asked for a stop. A
    journal that cannot be written, on any rank, stops all of them and is then everybody's mistake.
    """
    costs = expected_costs(work.n_positives, work.penalties)
    bounds = partition(costs[left], world.size)

    @functools.cache
    def blocks_of(rank: int) -> list[NDArray[np.int64]]:
        return cut_blocks(left[bounds[rank] : bounds[rank + 1]], costs, work.block_size)

    desk = _Desk(work, journal)
    claims = Claims(world, len(blocks_of(world.rank)))
    blocks = (blocks_of(rank)[number] for rank, number in claims.take())
    order = itertools.chain.from_iterable(map(desk.open, blocks))
    stop = np.zeros(1, np.uint8)
    tally = Tally(world)
    progress = Progress("solve", "labels", len(left), speaks=world.is_first)
    for solved in solve_labels(solver, order, work.positives_of, work.penalty_of, n_threads, stop, starts):
        trained = [(label, solution) for label, solution in solved if solution.outcome != Outcome.not_trained]
        for label, solution in trained:
            desk.add(label, solution)
        tally.add(len(trained))
        desk.write_now_and_then()
        if signals.wanted() or desk.mistake is not None:
            tally.stop_all()
        progress.show(tally.listen())
        if tally.is_stopping:
            stop[0] = 1
    desk.write_all()
    if desk.mistake is not None:
        tally.stop_all()

    tally.leave()
    while world.is_first and not tally.all_left:
        time.sleep(0.05)
        if signals.wanted():
            tally.stop_all()
        progress.show(tally.listen())
    progress.close()
    tally.close()
    world.agree(desk.mistake)
    return desk.finished


class _Desk:
    """One rank's labels in hand: solutions wait here until neighbours can be journalled together."""

    def __init__(self, work: Work, journal: Journal) -> None:
        self.finished: list[Block] = []
        self.mistake: UserError | None = None  # why nothing can be journalled any more
        self._work, self._journal = work, journal
        self._block_of: dict[int, list[int]] = {}  # by label in hand
        self._n_missing: dict[int, int] = {}  # by the first label of a block in hand
        self._waiting: dict[int, Solution] = {}
        self._complete: list[int] = []  # labels that wait in blocks of which nothing is missing
        self._last_time = time.monotonic()

    def open(self, block: NDArray[np.int64]) -> list[int]:
        """Expect the solutions of a block; return its labels."""
        labels: list[int] = block.tolist()
        self._block_of |= dict.fromkeys(labels, labels)
        self._n_missing[labels[0]] = len(labels)
        return labels

    def add(self, label: int, solution: Solution) -> None:
        """Take a solution."""
        self._waiting[label] = solution
        block = self._block_of.pop(label)
        self._n_missing[block[0]] -= 1
        if self._n_missing[block[0]] == 0:
            self._complete += block

    def write_now_and_then(self) -> None:
        """Write complete blocks soon, though not so often that it costs; and what has waited for long anyhow."""
        waited = time.monotonic() - self._last_time
        if waited > SECONDS_BETWEEN_WRITES:
            self.write_all()
        elif self._complete and waited > SECONDS_BETWEEN_BLOCKS:
            self._write(sorted(self._complete))
            self._complete.clear()

    def write_all(self) -> None:
        """Write whatever waits."""
        self._write(sorted(self._waiting))
        self._complete.clear()

    def _write(self, labels: Sequence[int]) -> None:
        """Write those of the labels that wait, as blocks of neighbours."""
        ready = np.array([label for label in labels if label in self._waiting], np.int64)
        for run in np.split(ready, np.flatnonzero(np.diff(ready) != 1) + 1):
            if len(run):
                solutions = [self._waiting.pop(label) for label in run.tolist()]
                block = assemble_block(int(run[0]), solutions, self._work.n_positives[run], self._work.penalties[run])
                self._keep(block)
        self._last_time = time.monotonic()

    def _keep(self, block: Block) -> None:
        """Put a block into the journal, unless that has failed before: then all ranks are about to stop."""
        try:
            if self.mistake is None:
                self._journal.write(block)
        except UserError as mistake:
            self.mistake = mistake
        self.finished.append(block)
