"""How fast ranks and nodes exchange data, in a few seconds."""

from proxml_mpi.doctor.finding import Finding, fine, note
from proxml_mpi.ranks.measure import broadcast_speed, exchange_speed
from proxml_mpi.ranks.world import World

SLOW_BYTES = 100e6  # a second: gigabit Ethernet


def examine_network(world: World, seconds: float) -> Finding:
    """Measure rank 0 to the last rank and back, and the broadcast that data take to the nodes. Collective."""
    if world.size == 1:
        return fine("network", "one rank: nothing to measure")
    exchange = world.from_first(exchange_speed(world.comm, seconds / 2))
    broadcast = 0.0
    if world.n_nodes == 1:
        broadcast = broadcast_speed(world.comm, seconds / 2)
    elif world.leaders is not None:
        broadcast = broadcast_speed(world.leaders, seconds / 2)
    broadcast = world.from_first(broadcast)
    to_whom = f"{world.n_nodes} nodes" if world.n_nodes > 1 else f"{world.size} ranks"
    found = f"{gigabytes(exchange)} between rank 0 and rank {world.size - 1}, {gigabytes(broadcast)} to {to_whom}"
    if min(exchange, broadcast) < SLOW_BYTES:
        advice = "slower than gigabit Ethernet: does MPI use the fast network (UCX, libfabric)? ask those who run it"
        return note("network", found, advice)
    return fine("network", found)


def gigabytes(speed: float) -> str:
    """Return a speed for people."""
    return f"{speed / 1e9:.2f} GB/s"
