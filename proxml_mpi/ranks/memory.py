"""Memory of a node: what a run needs, what there is, and a refusal with numbers when the one exceeds the other."""

import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import psutil

from proxml_mpi.errors import MemoryShortageError
from proxml_mpi.ranks.world import World

log = logging.getLogger("proxml")

MEGA = 1 << 20  # SLURM's unit
UNLIMITED = 1 << 60  # cgroups write "no limit" as a number near 2^63
DOUBT = 0.7  # an estimate from the beginning of a file is believed so far before it is refused


class Room(NamedTuple):
    """So many bytes are left under some limit."""

    n_bytes: int
    limit: str


def check_memory(world: World, shared: Mapping[str, int], private: Mapping[str, int], is_exact: bool) -> int:
    """Print what a node needs beyond what it uses; refuse when that cannot fit. Collective: every rank calls this.

    shared: bytes once a node, by purpose; private: bytes of this rank, by purpose. Returns the largest need of a node.
    """
    used_bytes = sum(world.node.allgather(psutil.Process().memory_info().rss))
    needed = {**shared, **{name: sum(world.node.allgather(n_bytes)) for name, n_bytes in private.items()}}
    n_needed = sum(needed.values())
    parts = ", ".join(f"{name} {gibibytes(n_bytes)}" for name, n_bytes in needed.items() if n_bytes)
    room = smallest_room(rooms(os.environ, Path("/"), used_bytes))
    about = "needs" if is_exact else "needs about"
    log.info("memory: a node %s %s more (%s); %s left by %s", about, gibibytes(n_needed), parts, *_words(room))
    with world.together():
        _refuse(n_needed, parts, room, is_exact)
        if world.node.size > 1:
            _refuse(sum(shared.values()), "shared by the ranks of a node", window_room(os.environ), is_exact)
    return int(world.largest(n_needed))


def rooms(environment: Mapping[str, str], root: Path, used_bytes: int) -> list[Room]:
    """Return what is left under every limit of this machine, control group and SLURM job.

    used_bytes: what the ranks of this node use already, which SLURM's allowance includes.
    """
    found = [Room(_available(root / "proc/meminfo"), "the machine (MemAvailable)")]
    found += _cgroup_rooms(root)
    per_node, per_cpu = environment.get("SLURM_MEM_PER_NODE", ""), environment.get("SLURM_MEM_PER_CPU", "")
    n_cpus = environment.get("SLURM_CPUS_ON_NODE", "")
    if per_node.isdigit() and int(per_node) > 0:
        found.append(Room(int(per_node) * MEGA - used_bytes, f"SLURM_MEM_PER_NODE={per_node}"))
    elif per_cpu.isdigit() and n_cpus.isdigit() and int(per_cpu) > 0:
        limit = f"SLURM_MEM_PER_CPU={per_cpu} x {n_cpus} CPUs"
        found.append(Room(int(per_cpu) * int(n_cpus) * MEGA - used_bytes, limit))
    return found


def smallest_room(found: list[Room]) -> Room:
    """Return the narrowest room; without any, nothing is known to be too large."""
    return min((room for room in found if room.n_bytes < UNLIMITED), default=Room(UNLIMITED, "no limit known"))


def window_room(environment: Mapping[str, str]) -> Room:
    """Return what is left where MPI libraries back the memory that ranks share."""
    folder = Path(environment.get("OMPI_MCA_osc_sm_backing_directory", "/dev/shm"))
    if not folder.is_dir():
        return Room(UNLIMITED, "no limit known")
    return Room(shutil.disk_usage(folder).free, f"{folder}, where MPI keeps shared memory")


def gibibytes(n_bytes: float) -> str:
    """Return a size for people."""
    return f"{n_bytes / 2**30:,.2f} GiB" if abs(n_bytes) >= 2**28 else f"{n_bytes / 2**20:,.1f} MiB"


def _refuse(n_needed: int, parts: str, room: Room, is_exact: bool) -> None:
    if n_needed * (1.0 if is_exact else DOUBT) > room.n_bytes:
        about = "" if is_exact else "about "
        raise MemoryShortageError(
            f"not enough memory: a node needs {about}{gibibytes(n_needed)} more ({parts}), but "
            f"{gibibytes(max(0, room.n_bytes))} is left by {room.limit}; use nodes with more memory, "
            "fewer ranks a node or fewer --threads"
        )


def _words(room: Room) -> tuple[str, str]:
    return ("everything" if room.n_bytes >= UNLIMITED else gibibytes(max(0, room.n_bytes))), room.limit


def _available(meminfo: Path) -> int:
    for line in _read(meminfo).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return UNLIMITED


def _cgroup_rooms(root: Path) -> list[Room]:
    """Return what the control groups of this process leave, version 1 or 2, from its own to the outermost."""
    found = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, controllers, path = (*line.split(":", 2), "", "")[:3]
        if number == "0" and not controllers:
            top, limit_name, usage_name, cache_name = root / "sys/fs/cgroup", "max", "current", "inactive_file"
        elif "memory" in controllers.split(","):
            top, limit_name, usage_name = root / "sys/fs/cgroup/memory", "limit_in_bytes", "usage_in_bytes"
            cache_name = "total_inactive_file"
        else:
            continue
        inner = Path(path.lstrip("/"))
        for group in (top / part for part in (inner, *inner.parents)):
            limit, usage = _read(group / f"memory.{limit_name}"), _read(group / f"memory.{usage_name}")
            if limit.isdigit() and usage.isdigit():
                cache = _statistic(group / "memory.stat", cache_name)
                found.append(
                    Room(int(limit) - int(usage) + cache, f"the control group {group} ({gibibytes(int(limit))})")
                )
    return found


def _statistic(path: Path, name: str) -> int:
    """Return a number of memory.stat: pages of files count as used, but make room when they must."""
    return next((int(line.split()[1]) for line in _read(path).splitlines() if line.split()[:1] == [name]), 0)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""
