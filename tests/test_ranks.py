"""Who owns what, who may use how many threads, and what all ranks do together."""

import itertools
import time
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi4py import MPI
from pytest_mpi import parallel_assert

from proxml_mpi.errors import LaunchError, UserError
from proxml_mpi.ranks import shared
from proxml_mpi.ranks.claims import Claims
from proxml_mpi.ranks.exchange import collect_rows, exchange_rows
from proxml_mpi.ranks.launch import announced_rank, check_launch
from proxml_mpi.ranks.partition import partition, share_of
from proxml_mpi.ranks.shared import broadcast, publish, share, share_filled, verify_arrival
from proxml_mpi.ranks.tally import Tally
from proxml_mpi.ranks.threads import fair_share
from proxml_mpi.ranks.world import World


def best_bottleneck(costs: list[float], n_ranks: int) -> float:
    """The cheapest costliest range, by trying all cuts."""
    cuts = itertools.combinations_with_replacement(range(len(costs) + 1), n_ranks - 1)
    bounds = ((0, *cut, len(costs)) for cut in cuts)
    return min(max(sum(costs[a:b]) for a, b in itertools.pairwise(b)) for b in bounds)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(costs=st.lists(st.floats(0, 100), max_size=8), n_ranks=st.integers(1, 4))
def test_partition_is_contiguous_and_as_even_as_can_be(costs: list[float], n_ranks: int) -> None:
    bounds = partition(np.array(costs, np.float64), n_ranks)
    assert bounds[0] == 0 and bounds[-1] == len(costs) and np.all(np.diff(bounds) >= 0)
    costliest = max(sum(costs[a:b]) for a, b in itertools.pairwise(bounds))
    assert costliest <= best_bottleneck(costs, n_ranks) * (1 + 1e-9) + 1e-9


def test_shares_cover_everything_once() -> None:
    for n_items, n_ranks in ((0, 3), (2, 5), (10, 3), (9, 3)):
        shares = [share_of(n_items, n_ranks, rank) for rank in range(n_ranks)]
        assert [i for a, b in shares for i in range(a, b)] == list(range(n_items))


def test_threads_are_a_fair_share_of_the_cores() -> None:
    eight = set(range(8))
    assert fair_share(eight, [eight], {}) == 8
    assert fair_share(eight, [eight] * 3, {}) == 2
    assert fair_share({3}, [{3}, {4}], {}) == 1
    assert fair_share({0, 1}, [{0, 1}, {2, 3}], {}) == 2
    assert fair_share({0}, [{0}] * 5, {}) == 1
    assert fair_share(eight, [eight], {"SLURM_CPUS_PER_TASK": "4"}) == 4


def test_launch_is_checked_against_the_launcher_that_is_nearest() -> None:
    check_launch(1, {})
    check_launch(4, {"OMPI_COMM_WORLD_SIZE": "4", "SLURM_STEP_NUM_TASKS": "2"})  # mpirun inside an allocation
    check_launch(1, {"SLURM_NTASKS": "8"})  # a serial command inside a batch script
    check_launch(3, {"PMI_SIZE": "3"})
    for name in ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
        with pytest.raises(LaunchError, match=f"{name}=3.*a world of 1.*srun --mpi=pmix"):
            check_launch(1, {name: "3"})
    assert announced_rank({}) == 0 and announced_rank({"PMI_RANK": "2"}) == 2


class Pair(NamedTuple):
    numbers: np.ndarray
    words: np.ndarray


@pytest.mark.parallel([1, 2, 3])
def test_shared_arrays_are_equal_everywhere_and_one_copy() -> None:
    with World() as world:
        wanted = Pair(np.arange(7, dtype=np.float32), np.zeros((0,), np.int64))
        pair = share(world, wanted if world.is_first else None)
        parallel_assert(isinstance(pair, Pair))
        parallel_assert(all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(pair, wanted, strict=True)))
        # What the last rank writes, the first one sees: it is the same memory.
        world.barrier()
        if world.rank == world.size - 1:
            pair.numbers[3] = 33
        publish(world)
        parallel_assert(pair.numbers[3] == 33)
        del pair


@pytest.mark.parallel([2, 3])
def test_nodes_get_a_copy_each() -> None:
    """Two nodes, simulated by splitting the ranks."""
    comm = MPI.COMM_WORLD
    with World(node=comm.Split(comm.rank % 2, comm.rank)) as world:
        pair = share(world, Pair(np.arange(5), np.ones(2)) if world.is_first else None)
        parallel_assert(world.n_nodes == 2)
        parallel_assert(np.array_equal(pair.numbers, np.arange(5)))
        world.barrier()
        if world.rank == 1:
            pair.numbers[0] = 99
        publish(world)
        parallel_assert(pair.numbers[0] == (99 if world.rank % 2 == 1 else 0))
        del pair


@pytest.mark.parallel([2, 3])
def test_rank_0_fills_arrays_in_their_place_on_simulated_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rank is a node of its own; slices are small, so that there are many."""
    monkeypatch.setattr(shared, "SLICE_BYTES", 100)
    comm = MPI.COMM_WORLD
    with World(node=comm.Split(comm.rank, 0)) as world:

        def fill(pair: Pair) -> None:
            pair.numbers[:], pair.words[:] = np.arange(999), 7

        pair = share_filled(world, Pair, [("<f8", (999,)), ("<i4", (3,))], fill)
        parallel_assert(world.n_nodes == comm.size)
        parallel_assert(np.array_equal(pair.numbers, np.arange(999)) and np.array_equal(pair.words, [7, 7, 7]))
        del pair


@pytest.mark.parallel([2, 3])
def test_what_arrives_damaged_is_noticed() -> None:
    comm = MPI.COMM_WORLD
    arrays = [np.arange(100), np.ones(3, np.float32)]
    verify_arrival(comm, arrays)
    if comm.rank == comm.size - 1:
        arrays[1][2] = 2
    message = ""
    try:
        verify_arrival(comm, arrays)
    except RuntimeError as error:
        message = str(error)
    parallel_assert((f"node {comm.rank}: the data arrived" in message) == (comm.rank == comm.size - 1))


@pytest.mark.parallel([1, 2, 3])
def test_windows_are_freed_down_to_a_mark() -> None:
    with World() as world:
        kept = share(world, Pair(np.arange(5), np.ones(2)) if world.is_first else None)
        dropped = share(world, Pair(np.arange(7), np.ones(2)) if world.is_first else None)
        del dropped
        world.free_windows(1)
        # A rank alone on its node has the arrays in memory of its own, without windows.
        parallel_assert(len(world.windows) == (world.node.size > 1) and np.array_equal(kept.numbers, np.arange(5)))
        del kept


@pytest.mark.parallel([1, 3])
def test_broadcast_in_slices() -> None:
    comm = MPI.COMM_WORLD
    array = np.arange(1000, dtype=np.float64) if comm.rank == 0 else np.zeros(1000)
    broadcast(comm, array, slice_bytes=777)
    parallel_assert(np.array_equal(array, np.arange(1000)))


@pytest.mark.parallel([1, 2, 3])
def test_one_rank_s_mistake_is_everybody_s_with_one_message() -> None:
    with World() as world:
        caught = None
        try:
            with world.together():
                if world.rank == world.size - 1:
                    raise UserError("line 7 is wrong")
        except UserError as error:
            caught = error
        parallel_assert(caught is not None and str(caught) == "line 7 is wrong" and caught.is_shared)
        with world.together():
            pass


@pytest.mark.parallel([1, 2, 3])
def test_tally_reaches_rank_0_without_anybody_waiting() -> None:
    with World() as world:
        tally = Tally(world)
        for _ in range(10):
            tally.add(world.rank + 1)
        tally.leave()
        while world.is_first and not tally.all_left:
            tally.listen()
        parallel_assert(tally.total == 10 * sum(range(1, world.size + 1)), participating=world.is_first)
        tally.close()


@pytest.mark.parallel([2, 3])
def test_first_of_node_goes_first() -> None:
    with World() as world:
        with world.first_of_node_first():
            stamp = time.monotonic()
        times = world.comm.allgather(stamp)
        parallel_assert(min(times) == times[0])


@pytest.mark.parallel([1, 2, 3])
@pytest.mark.parametrize("n_rows", [0, 1, 2, 7])
def test_rows_change_hands_and_come_together(n_rows: int) -> None:
    with World() as world:
        rows = np.arange(n_rows * 2, dtype=np.float32).reshape(n_rows, 2) + 100 * world.rank
        received = exchange_rows(world, rows)
        first, end = share_of(n_rows, world.size, world.rank)
        base = np.arange(n_rows * 2).reshape(n_rows, 2)[first:end]
        parallel_assert(all(np.array_equal(received[r], base + 100 * r) for r in range(world.size)))
        collected = collect_rows(world, received[0])
        parallel_assert(collected is None or np.array_equal(collected, np.arange(n_rows * 2).reshape(n_rows, 2)))


@pytest.mark.parallel([1, 2, 3])
def test_every_block_is_taken_once_and_the_idle_help() -> None:
    with World() as world:
        n_blocks = 40 if world.is_first else 1
        taken = []
        for claim in Claims(world, n_blocks).take():
            taken.append(claim)
            time.sleep(1.0 if claim == (0, 0) else 0.001)
        # Its own first, in their order; a rank that is slow to start may find its first ones taken.
        own = [claim for claim in taken if claim[0] == world.rank]
        parallel_assert(taken[: len(own)] == own == sorted(own))
        everything = [claim for claims in world.comm.allgather(taken) for claim in claims]
        expected = [(0, block) for block in range(40)] + [(rank, 0) for rank in range(1, world.size)]
        parallel_assert(sorted(everything) == expected)
        parallel_assert(world.size == 1 or not world.is_first or len(taken) < 40)


@pytest.mark.parallel(3)
def test_nodes_do_not_take_each_other_s_blocks() -> None:
    node = MPI.COMM_WORLD.Split(MPI.COMM_WORLD.rank // 2, MPI.COMM_WORLD.rank)
    with World(node=node) as world:
        taken = list(Claims(world, 2).take())
        mine = {rank for rank, _ in taken}
        parallel_assert(mine <= ({0, 1} if world.rank < 2 else {2}))
        parallel_assert(world.total(len(taken)) == 6)
