"""What the launcher's environment says, read without starting MPI."""

import os
from collections.abc import Mapping

from proxml_mpi.errors import LaunchError

RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")


def announced_rank(environment: Mapping[str, str] = os.environ) -> int:
    """Return the rank that the launcher gave to this process, 0 without one."""
    return next((int(environment[name]) for name in RANK_VARIABLES if environment.get(name, "").isdigit()), 0)


def announced_size(environment: Mapping[str, str] = os.environ) -> int:
    """Return the number of processes that the launcher says it started, 1 without one."""
    return next((int(environment[name]) for name in SIZE_VARIABLES if environment.get(name, "").isdigit()), 1)


def check_launch(world_size: int, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse a launch that gave every process a world of its own.

    A launcher that does not speak this MPI library's protocol starts N silent singletons, all of them rank 0 of 1, all
    writing the same file. mpirun's own variables come first: inside a SLURM allocation it starts one step a node.
    """
    for name in SIZE_VARIABLES:
        announced = environment.get(name, "")
        if announced.isdigit():
            if int(announced) != world_size:
                raise LaunchError(
                    f"the launcher started {announced} processes ({name}={announced}), but MPI sees a world of "
                    f"{world_size}: launcher and MPI library do not match. Under SLURM use 'srun --mpi=pmix' "
                    "(Open MPI) or 'srun --mpi=pmi2' (MPICH, Intel MPI), or the mpirun of mpi4py's MPI library"
                )
            return
