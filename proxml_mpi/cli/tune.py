"""proxml-tune: the lambda that held-out instances like best."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from proxml_mpi.cli.options import parse
from proxml_mpi.cli.run import run
from proxml_mpi.settings.tune import TuneSettings

if TYPE_CHECKING:
    from proxml_mpi.ranks.world import World

DESCRIPTION = """Train on a part of TRAIN with every lambda, from the largest down, score the instances that were held
out, and say which lambda is best; with --model, train on all instances with that one.
Runs alone or under mpirun or srun: ranks share the labels, and no result depends on their number."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    settings = parse(TuneSettings, "proxml-tune", DESCRIPTION, arguments)

    def story(world: "World") -> None:
        from proxml_mpi.tune.story import tune

        tune(settings, world)

    return run("proxml-tune", settings, story)
