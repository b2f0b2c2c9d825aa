"""numba's cache of compiled kernels."""

import os
from pathlib import Path

from proxml_mpi.doctor.finding import Finding, change, fine, note
from proxml_mpi.kernel_cache import VARIABLE, cache_folder, file_system, is_shared, numba_facts
from proxml_mpi.ranks.world import World


def examine_kernels(world: World) -> Finding:
    """Look at the folder that compiled kernels are kept in, on every node. Collective."""
    folder = cache_folder()
    n_closed = world.total(int(not _can_be_written(folder)))
    is_warm = any(folder.rglob("*.nbi"))
    version, layer = numba_facts()
    state = "holds kernels" if is_warm else "is empty: the first start compiles, about a minute"
    found = (
        f"numba {version}, layer {layer} (unused: kernels run on threads of their own), cache {folder} "
        f"({file_system(folder)}) {state}"
    )
    advice = f"{VARIABLE}=/tmp/numba-$USER, or any folder of the node"
    if n_closed:
        return change("kernels", f"{found}; {n_closed} ranks cannot write there and compile at every start", advice)
    if is_shared(folder) and world.n_nodes > 1:
        return note("kernels", f"{found}; all nodes write to it", advice)
    return fine("kernels", found)


def _can_be_written(folder: Path) -> bool:
    """Return whether a folder, or where it will be made, can be written to."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return os.access(there, os.W_OK | os.X_OK)
