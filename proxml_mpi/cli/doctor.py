"""proxml-doctor: what to change before a run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from proxml_mpi.cli.options import parse
from proxml_mpi.cli.run import run
from proxml_mpi.settings.doctor import DoctorSettings

if TYPE_CHECKING:
    from proxml_mpi.ranks.world import World

DESCRIPTION = """Say what MPI, launcher, threads, memory, file system, HDF5 and network can do here, and what to change.
Start it as the run will be started: alone, under mpirun or srun. Status 0 when all is well, 2 when something is not."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    settings = parse(DoctorSettings, "proxml-doctor", DESCRIPTION, arguments)

    def story(world: "World") -> None:
        from proxml_mpi.doctor.story import examine

        examine(settings, world)

    return run("proxml-doctor", settings, story, refuses_broken_launch=False)
