"""Where numba keeps compiled kernels, and what had to be compiled.

Beside the package's own files is the best place, unless these are on a file system that nodes share: there, kernels of
one node meet those of all others. Then, and where nothing can be written, a folder of this node serves.
"""

import contextlib
import os
import tempfile
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

VARIABLE = "NUMBA_CACHE_DIR"
MOUNTS = Path("/proc/self/mounts")
NETWORK_FILE_SYSTEMS = ("9p", "afs", "ceph", "cifs", "dvs", "glusterfs", "nfs", "nfs4", "smb3", "sshfs")
PARALLEL_FILE_SYSTEMS = ("beegfs", "fhgfs", "gpfs", "lustre", "orangefs", "panfs", "pvfs2", "wekafs")
SHARED_FILE_SYSTEMS = {*NETWORK_FILE_SYSTEMS, *PARALLEL_FILE_SYSTEMS}


def choose_cache(
    environment: MutableMapping[str, str] = os.environ,
    package: Path = Path(__file__).parent,
    mounts: Path = MOUNTS,
    temporary: Path | None = None,
) -> None:
    """Give numba a folder of this node when its own choice is shared or cannot be written; call before it is imported.

    NUMBA_CACHE_DIR, set by the user, is respected.
    """
    if not environment.get(VARIABLE):
        # What numba would choose by itself.
        own = package if os.access(package, os.W_OK) else Path(environment.get("HOME", "/"))
        if is_shared(own, mounts) or not os.access(own, os.W_OK):
            environment[VARIABLE] = str(node_folder(temporary or Path(tempfile.gettempdir())))
    if (package.parent / ".git").exists():
        forget_stale(package, environment.get(VARIABLE))


def forget_stale(package: Path, folder: str | None) -> None:
    """Remove kernels that are older than any source of their room, so that numba compiles them anew.

    numba looks at the file of a kernel, not at those of the kernels that it calls: in a checkout, after an edit or a
    pull, old ones would go on working, on arrays that may have become shorter. (Installing writes all files at once.)
    """
    for room in (package, *(path for path in package.iterdir() if path.is_dir())):
        newest = max((source.stat().st_mtime for source in room.glob("*.py")), default=0.0)
        for kept in Path(folder).glob(f"{room.name}_*") if folder else [room / "__pycache__"]:
            for index in kept.glob("*.nbi"):
                with contextlib.suppress(OSError):  # gone, as other ranks do the same; or not ours to remove
                    if index.stat().st_mtime < newest:
                        index.unlink()


def node_folder(temporary: Path) -> Path:
    """Return a folder for the user's kernels: kernels are code, so nobody else may write there."""
    folder = temporary / f"proxml-numba-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid == os.getuid() and not found.st_mode & 0o022 and not folder.is_symlink():
        return folder
    return Path(tempfile.mkdtemp(prefix="proxml-numba-", dir=temporary))


def cache_folder(environment: MutableMapping[str, str] = os.environ) -> Path:
    """Return where kernels are kept, as far as it is known without asking numba."""
    package = Path(__file__).parent
    own = package if os.access(package, os.W_OK) else Path(environment.get("HOME", "/")) / ".cache" / "numba"
    return Path(environment.get(VARIABLE) or own)


def is_shared(path: Path, mounts: Path = MOUNTS) -> bool:
    """Return whether other nodes see the file system of a path too."""
    return file_system(path, mounts).removeprefix("fuse.") in SHARED_FILE_SYSTEMS


def file_system(path: Path, mounts: Path = MOUNTS) -> str:
    """Return the type of the file system that a path is on, 'unknown' where the system does not tell."""
    absolute, best, kind = path.resolve(), -1, "unknown"
    try:
        lines = mounts.read_text(encoding="utf-8").splitlines()
    except OSError:
        return kind
    for line in lines:
        point = Path(line.split()[1].replace("\\040", " "))
        # The longest of the mount points above a path is its own; of equals, the last hides the others.
        if absolute.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), line.split()[2]
    return kind


def numba_facts() -> tuple[str, str]:
    """Return numba's version and the threading layer that it is set to."""
    from numba import __version__, config

    return __version__, str(getattr(config, "THREADING_LAYER", "unknown"))


class Compilations:
    """The kernels that this process compiles, rather than loads from the cache, from now on."""

    def __init__(self) -> None:
        import numba.core.event

        event: Any = numba.core.event
        self._listener = event.RecordingListener()
        event.register("numba:compile", self._listener)

    @property
    def count(self) -> int:
        return sum(1 for _, each in self._listener.buffer if each.is_start)
