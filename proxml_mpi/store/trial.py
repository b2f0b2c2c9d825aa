"""Small HDF5 files, written and read back to see whether a directory and this h5py can do it."""

from pathlib import Path

import h5py
import numpy as np

from proxml_mpi.errors import FileError
from proxml_mpi.ranks.world import World


def versions() -> str:
    """Return the versions of h5py and HDF5."""
    return f"h5py {h5py.version.version}, HDF5 {h5py.version.hdf5_version}"


def try_alone(path: Path) -> None:
    """Write a file and read it back, as one process with HDF5's file locking; FileError when that fails."""
    try:
        with h5py.File(path, "w") as file:
            file["numbers"] = np.arange(10)
        with h5py.File(path, "r") as file:
            _require(path, np.array_equal(file["numbers"][:], np.arange(10)))
    except (OSError, RuntimeError) as error:
        raise FileError(path, f"HDF5 cannot write here: {error}") from error


def try_together(world: World, path: Path) -> None:
    """Let all ranks write one file, and rank 0 read it; FileError on every rank when that fails. Collective."""
    with world.together():
        try:
            with h5py.File(path, "w", driver="mpio", comm=world.comm) as file:
                numbers = file.create_dataset("numbers", (world.size,), np.int64)
                numbers[world.rank] = world.rank
        except (OSError, RuntimeError) as error:
            raise FileError(path, f"the ranks cannot write one HDF5 file here: {error}") from error
    with world.together():
        if world.is_first:
            with h5py.File(path, "r") as file:
                _require(path, np.array_equal(file["numbers"][:], np.arange(world.size)))


def _require(path: Path, is_right: bool) -> None:
    if not is_right:
        raise FileError(path, "what was written to an HDF5 file is not what is read from it")
