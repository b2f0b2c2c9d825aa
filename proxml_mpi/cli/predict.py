"""proxml-predict: predict with a model and evaluate it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from proxml_mpi.cli.options import parse
from proxml_mpi.cli.run import run
from proxml_mpi.settings.predict import PredictSettings

if TYPE_CHECKING:
    from proxml_mpi.ranks.world import World

DESCRIPTION = """Predict the best labels of every instance of TEST with MODEL and print the metrics.
Runs alone or under mpirun or srun: ranks share the labels, and no result depends on their number."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    settings = parse(PredictSettings, "proxml-predict", DESCRIPTION, arguments)

    def story(world: "World") -> None:
        from proxml_mpi.predict import predict

        predict(settings, world)

    return run("proxml-predict", settings, story)
