"""MPI, the launcher and the nodes."""

import os
import socket
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from proxml_mpi.doctor.finding import Finding, change, fine, note
from proxml_mpi.errors import LaunchError
from proxml_mpi.ranks.launch import SIZE_VARIABLES, check_launch
from proxml_mpi.ranks.measure import library
from proxml_mpi.ranks.world import World


def examine_mpi() -> Finding:
    """Name the MPI library."""
    name, standard, threads = library()
    return fine("MPI", f"{name}, standard {standard}, threads: {threads}")


def examine_launch(world_size: int, environment: Mapping[str, str] = os.environ) -> Finding:
    """Compare the number of ranks with what the launcher and the scheduler say."""
    try:
        check_launch(world_size, environment)
    except LaunchError as error:
        found, _, advice = str(error).partition(". ")
        return change("launch", found, advice)
    said = next((f"{name}={environment[name]}" for name in SIZE_VARIABLES if name in environment), None)
    n_tasks = environment.get("SLURM_NTASKS", "1")
    if said is None and n_tasks.isdigit() and int(n_tasks) > 1:
        found = f"one process in a SLURM job of {n_tasks} tasks"
        return note("launch", found, "begin the command with srun --mpi=pmix, srun --mpi=pmi2 or mpirun to use all")
    return fine("launch", f"{world_size} ranks, as {said} says" if said else "one process, no launcher")


def examine_hosts(world: World) -> Finding:
    """Say where the ranks are. Collective."""
    names = world.comm.gather(os.environ.get("SLURMD_NODENAME") or socket.gethostname())
    n_expected = os.environ.get("SLURM_JOB_NUM_NODES", "")
    found = f"{world.n_nodes} nodes: " + ", ".join(_hosts(names or []))
    if n_expected.isdigit() and world.size > 1 and world.n_nodes != int(n_expected):
        found += f"; the SLURM job has {n_expected} nodes"
        return change("nodes", found, "start ranks on all of them: --ntasks-per-node, or ask for fewer nodes")
    return fine("nodes", found)


def examine_leftovers(world: World, folder: Path | None = None) -> list[Finding]:
    """Say on rank 0 what killed mpiruns left, where later ones may stumble over it. Collective."""
    left = _leftovers(folder or Path(tempfile.gettempdir())) if world.node_rank == 0 else []
    paths = [path for paths in world.comm.gather(left) or [] for path in paths]
    if not paths:
        return []
    found = f"{len(paths)} folders of killed mpiruns, as {paths[0]}"
    advice = "remove them: an mpirun that gets such a process number again ends with 'listener thread failed to start'"
    return [note("leftovers", found, advice)]


def _leftovers(folder: Path) -> list[str]:
    """Return the session folders of Open MPI 5 whose mpirun is no more."""
    numbered = ((path, path.name.partition(".")[2]) for path in folder.glob("ompi.*"))
    return sorted(str(path) for path, number in numbered if number.isdigit() and not psutil.pid_exists(int(number)))


def _hosts(names: list[str]) -> Iterator[str]:
    """List hosts with their ranks, the first few of many."""
    counts = Counter(names)
    for name, count in list(counts.items())[:8]:
        yield f"{name} ({count} ranks)"
    if len(counts) > 8:
        yield f"and {len(counts) - 8} more"
