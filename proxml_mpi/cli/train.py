"""proxml-train: train a model."""

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from proxml_mpi.cli.options import parse
from proxml_mpi.cli.run import run
from proxml_mpi.settings.train import TrainSettings

if TYPE_CHECKING:
    from proxml_mpi.ranks.world import World

DESCRIPTION = """Train one L1-regularised squared-hinge classifier for every label of TRAIN and write them to MODEL,
each with the duality gap that certifies it. Runs alone or under mpirun or srun: ranks share the labels."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    settings = parse(TrainSettings, "proxml-train", DESCRIPTION, arguments)
    command_line = shlex.join(["proxml-train", *(sys.argv[1:] if arguments is None else arguments)])

    def story(world: "World") -> None:
        from proxml_mpi.train import train

        train(settings, world, command_line)

    return run("proxml-train", settings, story)
