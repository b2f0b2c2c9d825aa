"""The directory that the model will be written to, and HDF5."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proxml_mpi.doctor.finding import Finding, change, fine, note
from proxml_mpi.errors import UserError
from proxml_mpi.files import reason
from proxml_mpi.kernel_cache import file_system
from proxml_mpi.ranks.world import World
from proxml_mpi.store.hdf5 import LOCKING, is_parallel
from proxml_mpi.store.trial import try_alone, try_together, versions

SECONDS_TO_APPEAR = 5.0  # network file systems show a new file a little later elsewhere
GET_PARALLEL = (
    "to let ranks write at once: the cluster's module of h5py with parallel HDF5, or docs/cluster.md; "
    "nothing but the time of writing the model depends on it"
)


def examine_directory(world: World, folder: Path) -> list[Finding]:
    """Write, see on all nodes, and lock files where the model will be; then HDF5 there. Collective."""
    trial = world.from_first(_begin(folder) if world.is_first else None)
    if isinstance(trial, str):
        return [change("directory", trial, "choose a directory that can be written to: --directory")]
    with _removed(world, trial):
        n_blind = world.total(int(not _appears(trial)))
        place = f"{file_system(folder)} file system"
        if n_blind:
            found = f"{place}: {n_blind} of {world.size} ranks do not see a file that rank 0 wrote"
            advice = "choose a directory that all nodes share"
            return [change("directory", found, advice), examine_hdf5(world, None)]
        lock = world.from_first(_try_lock(trial) if world.is_first else None)
        return [_judge_lock(place, lock), examine_hdf5(world, trial)]


def examine_hdf5(world: World, trial: Path | None) -> Finding:
    """Write HDF5 files as training does, when there is a place for them. Collective."""
    how = "parallel" if is_parallel() else "serial: ranks write one after the other"
    found = f"{versions()}, {how}"
    try:
        if trial is not None:
            with world.together():
                if world.is_first:
                    try_alone(trial)
            if is_parallel():
                try_together(world, trial)
    except UserError as error:
        return change("HDF5", f"{found}; {error}", f"{LOCKING}; else --hdf5-io serial")
    if not is_parallel() and world.size > 1:
        return note("HDF5", found, GET_PARALLEL)
    return fine("HDF5", found + ("" if trial is None else "; writing works"))


def _begin(folder: Path) -> Path | str:
    """Write the file of the trial, or return why that cannot be."""
    trial = folder.resolve() / f".proxml-doctor-{os.getpid()}"
    try:
        trial.write_text("trial", encoding="utf-8")
    except OSError as error:
        return f"{folder} cannot be written to: {reason(error)}"
    return trial


@contextmanager
def _removed(world: World, trial: Path) -> Iterator[None]:
    """Remove the file of the trial afterwards. Collective; after a defect nobody waits for anybody."""
    yield
    world.barrier()
    if world.is_first:
        trial.unlink(missing_ok=True)


def _appears(trial: Path) -> bool:
    """Return whether this rank sees the file, soon."""
    deadline = time.monotonic() + SECONDS_TO_APPEAR
    while not trial.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _try_lock(trial: Path) -> str:
    """Lock the file as the journal does; return why that fails, or nothing."""
    try:
        with trial.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return reason(error)
    return ""


def _judge_lock(place: str, lock: str) -> Finding:
    if lock:
        advice = "keep the journal elsewhere with --scratch DIR, or have the file system mounted with flock"
        return change("directory", f"{place}, files cannot be locked: {lock}", advice)
    found = f"{place}, seen by all ranks, files can be locked"
    if place.startswith("lustre"):
        advice = "for models of many GiB: lfs setstripe -c 8 DIRECTORY before training"
        return note("directory", found, advice)
    return fine("directory", found)
