"""Opening HDF5 files: parallel or not, under a temporary name, with errors a user can act on."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from proxml_mpi.errors import FileError, ModelError, SettingsError, UserError
from proxml_mpi.files import reason

SLICE_BYTES = 1 << 30  # older HDF5 fails on transfers of 2 GiB and more
COMPRESSION_AT_MOST = 1100  # what gzip makes of zeros
LOCKING = "if the file system cannot lock files, set HDF5_USE_FILE_LOCKING=FALSE"


def is_parallel() -> bool:
    """Return whether this h5py was built with MPI."""
    return bool(h5py.get_config().mpi)


def choose_parallel(hdf5_io: str, n_ranks: int) -> bool:
    """Return whether all ranks write at once, as --hdf5-io and this h5py allow."""
    if hdf5_io == "parallel" and not is_parallel():
        raise SettingsError("--hdf5-io", "parallel", "auto or serial: this h5py was built without MPI")
    return hdf5_io == "parallel" or (hdf5_io == "auto" and is_parallel() and n_ranks > 1)


@contextmanager
def reading(path: Path, problem: type[FileError] = ModelError, kind: str = "model") -> Iterator[Any]:
    """Open a file for reading; whatever HDF5 finds wrong with it becomes a ModelError, or the problem given."""
    if not path.exists():
        raise problem(path, "does not exist")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except UserError:
        raise
    except BlockingIOError as error:
        raise problem(path, f"is being written by another process ({LOCKING}): {error}") from error
    except (OSError, KeyError, RuntimeError, TypeError, ValueError, MemoryError) as error:
        raise problem(path, f"cannot be read as an HDF5 {kind} file: {error}") from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what HDF5 and the system raise when a file cannot be written into a FileError."""
    try:
        yield
    except OSError as error:
        raise FileError(path, f"cannot be written: {reason(error)}") from error
    except RuntimeError as error:  # a flush or a close that failed; the system's number is somewhere in the story
        number = re.search(r"errno = (\d+)", str(error))
        cause = OSError(int(number[1]), "") if number else OSError(str(error))
        raise FileError(path, f"cannot be written: {reason(cause)}") from error


def check_stored(dataset: Any) -> None:
    """Refuse a dataset that claims to be larger than what the file holds of it, before memory is taken for it."""
    stored, claimed = dataset.id.get_storage_size(), dataset.nbytes
    if claimed > stored * (COMPRESSION_AT_MOST if dataset.chunks else 1):
        raise ValueError(f"{dataset.name}: found {stored} bytes in the file, expected {claimed}")


def read_slice(dataset: Any, begin: int, end: int) -> NDArray[Any]:
    """Read dataset[begin:end] in transfers that every HDF5 can do."""
    check_stored(dataset)
    values = np.empty(end - begin, dataset.dtype)
    fill_from(dataset, begin, values)
    return values


def fill_from(dataset: Any, begin: int, target: NDArray[Any]) -> None:
    """Read dataset[begin:] straight into an array, as far as that goes, in transfers that every HDF5 can do."""
    step = max(1, SLICE_BYTES // dataset.dtype.itemsize)
    for at in range(0, len(target), step):
        part = target[at : at + step]
        dataset.read_direct(part, slice(begin + at, begin + at + len(part)))


def write_slice(dataset: Any, begin: int, values: NDArray[Any]) -> None:
    """Write values to dataset[begin:] in transfers that every HDF5 can do."""
    step = max(1, SLICE_BYTES // dataset.dtype.itemsize)
    for at in range(0, len(values), step):
        part = values[at : at + step]
        dataset[begin + at : begin + at + len(part)] = part
