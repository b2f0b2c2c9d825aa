"""Files that appear under their name only when they are complete and on the disk."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO

from proxml_mpi.errors import FileError


def check_target(path: Path, overwrite: bool) -> None:
    """Refuse a file that cannot be written, before any work is done for it."""
    if path.is_dir():
        raise FileError(path, "is a directory, expected the name of a file")
    if path.exists() and not overwrite:
        raise FileError(path, "exists already: give another name, or --overwrite to replace it")
    if not path.parent.is_dir():
        raise FileError(path, f"directory {path.parent} does not exist")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise FileError(path, f"directory {path.parent} cannot be written to")


@contextmanager
def replace_file(path: str | PathLike[str]) -> Iterator[IO[bytes]]:
    """Write a file under a temporary name beside it; leaving this in peace gives it its name."""
    temporary = partial_name(Path(path))
    try:
        with temporary.open("wb") as stream:
            yield stream
        put_in_place(temporary, Path(path))
    except OSError as error:
        raise FileError(path, f"cannot be written: {reason(error)}") from error
    finally:
        temporary.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> None:
    """Write a small text file, replacing what was there."""
    with replace_file(path) as stream:
        stream.write(text.encode())


def partial_name(path: Path) -> Path:
    """Return the name that a file has until it is complete."""
    return path.with_name(f".{path.name}.partial")


def put_in_place(temporary: Path, path: Path) -> None:
    """Give a finished file its name, once its content is on the disk; OSError when that fails."""
    _sync(temporary)
    temporary.replace(path)
    _sync(path.parent)


def reason(error: OSError) -> str:
    """Return why the system refused, in words."""
    reasons = {
        FileNotFoundError: "no such file",
        IsADirectoryError: "it is a directory, expected a file",
        PermissionError: "permission denied",
    }
    if type(error) in reasons:
        return reasons[type(error)]
    # HDF5 tells long stories; the system's number says it in a few words.
    return (os.strerror(error.errno) if error.errno else " ".join(str(error).split())).lower()


def _sync(path: Path) -> None:
    """Make sure that a file, or a directory's list of names, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
